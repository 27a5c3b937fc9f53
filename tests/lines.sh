#!/bin/sh
# Prints the lines of each folder of src: production (comments and blanks included), comments among them, and
# tests, which are files of tests, fixtures, and what follows `#[cfg(test)]` with a module of its own.
set -eu
cd "$(dirname "$0")/.."
find src -name '*.rs' -print0 | sort -z | xargs -0 awk '
    FNR == 1 { tests = FILENAME ~ /tests?\.rs$|\/tests\/|\/fixture\.rs$/; split(FILENAME, part, "/"); folder = part[2] }
    held { if (/^mod .*\{/) tests = 1; count(held); held = "" }
    /^#\[cfg\(test\)\]/ && !tests { held = $0; next }
    { count($0) }
    function count(line) {
        if (tests) { test[folder]++; all_tests++; return }
        lines[folder]++; all_lines++
        if (line ~ /^ *\/\//) { comment[folder]++; all_comments++ }
    }
    END {
        printf "%-10s %10s %10s %10s\n", "folder", "production", "comments", "tests"
        for (folder in lines) printf "%-10s %10d %10d %10d\n", folder, lines[folder], comment[folder], test[folder] | "sort"
        close("sort")
        printf "%-10s %10d %10d %10d\n", "all", all_lines, all_comments, all_tests
    }'
