#!/bin/sh
# What tracing costs: the headline figure of one cell with `--trace on` and with `--trace off`, in
# alternating pairs on one loop device, and how much slower the traced slices themselves are than the
# measured ones of the same run, which is why they feed no figure. Run as root; needs jq. It judges
# nothing.
#
#   tests/trace-overhead.sh [PAIRS] [SECONDS] [SIZE] [FOLDER]
#
# The loop device's image is made in FOLDER: target/ by default; /dev/shm makes it as fast as it gets.
set -eu
cd "$(dirname "$0")/.."
pairs=${1:-10} seconds=${2:-3} size=${3:-4k} place=${4:-$PWD/target}

cargo build --release --locked
folder=$(mktemp -d "$place/syncprof-trace-overhead-XXXXXX")
node=
finish() {
    [ -z "$node" ] || losetup -d "$node"
    rm -rf "$folder"
}
trap finish EXIT
trap 'exit 130' INT TERM
dd if=/dev/zero of="$folder/image" bs=1M count=256 status=none
sync "$folder/image"
node=$(losetup --find --show --direct-io=on "$folder/image")

# IOPS of the measured slices, of the traced ones, events, and those that were lost.
run() {
    XDG_STATE_HOME="$folder" target/release/syncprof --quiet raw "$node" --sizes "$size" \
        --overwrite --force --confirm "${node#/dev/}" --rounds $((seconds * 1000 / 60)) \
        --budget $((seconds * 2))s --trace "$1" --json "$folder/record.json" >"$folder/table" 2>&1
    jq -r '.cells[0] | "\(.iops) \(if .traced then
        "\(.traced.ops * 1e9 / .traced.elapsed_ns) \(.traced.events) \(.traced.lost_events)"
        else "0 0 0" end)"' "$folder/record.json"
}

printf '%4s  %9s %9s %7s  %11s %7s  %8s %5s\n' pair 'IOPS on' 'IOPS off' on/off 'IOPS traced' \
    'traced/on' events lost
pair=1
while [ "$pair" -le "$pairs" ]; do
    # Whoever goes first in one pair goes second in the next.
    if [ $((pair % 2)) -eq 1 ]; then
        on=$(run on)
        off=$(run off)
    else
        off=$(run off)
        on=$(run on)
    fi
    echo "$pair $on $off" | tee -a "$folder/pairs" | awk '{
        printf "%4d  %9.0f %9.0f %7.3f  %11.0f %9.3f  %8d %5d\n", $1, $2, $6, $2 / $6, $3, $3 / $2, $4, $5 }'
    pair=$((pair + 1))
done
median() {
    awk "{ print $1 }" "$folder/pairs" | sort -g | awk '{ v[NR] = $1 }
        END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}
printf 'median of throughput with tracing over without: %.3f; of traced slices over measured ones: %.3f\n' \
    "$(median '$2 / $6')" "$(median '$3 / $2')"
awk '{ events += $4; lost += $5 } END { printf "%d of %d events lost\n", lost, events + lost }' "$folder/pairs"
