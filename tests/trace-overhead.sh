#!/bin/sh
# What tracing costs: the headline figure of one cell with `--trace on` and with `--trace off`, in
# alternating pairs on one loop device, and how much slower the traced slices themselves are than the
# measured ones of the same run, which is why they feed no figure. Run as root; needs jq. It judges
# nothing.
#
#   tests/trace-overhead.sh [PAIRS] [SECONDS] [SIZE] [FOLDER]
. "$(dirname "$0")/paired.sh"

# IOPS of the measured slices, of the traced ones, events, and those that were lost.
traced() {
    syncprof --trace on
    jq -r '.cells[0] | "\(.iops) \(.traced.ops * 1e9 / .traced.elapsed_ns) \(.traced.events) \(.traced.lost_events)"' \
        "$folder/record.json"
}

untraced() {
    syncprof --trace off
    jq -r '.cells[0].iops' "$folder/record.json"
}

printf '%4s  %9s %9s %7s  %11s %9s  %8s %5s\n' pair 'IOPS on' 'IOPS off' on/off 'IOPS traced' \
    'traced/on' events lost
alternate traced untraced '{
    printf "%4d  %9.0f %9.0f %7.3f  %11.0f %9.3f  %8d %5d\n", $1, $2, $6, $2 / $6, $3, $3 / $2, $4, $5 }'
printf 'median of throughput with tracing over without: %.3f; of traced slices over measured ones: %.3f\n' \
    "$(median '$2 / $6')" "$(median '$3 / $2')"
awk '{ events += $4; lost += $5 } END { printf "%d of %d events lost\n", lost, events + lost }' "$folder/pairs"
