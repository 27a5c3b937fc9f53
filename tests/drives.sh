#!/bin/sh
# Checks what drives are asked, and that views of a write cache which differ are told. Run it as root
# where the kernel has scsi_debug; name an NVMe drive that nothing uses, and it is looked at too:
#
#     tests/drives.sh target/release/syncprof [/dev/nvme1n1]
#
# The drive's bytes stay as they are: `raw` writes back what it read. For a moment the kernel's view of
# its cache is changed, not the drive's. What this machine lacks is named and counted. Exits 1 if a
# check failed.
set -u

[ $# -ge 1 ] && [ -x "$1" ] || { echo "usage: $0 BINARY [NVME-DEVICE]" >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || { echo "$0: needs root" >&2; exit 2; }
syncprof=$(readlink -f "$1")
nvme=${2:-}
work=$(mktemp -d "${TMPDIR:-/tmp}/syncprof-drives.XXXXXX") || exit 2
XDG_STATE_HOME="$work/state"
export XDG_STATE_HOME

passed=0
failed=0
untested=0
undo=""

pass() { passed=$((passed + 1)); echo "ok    $1"; }
fail() { failed=$((failed + 1)); echo "FAIL  $1"; head -n 40 "$work/facts" "$work/out" "$work/err" 2>/dev/null | sed 's/^/      /'; }
cannot() { untested=$((untested + 1)); echo "not tested here: $1"; }
check() { # WHAT COMMAND...
    what=$1
    shift
    if "$@"; then pass "$what"; else fail "$what"; fi
}
finish() {
    printf '%s' "$undo" >"$work/undo"
    while read -r line; do
        [ -z "$line" ] || eval "$line" >/dev/null 2>&1
    done <"$work/undo"
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP
# Remembers a command that takes something back; the last goes first.
later() {
    undo="$1
$undo"
}

# The facts of a device, as `list --json` has them, in $work/facts; what is said of it in $work/err.
look() { # NAME
    "$syncprof" list --json >"$work/list" 2>"$work/err"
    sed -n "/^      \"name\": \"$1\"/,/^      \"writable_by_raw\"/p" "$work/list" >"$work/facts"
}
fact() { grep -q "^ *\"$1\": $2,\{0,1\}\$" "$work/facts"; }
said() { grep -q "$1" "$work/err"; }
unsaid() { ! said "$1"; }

# The kernel's view alone is changed, by the block layer's file.
kernel_takes_it_for() { # NAME VIEW
    echo "$2" >"/sys/block/$1/queue/write_cache"
}

# Views that differ are told by `list`, and by a run before its tables.
differs() { # WHAT NAME TEXT
    look "$2"
    check "$1: told by list" said "warning: $2: $3"
    "$syncprof" raw "/dev/$2" --sizes 4k --span 1m --rounds 2 --budget 2s --json "$work/record.json" \
        >"$work/out" 2>"$work/err"
    check "$1: told by raw, exit status $?" said "warning: .*$2: $3"
}

echo "-- scsi_debug"
modprobe sd_mod 2>/dev/null
if [ ! -e /sys/bus/pseudo/drivers/scsi_debug ] && modprobe scsi_debug dev_size_mb=16 2>/dev/null; then
    later "modprobe -r scsi_debug"
    sd=""
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        for model in /sys/block/sd*/device/model; do
            case $(cat "$model" 2>/dev/null) in
            scsi_debug*) sd=$(basename "${model%/device/model}") ;;
            esac
        done
        [ -n "$sd" ] && [ -b "/dev/$sd" ] && break
        sleep 1
    done
    driver=$(echo "/sys/block/$sd/device/scsi_disk"/*/cache_type)
    # The driver sends a MODE SELECT: all three views change.
    echo "write back" >"$driver"
    look "$sd"
    check "scsi_debug is asked by SCSI commands" fact interface '"scsi"'
    check "its cache is on by its own word" fact enabled true
    check "and by its driver's" fact driver '"write back"'
    check "views that agree are not told" unsaid "warning: $sd"
    kernel_takes_it_for "$sd" "write through"
    differs "cache on, kernel sends no flush" "$sd" "the kernel takes its write cache for write through"
    kernel_takes_it_for "$sd" "write back"
    echo "write through" >"$driver"
    look "$sd"
    check "its cache is off by its own word" fact enabled false
    check "views that agree again are not told" unsaid "warning: $sd"
    # Without a MODE SELECT: the driver's view and the block layer's change, the drive's doesn't.
    echo "temporary write back" >"$driver"
    look "$sd"
    check "the driver's view is shown beside the drive's" fact driver '"write back"'
    check "the drive's stays" fact enabled false
    differs "cache off, kernel flushes" "$sd" "the kernel .*a write cache that is off"
else
    cannot "SCSI: no scsi_debug driver, or it is in use"
fi

echo "-- NVMe"
if [ -n "$nvme" ] && [ -b "$nvme" ]; then
    name=$(basename "$(readlink -f "$nvme")")
    look "$name"
    check "the drive is asked by NVMe commands" fact interface '"nvme"'
    check "all questions are answered" fact unanswered '\[\]'
    check "one format is in use" [ "$(grep -c '"in_use": true' "$work/facts")" -eq 1 ]
    block=$(cat "/sys/block/$name/queue/logical_block_size")
    grep -B 4 '"in_use": true' "$work/facts" | grep -q "\"block_bytes\": $block,"
    check "it has the kernel's block of $block" [ $? -eq 0 ]
    before=$(sha256sum <"$nvme")
    "$syncprof" raw "$nvme" --sizes 64k --span 8m --rounds 20 --budget 30s --json "$work/record.json" \
        >"$work/out" 2>"$work/err"
    check "raw: exit status $?" [ -s "$work/record.json" ]
    check "raw: the drive's bytes are as before" [ "$before" = "$(sha256sum <"$nvme")" ]
    check "raw: its own view is in the report" grep -q "$name itself: write cache" "$work/out"
    check "raw: so is what it counted" grep -q "$name counted .* written by hosts" "$work/out"
    units=$(sed 's/.*"drives":\[//' "$work/record.json" | grep -o '"host_written_bytes":[0-9]*' | sed 's/.*://')
    # shellcheck disable=SC2086 # Two numbers.
    set -- $units
    bytes=$(grep -o '"bytes":[0-9]*' "$work/record.json" | head -n 1 | sed 's/.*://')
    check "raw: it counted ${1:-nothing} before, ${2:-nothing} after, and the cell $bytes written" \
        [ $((${2:-0} - ${1:-0} + 512000)) -ge "$bytes" ]
    view=$(cat "/sys/block/$name/queue/write_cache")
    if grep -q '"enabled": true' "$work/facts" && [ "$view" = "write back" ]; then
        later "echo '$view' >/sys/block/$name/queue/write_cache"
        kernel_takes_it_for "$name" "write through"
        differs "NVMe cache on, kernel sends no flush" "$name" "the kernel takes its write cache for write through"
        kernel_takes_it_for "$name" "$view"
    elif grep -q '"enabled": false' "$work/facts" && [ "$view" = "write back" ]; then
        differs "NVMe cache off, kernel flushes" "$name" "the kernel .*a write cache that is off"
    else
        cannot "NVMe: no write cache that the kernel flushes"
    fi
else
    cannot "NVMe: no drive was named"
fi

echo "$passed passed, $failed failed, $untested not tested here"
[ $failed -eq 0 ]
