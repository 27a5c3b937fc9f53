#!/bin/sh
# Checks what drives are asked, that views of a write cache which differ are told, and, on an NVMe drive,
# what a run wrote against others who count it. Run it as root where the kernel has scsi_debug; name an
# NVMe drive that nothing uses, and it is looked at too:
#
#     tests/drives.sh target/release/syncprof [/dev/nvme1n1]
#
# The drive's bytes stay as they are: `raw`, `validate` and `durability` write back what they read. For a
# moment the kernel's view of its cache is changed, not the drive's. What this machine lacks is named and
# counted. Exits 1 if a check failed.
#
# Where MACHINE is a command that boots a machine with such a drive, the test runs there, as tests/tour.sh
# does: for blocks of 512 bytes and 4 KiB, with its cache on and off, it is run once each. What the machine
# has written to the drive in all is the last line, for the log of what emulates the drive.
set -u

[ $# -ge 1 ] && [ -x "$1" ] || { echo "usage: $0 BINARY [NVME-DEVICE]" >&2; exit 2; }
if [ -n "${MACHINE:-}" ]; then
    nvme_cli=$(command -v nvme) && nvme_cli="--file $nvme_cli"
    # shellcheck disable=SC2086 # Several words each.
    exec $MACHINE --file "$0" --file "$1" ${nvme_cli:-} -- \
        "sh \"\$(command -v ${0##*/})\" \"\$(command -v ${1##*/})\" ${2:-}"
fi
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

# What the kernel made the drive do since it was there: writes that have bytes, their bytes, and flushes
# (Documentation/block/stat.rst; an empty flush is counted as a write too).
written() {
    read -r _ _ _ _ writes _ sectors _ _ _ _ _ _ _ _ flushes _ <"/sys/block/$name/stat"
    echo "$((writes - flushes)) $((sectors * 512)) $flushes"
}
# A count of nvme-cli's; nothing without nvme-cli.
smart() { # FIELD
    nvme smart-log "$nvme" -o json 2>/dev/null | tr ',{}' '\n\n\n' |
        sed -n "s/.*\"$1\" *: *\"\{0,1\}\([0-9]*\).*/\1/p" | head -n 1
}
# Both numbers differ by no more than that.
about() { # NUMBER NUMBER SLACK
    [ $(($1 - $2)) -le "$3" ] && [ $(($2 - $1)) -le "$3" ]
}
# Fields of `written` and its like, before and after.
less() { # AFTER BEFORE
    echo $(($1 - $2))
}

# A run, and what was written meanwhile: by the drive's counts in the record, by nvme-cli and by the kernel,
# who must agree. The drive counts thousands of 512 bytes, rounded up.
observed() { # VERB ARGUMENT...
    was=$(written)
    units=$(smart data_units_written)
    commands=$(smart host_write_commands)
    rm -f "$work/record.json"
    "$syncprof" "$@" --json "$work/record.json" >"$work/out" 2>"$work/err"
    check "$1: exit status $?" [ -s "$work/record.json" ]
    now=$(written)
    kernel_writes=$(less "${now%% *}" "${was%% *}")
    now=${now#* } was=${was#* }
    kernel_bytes=$(less "${now% *}" "${was% *}")
    kernel_flushes=$(less "${now#* }" "${was#* }")
    if [ -n "$units" ]; then
        units=$(less "$(smart data_units_written)" "$units")
        commands=$(less "$(smart host_write_commands)" "$commands")
        check "$1: the drive counted $commands write commands, the kernel $kernel_writes" [ "$commands" -eq "$kernel_writes" ]
        check "$1: the drive counted $units units, the kernel $kernel_bytes bytes" about $((units * 512000)) "$kernel_bytes" 512000
    else
        cannot "$1: no nvme-cli to compare with"
    fi
    own=$(sed 's/.*"drives":\[//' "$work/record.json" | grep -o '"host_written_bytes":[0-9]*' | sed 's/.*://' | tr '\n' ' ')
    # shellcheck disable=SC2086 # Two numbers, or none.
    set -- "$1" $own
    own=$((${3:-0} - ${2:-0}))
    check "$1: the record has what the drive counted, $own bytes" about "$own" "$kernel_bytes" 512000
    grep -q "$name counted .* written by hosts" "$work/out"
    check "$1: and the report tells it" [ $? -eq 0 -o "$kernel_bytes" -eq 0 ]
    echo "      $kernel_writes writes, $kernel_bytes bytes, $kernel_flushes flushes by the kernel"
}
# In the traced slices of each cell, every write was one request, with so many of FUA and of flushes.
synced() { # FUA FLUSHES
    grep -o '"traced":{"dev":[^]]*' "$work/record.json" | sed 's/.*"ops":\([0-9]*\),.*"class":"data","requests":\([0-9]*\),"fua_requests":\([0-9]*\),.*"class":"flush","requests":\([0-9]*\),.*/\1 \2 \3 \4/' >"$work/traced"
    [ -s "$work/traced" ] || return 1
    while read -r ops requests fua flushes; do
        echo "      traced: $ops writes: $requests requests, $fua with FUA, $flushes flushes"
        # A slice's first and last may be cut off.
        about "$requests" "$ops" 20 && about "$fua" $((ops * $1)) 20 && about "$flushes" $((ops * $2)) 20 || return 1
    done <"$work/traced"
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
    view=$(cat "/sys/block/$name/queue/write_cache")
    echo "      kernel: $view, fua $(cat "/sys/block/$name/queue/fua"), blocks of $block;" \
        "$(nvme get-feature "$nvme" -f 6 2>/dev/null | head -n 1)"
    small=$([ "$block" -lt 4096 ] && echo "$block,")
    observed raw "$nvme" --sizes "${small}4k,64k" --span 8m --rounds 20 --budget 30s
    check "raw: its own view is in the report" grep -q "$name itself: write cache" "$work/out"
    # Where the kernel flushes, an O_DSYNC write has FUA, or else a flush behind it.
    flushed=$([ "$view" = "write back" ] && echo 1 || echo 0)
    fua=$((flushed * $(cat "/sys/block/$name/queue/fua")))
    check "raw: each O_DSYNC write is a request, $fua FUA, $((flushed - fua)) flushes" synced "$fua" $((flushed - fua))
    observed raw "$nvme" --sizes 4k --span 8m --rounds 10 --budget 20s --method fdatasync --engine sync
    check "raw: each write and fdatasync is a request, 0 FUA, $flushed flushes" synced 0 "$flushed"
    observed validate "$nvme" --claims etcd --budget 10s
    check "validate: has a verdict" grep -qE "^1 .* (holds|fails|undecided)" "$work/out"
    check "validate: the drive's own view is in the report" grep -q "$name itself: write cache" "$work/out"
    observed validate "$nvme" --claims micron-9200 --budget 10s
    check "validate: another drive's claims are not comparable" grep -q "3 not comparable" "$work/out"
    observed durability "$nvme" --budget 20s
    check "durability: has its findings" grep -q "Does it keep what it acknowledged" "$work/out"
    check "durability: the drive's own word is among them" grep -q "$name itself says that" "$work/out"
    grep -A 9 "^question" "$work/out"
    check "the drive's bytes are as before" [ "$before" = "$(sha256sum <"$nvme")" ]
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

[ -z "${name:-}" ] || echo "written in all: $(written) (writes, bytes, flushes)"
echo "$passed passed, $failed failed, $untested not tested here"
[ $failed -eq 0 ]
