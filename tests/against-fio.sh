#!/bin/sh
# Measures one cell on one loop device with syncprof and with fio, in alternating pairs, and prints
# a table of both with the median of the ratios. Run as root; needs fio and jq. It judges nothing.
#
#   tests/against-fio.sh [PAIRS] [SECONDS] [SIZE] [FOLDER]
#
# FIO_OPTIONS adds options to fio's, such as "--fixedbufs --registerfiles --thread", with which it
# drives its ring as syncprof does. The loop device's image is made in FOLDER: target/ by default; /dev/shm takes the disk out of it.
set -eu
cd "$(dirname "$0")/.."
pairs=${1:-10} seconds=${2:-3} size=${3:-4k} place=${4:-$PWD/target}

cargo build --release --locked
folder=$(mktemp -d "$place/syncprof-against-fio-XXXXXX")
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

ours() {
    # As many slices of 60 ms as fill the time.
    XDG_STATE_HOME="$folder" target/release/syncprof --quiet raw "$node" --sizes "$size" \
        --overwrite --force --confirm "${node#/dev/}" --rounds $((seconds * 1000 / 60)) \
        --budget $((seconds * 2))s --json "$folder/ours.json" >"$folder/table" 2>&1
    jq -r '.cells[0] | "\(.iops) \(.latency_ns.p50) \(.latency_ns.p99)"' "$folder/ours.json"
}

theirs() {
    fio --name=dsync --filename="$node" --rw=write --bs="$size" --size=64m --time_based \
        --runtime="$seconds" --ioengine=io_uring --direct=1 --sync=dsync --iodepth=1 \
        ${FIO_OPTIONS:-} --clat_percentiles=0 --lat_percentiles=1 --percentile_list=50:99 --output-format=json \
        >"$folder/theirs.json"
    jq -r '.jobs[0].write | "\(.iops) \(.lat_ns.percentile."50.000000")
        \(.lat_ns.percentile."99.000000")"' "$folder/theirs.json" | tr '\n' ' '
}

printf '%4s  %10s %10s %6s  %8s %8s %6s\n' pair 'IOPS' 'fio IOPS' ratio 'p50 us' 'fio p50' ratio
pair=1
while [ "$pair" -le "$pairs" ]; do
    # Whoever goes first in one pair goes second in the next.
    if [ $((pair % 2)) -eq 1 ]; then
        a=$(ours)
        b=$(theirs)
    else
        b=$(theirs)
        a=$(ours)
    fi
    echo "$pair $a $b" | tee -a "$folder/pairs" | awk '{
        printf "%4d  %10.0f %10.0f %6.3f  %8.1f %8.1f %6.3f\n",
            $1, $2, $5, $2 / $5, $3 / 1000, $6 / 1000, $3 / $6 }'
    pair=$((pair + 1))
done
median() {
    awk "{ print $1 }" "$folder/pairs" | sort -g | awk '{ v[NR] = $1 }
        END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}
printf 'median ratio syncprof/fio: IOPS %.3f, p50 %.3f\n' "$(median '$2 / $5')" "$(median '$3 / $6')"
