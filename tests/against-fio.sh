#!/bin/sh
# Measures one cell on one loop device with syncprof and with fio, in alternating pairs, and prints
# a table of both with the median of the ratios. Run as root; needs fio and jq. It judges nothing.
#
# A device's speed drifts, and a program is not to blame for it: "outside" is a program's mean latency
# less the mean time that the device's own counters (fields 5 and 8 of its stat file, see
# Documentation/block/stat.rst) give for its writes in the same run, so what the kernel's upper half
# and the program themselves cost per write.
#
#   tests/against-fio.sh [PAIRS] [SECONDS] [SIZE] [FOLDER]
#
# FIO_OPTIONS adds options to fio's, such as "--fixedbufs --registerfiles --thread", with which it
# drives its ring as syncprof does.
. "$(dirname "$0")/paired.sh"

ours() {
    syncprof
    jq -r '.cells[0] | "\(.iops) \(.latency_ns.p50) \(.latency_ns.mean)"' "$folder/record.json"
}

theirs() {
    fio --name=dsync --filename="$node" --rw=write --bs="$size" --size=64m --time_based \
        --runtime="$seconds" --ioengine=io_uring --direct=1 --sync=dsync --iodepth=1 \
        ${FIO_OPTIONS:-} --clat_percentiles=0 --lat_percentiles=1 --percentile_list=50:99 --output-format=json \
        >"$folder/theirs.json"
    jq -r '.jobs[0].write | "\(.iops) \(.lat_ns.percentile."50.000000") \(.lat_ns.mean)"' \
        "$folder/theirs.json"
}

# Runs one of both, and adds the device's mean time per write in ns.
with_device() {
    before=$(counters)
    figures=$("$1")
    echo "$before $(counters) $figures" |
        awk '{ print $5, $6, $7, ($4 - $2) * 1e6 / ($3 - $1) }'
}

counters() {
    awk '{ print $5, $8 }' "/sys/block/${node#/dev/}/stat"
}

printf '%4s  %8s %8s %6s  %7s %7s %6s  %10s %10s\n' pair IOPS 'fio' ratio 'p50 us' fio ratio \
    'outside us' fio
alternate 'with_device ours' 'with_device theirs' '{
    printf "%4d  %8.0f %8.0f %6.3f  %7.1f %7.1f %6.3f  %10.2f %10.2f\n",
        $1, $2, $6, $2 / $6, $3 / 1e3, $7 / 1e3, $3 / $7, ($4 - $5) / 1e3, ($8 - $9) / 1e3 }'
printf 'median ratio syncprof/fio: IOPS %.3f, p50 %.3f\n' "$(median '$2 / $6')" "$(median '$3 / $7')"
printf 'median us outside the device: syncprof %.2f, fio %.2f; difference %.1f %% of the latency\n' \
    "$(median '($4 - $5) / 1e3')" "$(median '($8 - $9) / 1e3')" \
    "$(median '(($4 - $5) - ($8 - $9)) / $8 * 100')"
