# What scripts share that compare two ways to measure one cell, in alternating pairs on one loop device:
# sourced, not run. Takes the arguments [PAIRS] [SECONDS] [SIZE] [FOLDER]. The loop device's image is made
# in FOLDER: target/ by default; /dev/shm takes the disk out of it.
set -eu
cd "$(dirname "$0")/.."
pairs=${1:-10} seconds=${2:-3} size=${3:-4k} place=${4:-$PWD/target}

cargo build --release --locked
# Both ways run on one processor, the last that this script may use: whether the scheduler wakes a
# program on the processor of the device's interrupts decides more than what is to be compared.
taskset -cp "$(taskset -cp $$ | sed 's/.*[^0-9]//')" $$ >/dev/null
folder=$(mktemp -d "$place/syncprof-paired-XXXXXX")
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

# Measures the cell for so many seconds, as many slices of 60 ms as fill them; the record is
# $folder/record.json.
syncprof() { # OPTION...
    XDG_STATE_HOME="$folder" target/release/syncprof --quiet raw "$node" --sizes "$size" \
        --overwrite --force --confirm "${node#/dev/}" --rounds $((seconds * 1000 / 60)) \
        --budget $((seconds * 2))s "$@" --json "$folder/record.json" >"$folder/table" 2>&1 || {
        cat "$folder/table" >&2
        return 1
    }
}

# Runs both, pair after pair, and has awk's program print each pair's line: its number, the first way's
# figures, the second's.
alternate() { # ONE-WAY OTHER-WAY AWK-PROGRAM
    pair=1
    while [ "$pair" -le "$pairs" ]; do
        # Whoever goes first in one pair goes second in the next.
        if [ $((pair % 2)) -eq 1 ]; then
            one=$($1)
            other=$($2)
        else
            other=$($2)
            one=$($1)
        fi
        echo "$pair $one $other" | tee -a "$folder/pairs" | awk "$3"
        pair=$((pair + 1))
    done
}

# The median over pairs of an awk expression.
median() {
    awk "{ print $1 }" "$folder/pairs" | sort -g | awk '{ v[NR] = $1 }
        END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}
