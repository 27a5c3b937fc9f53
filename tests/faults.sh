#!/bin/sh
# Makes devices fail while they are measured, and looks at what the run says of it: errno, offset and how
# many, that other cells go on, that the record is whole, the exit status, and that nothing is left behind.
# Prints a row for each fault: what was seen, and pass or FAIL. Run it as root where the kernel has
# device-mapper (error, flakey, delay, thin-pool) and scsi_debug; name an NVMe drive that may be taken
# away, and it is:
#
#     tests/faults.sh target/release/syncprof [/dev/nvme0n1]
#
# All else is done to loop images and a scsi_debug disk of its own. The drive's bytes stay as they are, but
# it is gone until the next boot. Where MACHINE is a command that boots a machine with such a drive, the
# test runs there, as tests/tour.sh does. Exits 1 if a row failed.
set -u

[ $# -ge 1 ] && [ -x "$1" ] || { echo "usage: $0 BINARY [NVME-DEVICE]" >&2; exit 2; }
if [ -n "${MACHINE:-}" ]; then
    carried="--file $0 --file $1"
    for tool in dmsetup losetup blockdev mkfs.ext4; do
        path=$(PATH="$PATH:/usr/sbin:/sbin" command -v "$tool") && carried="$carried --file $path"
    done
    # shellcheck disable=SC2086 # Several words each.
    exec $MACHINE $carried -- "sh \"\$(command -v ${0##*/})\" \"\$(command -v ${1##*/})\" ${2:-}"
fi
[ "$(id -u)" -eq 0 ] || { echo "$0: needs root" >&2; exit 2; }
syncprof=$(readlink -f "$1")
nvme=${2:-}
PATH="$PATH:/usr/sbin:/sbin"
work=$(mktemp -d "${TMPDIR:-/tmp}/syncprof-faults.XXXXXX") || exit 2
XDG_STATE_HOME="$work/state"
export PATH XDG_STATE_HOME
tag="syncprof$$"
# Without udev, nobody answers device-mapper's cookies.
[ -e /run/udev/control ] || export DM_DISABLE_UDEV=1
modprobe -aq loop dm-mod dm-flakey dm-delay dm-thin-pool scsi_debug sd_mod ext4 2>/dev/null

failed=0
undo=""
# Remembers a command that takes something down again; the last made goes first.
later() {
    undo="$1
$undo"
}
finish() {
    printf '%s' "$undo" >"$work/undo"
    while read -r line; do
        eval "$line" >/dev/null 2>&1
    done <"$work/undo"
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

# A row of the table: the fault, what was seen of it, and whether that is right.
row() { # FAULT SEEN STATUS
    [ "$3" -eq 0 ] && verdict=pass || { verdict=FAIL; failed=$((failed + 1)); }
    printf '%-34s %-4s %s\n' "$1" "$verdict" "$2"
    [ "$3" -eq 0 ] || head -n 25 "$work/err" | sed 's/^/      /'
}
cannot() { printf '%-34s %-4s %s\n' "$1" - "not tested here: $2"; }

# A loop device over a new image of $1 MiB in $disk.
images=0
disk() {
    images=$((images + 1))
    truncate -s "$1M" "$work/image$images" || return 1
    disk=$(losetup -f --show "$work/image$images") || return 1
    later "losetup -d $disk"
}
# Makes $tag-$1 in $map, with the table $2.
dm() {
    printf '%s\n' "$2" | dmsetup create "$tag-$1" || return 1
    dmsetup mknodes "$tag-$1" 2>/dev/null
    later "dmsetup remove --retry $tag-$1"
    map="/dev/mapper/$tag-$1"
}
# Gives it the table $2, without waiting for what is in flight.
becomes() {
    dmsetup load "$tag-$1" --table "$2" && dmsetup suspend --nolockfs --noflush "$tag-$1" && dmsetup resume "$tag-$1"
}
# A device's name in sysfs: its node may be a link, or a node of another name.
kernel_name() {
    basename "$(readlink -f "/sys/dev/block/$((0x$(stat -Lc %t "$1"))):$((0x$(stat -Lc %T "$1")))")"
}
begin() { # ARGUMENT...
    rm -f "$work/record.json"
    "$syncprof" "$@" --json "$work/record.json" >"$work/out" 2>"$work/err" &
    pid=$!
}
# Waits until the record has a round.
running() {
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
        ! grep -q '"rounds": *[1-9]' "$work/record.json" 2>/dev/null || return 0
        sleep 1
    done
}
long="--sizes 4k --span 1m --budget 20s --precision 0.1%"

# The run that is over ended with this status, said this of what failed, has a record that is whole and can
# be shown again, and left nothing behind.
ended() { # FAULT STATUS PATTERN [FAILED-CELLS]
    wait "$pid"
    status=$?
    said=$(grep -o 'failed: .*' "$work/err" | sed 's/^failed: //' | head -n 1)
    right=0
    [ "$status" -eq "$2" ] && [ -s "$work/record.json" ] && grep -Eq "$3" "$work/err" || right=1
    cells=$(grep -o '"failed": *"' "$work/record.json" | wc -l)
    [ "${4:-1}" = any ] || [ "$cells" -eq "${4:-1}" ] || right=2
    grep -q '"ended": *"' "$work/record.json" || right=2
    # Every failure that tells a place is at the one that was made to fail.
    [ -z "${bad_at:-}" ] || ! grep -o 'at offset [0-9]*' "$work/err" | grep -qv "$bad_at" || right=5
    "$syncprof" report "$work/record.json" >"$work/again" 2>&1
    again=$?
    [ "$again" -eq 0 ] && ! grep -q panicked "$work/err" "$work/again" || right=3
    [ -z "$(find "$XDG_STATE_HOME" -type f ! -name '*.json' 2>/dev/null)" ] || right=4
    row "$1" "exit $status, $cells failed, report $again: $said" $right
}

if ! command -v dmsetup >/dev/null || ! dmsetup targets 2>/dev/null | grep -q '^error '; then
    cannot "device-mapper" "no dmsetup, or no driver"
    exit 1
fi
disk 64
sectors=$(blockdev --getsz "$disk")
linear="0 $sectors linear $disk 0"
eio='at offset [0-9]+: EIO: I/O error; [0-9]+ of [0-9]+ operations failed'

for method in o_dsync fdatasync; do
    dm "error-$method" "$linear"
    # shellcheck disable=SC2086 # Several options.
    begin raw "$map" $long --method $method
    running
    becomes "error-$method" "0 $sectors error"
    ended "dm error in mid-run, $method" 1 "$eio"
done

# One block in the middle, at 1.5 MiB, fails.
disk 64
dm bad "0 3072 linear $disk 0
3072 8 error
3080 $((sectors - 3080)) linear $disk 3080"
bad="raw $map --sizes 64k --span 2m --rounds 4 --budget 8s --seed 5 --overwrite --force --confirm $(kernel_name "$map")"
# shellcheck disable=SC2086 # Several options.
begin $bad --pattern seq --method o_dsync,fdatasync
ended "dm error in one block" 1 "failed: raw/raw/o_dsync/64K/qd1/j1/seq: write of 65536 bytes at offset 1572864: EIO: I/O error; 1 of" 2
# What is written back fails later than the write: no other cell's write may be blamed for it.
bad_at=1572864
# shellcheck disable=SC2086 # Several options.
begin $bad --pattern seq,rand --method none,fdatasync --direct off,on
ended "  beside buffered writes" 1 "fdatasync/64K/qd1/j1/seq/buffered: (sync after the )?write of 65536 bytes at offset 1572864: EIO" any
bad_at=

disk 64
dm flakey "0 $sectors flakey $disk 0 0 3600 1 error_writes"
# shellcheck disable=SC2086 # Several options.
begin raw "$map" $long
ended "dm flakey, writes fail" 1 "$eio"

# The delay is in whole ticks of the kernel: where one is 4 ms, 10 ms are 12. dd(1) beside it shows what
# this machine adds to that.
disk 64
if dm delay "0 $sectors delay $disk 0 0 $disk 0 10"; then
    start=$(cut -d' ' -f1 /proc/uptime)
    dd if=/dev/zero of="$map" bs=4k count=100 oflag=direct conv=notrunc 2>/dev/null
    theirs=$(awk -v start="$start" '{ printf "%.2f", ($1 - start) * 10 }' /proc/uptime)
    begin raw "$map" --sizes 4k --span 1m --rounds 16 --budget 20s --engine sync --method none
    wait $pid
    status=$?
    p50=$(grep -o '"latency_ns": *{[^}]*' "$work/record.json" | head -n 1 | grep -o '"p50": *[0-9]*' | grep -o '[0-9]*$')
    [ "$status" -eq 0 ] && [ "${p50:-0}" -ge 11880000 ] && [ "$p50" -le 12120000 ]
    row "dm delay of 12 ms, within 1 %" "exit $status, median $((${p50:-0} / 1000)) us; a mean write of dd $theirs ms" $?
else
    cannot "dm delay" "no driver"
fi

if dmsetup targets | grep -q '^thin-pool '; then
    disk 8
    meta=$disk
    disk 16
    dm pool "0 4096 thin-pool $meta $disk 128 0 1 error_if_no_space"
    dmsetup message "$tag-pool" 0 "create_thin 0"
    dm thin "0 262144 thin $map 0"
    # shellcheck disable=SC2086 # Several options.
    begin raw "$map" --sizes 1m --span 32m --budget 20s --rounds 20 --overwrite --force --confirm "$(kernel_name "$map")"
    ended "thin pool that fills" 1 'at offset [0-9]+: (ENOSPC|EIO)'
else
    cannot "thin pool that fills" "no driver"
fi

disk 128
sectors=$(blockdev --getsz "$disk")
linear="0 $sectors linear $disk 0"
dm ext4 "$linear"
if mkfs.ext4 -q -F "$map" >/dev/null 2>&1 && mkdir "$work/mnt" && mount -o errors=remount-ro "$map" "$work/mnt"; then
    later "umount $work/mnt"
    # shellcheck disable=SC2086 # Several options.
    begin file "$work/mnt" $long --file-state append
    running
    becomes ext4 "0 $sectors error"
    wait $pid
    status=$?
    said=$(grep -o 'failed: .*' "$work/err" | head -n 1)
    "$syncprof" report "$work/record.json" >"$work/again" 2>&1
    again=$?
    umount "$work/mnt"
    becomes ext4 "$linear"
    mount "$map" "$work/mnt"
    "$syncprof" clean "$work/mnt" >/dev/null 2>>"$work/err"
    left=$(find "$work/mnt" -mindepth 1 ! -name lost+found | wc -l)
    [ "$status" -eq 1 ] && [ "$again" -eq 0 ] && [ "$left" -eq 0 ] && echo "$said" | grep -Eq 'EROFS|EIO'
    row "ext4 errors=remount-ro" "exit $status, report $again, $left files left: $said" $?
else
    cannot "ext4 errors=remount-ro" "no mkfs.ext4, or no driver"
fi

disk 128
dm suspended "0 $(blockdev --getsz "$disk") linear $disk 0"
# shellcheck disable=SC2086 # Several options.
begin raw "$map" $long --stall 5s
running
dmsetup suspend --noflush "$tag-suspended"
sleep 14
said=$(grep -o 'given up: .*nothing completed for .*' "$work/err")
dmsetup resume "$tag-suspended"
wait $pid
status=$?
grep -q '"ended": *"stalled"' "$work/record.json" && [ -n "$said" ] && [ $status -eq 5 ]
row "dm suspend in mid-run" "exit $status: $said" $?

for sd in /sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*/block/sd*; do
    [ -d "$sd" ] || { cannot "SCSI disk taken away" "no scsi_debug"; break; }
    # shellcheck disable=SC2086 # Several options.
    begin raw "/dev/${sd##*/}" $long
    running
    echo 1 >"$sd/device/delete"
    ended "SCSI disk taken away" 1 '(at offset [0-9]+|device .*gone|vanished)'
done
modprobe -rq scsi_debug 2>/dev/null

if [ -n "$nvme" ]; then
    # shellcheck disable=SC2086 # Several options.
    begin raw "$nvme" $long
    running
    echo 1 >"/sys/block/${nvme##*/}/device/device/remove"
    ended "NVMe drive taken away" 1 '(at offset [0-9]+|device .*gone|vanished)'
else
    cannot "NVMe drive taken away" "none was named"
fi

echo "$failed failed"
[ $failed -eq 0 ]
