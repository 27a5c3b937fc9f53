#!/bin/sh
# A long run at full rate on a zram disk and on a loop device: the memory, open files and threads of the
# process that measures, at the begin and at the end, and the writes that the engine counted beside those
# that the kernel counted for the device in the same slices. The record grows by a slice each round, so
# that memory may grow by as much; nothing else may. Run as root; needs jq.
#
#   tests/soak.sh [SECONDS for each, 1800 by default] [PROGRAM]
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-1800} program=${2:-target/release/syncprof}
[ -x "$program" ] || cargo build --release --locked
folder=$(mktemp -d "$PWD/target/syncprof-soak-XXXXXX")
loop='' zram='' running='' status=0
finish() {
    [ -z "$running" ] || kill "$running" 2>/dev/null || true
    [ -z "$running" ] || wait "$running" 2>/dev/null || true
    [ -z "$loop" ] || losetup -d "$loop"
    [ -z "$zram" ] || zramctl --reset "$zram"
    rm -rf "$folder"
}
trap finish EXIT
trap 'exit 130' INT TERM
modprobe zram 2>/dev/null || true
zram=$(zramctl --find --size 64M)
dd if=/dev/zero of="$folder/image" bs=1M count=64 status=none
loop=$(losetup --find --show "$folder/image")

# Memory in KiB, open files and threads of a process.
state() { # PID
    echo "$(awk '/^VmRSS/ { print $2 }' "/proc/$1/status") $(find "/proc/$1/fd" -type l | wc -l) \
$(find "/proc/$1/task" -mindepth 1 -maxdepth 1 | wc -l)"
}

soak() { # NODE
    XDG_STATE_HOME="$folder" "$program" --quiet raw "$1" --sizes 4k --span 16m --trace off \
        --precision 0.001% --budget "${seconds}s" --json "$folder/record.json" >"$folder/table" 2>&1 &
    running=$!
    # Once the first rounds are over, all that stays is there.
    sleep 5
    # The process that is started watches; its child measures.
    measuring=$(pgrep -P "$running")
    first=$(state "$measuring")
    last=$first
    while kill -0 "$running" 2>/dev/null && now=$(state "$measuring" 2>/dev/null); do
        [ "${now%% *}" = '' ] || last=$now
        sleep 1
    done
    wait "$running" || { status=1; cat "$folder/table" >&2; }
    running=''
    counts=$(jq -r '.cells[0] | .slices as $s | "\($s | length) \([$s[].ops] | add) \([$s[].devices[0].counted.writes] | add) \(.stalled | length)"' "$folder/record.json")
    record_kib=$(($(stat -c %s "$folder/record.json") / 1024))
    set -- "$1" $first $last $counts
    printf '%-11s %8d %8d %6d %6d %7d %7d %9d %12d %12d %7d %10d\n' "$1" "$2" "$5" "$3" "$6" "$4" "$7" "$8" "$9" \
        "${10}" "${11}" "$record_kib"
    # What a record is in memory, and its text while it is saved.
    [ $(($5 - $2)) -le $((record_kib * 4 + 4096)) ] && [ "$3" -ge "$6" ] && [ "$4" -ge "$7" ] &&
        [ "$9" = "${10}" ] && [ "${11}" = 0 ] || { status=1; echo "$1: not flat, or not the same" >&2; }
}

printf '%-11s %8s %8s %6s %6s %7s %7s %9s %12s %12s %7s %10s\n' device 'KiB' 'at end' files 'at end' threads \
    'at end' slices 'engine' 'kernel' stalled 'record KiB'
soak "$zram"
soak "$loop"
exit $status
