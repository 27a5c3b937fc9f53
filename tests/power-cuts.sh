#!/bin/sh
# Cuts the power of a machine that writes for a witness, again and again, and counts what its disk kept of
# what it had acknowledged:
#
#     MACHINE=boot-a-machine tests/power-cuts.sh BINARY DEVICE [CUTS [OPTION]...]
#
# MACHINE is a command that boots a machine whose disk DEVICE lies in the image $IMAGE and has a volatile
# cache; it is given `--file BINARY`, to be carried in, then `--` and a line for the machine's shell. In the
# machine, $CUT (`powercut`) ends it at once, with what its cache holds, and MACHINE then exits with another
# status than 0; $NETWORK, if given, is run first, and the witness, which runs here, is reached at $WITNESS
# (10.0.2.2, where QEMU's user networking has the host). BINARY should be linked statically
# (-C target-feature=+crt-static). Each OPTION goes to `syncprof durability`, as `--method fdatasync` does.
#
# Needs jq. 20 cuts unless told otherwise, a line each: the records that were promised, and what became of
# the newest promised one in each place. Exits 1 if a cut could not be made or compared; with EXPECT=intact
# also if anything was missing, and with EXPECT=loss if after each cut nothing was.
set -u

[ $# -ge 2 ] && [ -x "$1" ] || { echo "usage: $0 BINARY DEVICE [CUTS [OPTION]...]" >&2; exit 2; }
[ -n "${MACHINE:-}" ] || { echo "$0: MACHINE must say how to boot a machine" >&2; exit 2; }
binary=$(readlink -f "$1") device=$2 cuts=${3:-20}
shift 2
[ $# -eq 0 ] || shift
options=$*
work=$(mktemp -d "${TMPDIR:-/tmp}/syncprof-power-cuts.XXXXXX") || exit 2
witness=
finish() {
    [ -z "$witness" ] || kill "$witness"
    wait
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

: >"$work/witness"
"$binary" witness --listen 127.0.0.1:0 --state "$work/kept" >"$work/witness" 2>&1 &
witness=$!
until port=$(sed -n 's/.*listens at [0-9.]*:\([0-9]*\).*/\1/p' "$work/witness") && [ -n "$port" ]; do
    kill -0 "$witness" || { cat "$work/witness" >&2; exit 2; }
    sleep 0.1
done

IMAGE="$work/image"
export IMAGE
program="${NETWORK:+$NETWORK; }\"\$(command -v ${binary##*/})\" durability $device"
program="$program --witness ${WITNESS:-10.0.2.2}:$port"

# The power goes some time within three seconds after the first promise.
cut() { # NUMBER
    after=$(awk -v seed="$$$1" 'BEGIN { srand(seed); printf "%.3f", 3 * rand() }')
    # shellcheck disable=SC2086 # Several words each.
    $MACHINE --file "$binary" -- "$program --overwrite --force --confirm ${device##*/} $options \
        >/tmp/said 2>&1 & writer=\$!
        until grep -q 'Cut the power' /tmp/said; do
            kill -0 \$writer || { cat /tmp/said; exit 0; }
            sleep 0.1
        done
        sleep $after
        kill -0 \$writer || { cat /tmp/said; exit 0; }
        ${CUT:-powercut}"
}

compare() {
    # shellcheck disable=SC2086 # Several words each.
    $MACHINE --file "$binary" -- "$program --verify --json /tmp/verified >/tmp/said 2>&1
        [ -s /tmp/verified ] || cat /tmp/said >&2
        cat /tmp/verified"
}

number=0 failed=0
while [ "$number" -lt "$cuts" ]; do
    number=$((number + 1))
    rm -f "$IMAGE"
    cut "$number" >"$work/cut" 2>&1
    if [ $? -eq 0 ]; then
        failed=$((failed + 1))
        echo "$number: the power was not cut" && sed 's/^/    /' "$work/cut"
        continue
    fi
    compare >"$work/verified" 2>"$work/err"
    jq -er --arg number "$number" '.durability.checked
        | select(.ended | not) | select(.boot_id != .pledge.boot_id) | select(.promised > 0)
        | .counts as $c | [$number, .promised, $c.intact, $c.lost, $c.torn, $c.misplaced, $c.stale,
            $c.out_of_order, $c.undecided] | @tsv' "$work/verified" >"$work/line" 2>/dev/null || {
        failed=$((failed + 1))
        echo "$number: could not be compared" && sed 's/^/    /' "$work/cut" "$work/err"
        continue
    }
    cat "$work/line" >>"$work/lines"
    awk '{ printf "%s: of %s records promised, %s places intact; lost %s, torn %s, misplaced %s, stale %s; " \
        "out of order %s, undecided %s\n", $1, $2, $3, $4, $5, $6, $7, $8, $9 }' "$work/line"
done

touch "$work/lines"
awk -v failed="$failed" -v expect="${EXPECT:-}" '
    {
        promised += $2; intact += $3; lost += $4; torn += $5; misplaced += $6; stale += $7
        order += $8; undecided += $9
        if ($4 + $5 + $6 + $7 + $8 > 0) broken++
    }
    END {
        printf "%d cuts, %d of them lost something; %d records promised, %d places intact; lost %d, torn %d, " \
            "misplaced %d, stale %d; out of order %d, undecided %d; %d cuts failed\n",
            NR, broken, promised, intact, lost, torn, misplaced, stale, order, undecided, failed
        if (failed > 0 || NR == 0) exit 1
        if (expect == "intact" && broken > 0) exit 1
        if (expect == "loss" && broken == 0) exit 1
    }' "$work/lines"
