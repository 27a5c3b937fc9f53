#!/bin/sh
# Runs each fuzz target for so many seconds, or those that are named after that:
#
#   tests/fuzz.sh [SECONDS [TARGET...]]
#
# Stable Rust and a C++ compiler do: the flags are those that cargo-fuzz gives (its project.rs), for the target
# alone, so that build scripts and macros run as they are. A target writes its first inputs itself
# (fuzz_targets/seeds.rs) and keeps what it finds, in fuzz/corpus; what makes it fail is in fuzz/artifacts.
set -eu
cd "$(dirname "$0")/../fuzz"
seconds="${1:-5}"
[ $# -eq 0 ] || shift
host="$(rustc -vV | sed -n 's/^host: //p')"
# shellcheck disable=SC2046 # The names are split on purpose.
[ $# -gt 0 ] || set -- $(sed -n '/^\[\[bin\]\]/,/^$/s/^name = "\(.*\)"$/\1/p' Cargo.toml)

coverage=-sanitizer-coverage
RUSTFLAGS="-Ccodegen-units=1 -Cpasses=sancov-module -Cllvm-args=$coverage-level=4 \
-Cllvm-args=$coverage-inline-8bit-counters -Cllvm-args=$coverage-pc-table -Cllvm-args=$coverage-trace-compares" \
    cargo build --locked --release --target "$host"
for target; do
    mkdir -p "artifacts/$target" "corpus/$target"
    "target/$host/release/$target" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=60 \
        -print_final_stats=1 -verbosity=0 -artifact_prefix="artifacts/$target/" "corpus/$target" ||
        { echo "tests/fuzz.sh: error: $target fails; the input is in fuzz/artifacts/$target" >&2; exit 1; }
done
