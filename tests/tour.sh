#!/bin/sh
# Has the lab make and measure JFS, nilfs2, f2fs and ReiserFS beside ext4, XFS and btrfs, on a device
# and on an image. Run it as root where the kernel has them and their mkfs are there, with a device
# that may be destroyed:
#
#     tests/tour.sh target/release/syncprof /dev/nvme1n1
#
# Few kernels have them all. Where MACHINE is a command that boots one that does, the test runs there:
#
#     MACHINE="boot-a-machine --disk 3G" tests/tour.sh BINARY /dev/nvme0n1
#
# The command is given `--file PROGRAM` for each program that is carried in (into a folder that comes
# first in the machine's PATH, with the libraries it needs), then `--` and a line for its shell, whose
# exit status it passes on. BINARY should be linked statically (-C target-feature=+crt-static). Tables
# and records are left in $RESULTS, if it is given. Exits 1 if a check failed.
set -u

[ $# -eq 2 ] && [ -x "$1" ] || { echo "usage: $0 BINARY DEVICE" >&2; exit 2; }
PATH="$PATH:/usr/sbin:/sbin"
export PATH
# Those that the lab's profile makes, but for bcachefs, whose mkfs is rare.
wanted="ext2 ext3 ext4 xfs btrfs jfs nilfs2 f2fs reiserfs exfat"

if [ -n "${MACHINE:-}" ]; then
    carried="--file $0 --file $1"
    for fs in $wanted; do
        tool=$(command -v "mkfs.$fs") || { echo "$0: no mkfs.$fs to carry in" >&2; exit 2; }
        carried="$carried --file $tool"
    done
    # shellcheck disable=SC2086 # Several words each.
    exec $MACHINE $carried -- "RESULTS=${RESULTS:-} sh \"\$(command -v ${0##*/})\" \"\$(command -v ${1##*/})\" $2"
fi

[ "$(id -u)" -eq 0 ] || { echo "$0: needs root" >&2; exit 2; }
syncprof=$(readlink -f "$1")
device=$(readlink -f "$2")
name=$(basename "$device")
work=$(mktemp -d "${TMPDIR:-/tmp}/syncprof-tour.XXXXXX") || exit 2
results=${RESULTS:-$work/results}
mkdir -p "$results" "$work/mount" || exit 2
XDG_STATE_HOME="$work/state"
export XDG_STATE_HOME
passed=0
failed=0

pass() { passed=$((passed + 1)); echo "ok    $1"; }
fail() { failed=$((failed + 1)); echo "FAIL  $1"; }
check() { # WHAT COMMAND...
    what=$1
    shift
    if "$@"; then pass "$what"; else fail "$what"; fi
}
finish() {
    umount "$work/mount" 2>/dev/null
    rm -rf --one-file-system "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

# Mounts and loop devices, as they should be again afterwards.
around() {
    cat /proc/self/mountinfo
    cat /sys/block/loop*/loop/backing_file 2>/dev/null
}

# The rows of a filesystem with a figure at both sizes; $3 is what each throughput is followed by.
rows() { # RUN FS RATIO
    grep -cE "^ +[-!0-9]+  $2 +[0-9.]+ +$3.* [0-9.]+ +$3" "$results/$1.txt"
}

# The lab's tour, and what must hold of it.
tour() { # RUN RATIO ARGUMENT...
    run=$1
    ratio=$2
    shift 2
    around >"$work/before"
    "$syncprof" lab fs-tour "$@" --span 8m --budget 3m --json "$results/$run.json" \
        >"$results/$run.txt" 2>"$results/$run.err"
    status=$?
    around >"$work/after"
    cat "$results/$run.txt" "$results/$run.err"
    for fs in $wanted "btrfs nodatacow"; do
        check "$run: $fs is measured, overwritten and appended to" \
            [ "$(rows "$run" "$fs" "$ratio")" -eq 2 ]
        check "$run: $fs was mounted" grep -q "\"fs_type\":\"${fs%% *}\",\"dev\"" "$results/$run.json"
    done
    sed -n '/^Not measured$/,/^$/p' "$results/$run.txt" | sed -n '3,$p' | grep . >"$work/missing"
    check "$run: none but bcachefs is missing" [ -z "$(grep -v '^bcachefs ' "$work/missing")" ]
    check "$run: exit status $status" [ $status -eq "$(wc -l <"$work/missing")" ]
    check "$run: no mount and no loop device is left" cmp -s "$work/before" "$work/after"
    check "$run: nothing is left in the state folder" [ -z "$(ls "$work/state/syncprof")" ]
    # JFS never flushes a drive's cache, and a report that ranked it with the others would mislead.
    check "$run: JFS's writes are called not durable" grep -q '^Danger: jfs: ' "$results/$run.txt"
    check "$run: nilfs2's direct writes are called buffered" grep -q 'nilfs2: writes were buffered' "$results/$run.txt"
    "$syncprof" report "$results/$run.json" >"$work/again" 2>/dev/null
    check "$run: the record gives the same tables" cmp -s "$work/again" "$results/$run.txt"
}

echo "A machine that is emulated tells what a filesystem does, not how fast it is."
uname -srvm
tour device "" --device "$device" --overwrite --force --confirm "$name"

if mkfs.ext4 -q -F "$device" && mount -t ext4 "$device" "$work/mount"; then
    tour image '[0-9.]+ \[' --image 1g --in "$work/mount"
    check "image: nothing is left beside it" [ "$(ls -A "$work/mount")" = lost+found ]
else
    fail "a filesystem for the image"
fi

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
