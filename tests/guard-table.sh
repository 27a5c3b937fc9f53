#!/bin/sh
# The guard's table: devices that must be refused and devices that may be measured, each real and in that
# state. Of each row's disks the sectors written and a digest are compared: a refusal writes not one byte,
# and a preserving run leaves every byte as it was. Run it as root:
#
#     tests/guard-table.sh target/release/syncprof
#
# It works on loop images and maps of its own, and takes all down again. What this machine has no driver or
# tool for is named and counted. Where MACHINE is a command that boots a machine, it runs there, as
# tests/drives.sh does; there, disks sda, sdb and sdc that share a WWN (the last of another size), with the
# second's and the third's serial numbers alike, make more rows. Exits 1 if a row is not as it must be.
set -u

[ $# -eq 1 ] && [ -x "$1" ] || { echo "usage: $0 BINARY" >&2; exit 2; }
if [ -n "${MACHINE:-}" ]; then
    # shellcheck disable=SC2086 # Several words each.
    exec $MACHINE --file "$0" --file "$1" -- "sh \"\$(command -v ${0##*/})\" \"\$(command -v ${1##*/})\""
fi
[ "$(id -u)" -eq 0 ] || { echo "$0: needs root" >&2; exit 2; }
syncprof=$(readlink -f "$1")
PATH="$PATH:/usr/sbin:/sbin"
work=$(mktemp -d "${TMPDIR:-/tmp}/syncprof-table.XXXXXX") || exit 2
tag="spt$$"
XDG_STATE_HOME="$work/state"
export PATH XDG_STATE_HOME
# Without udev, nobody answers device-mapper's cookies.
[ -e /run/udev/control ] || export DM_DISABLE_UDEV=1

mib=$((1 << 20))
refused=0
allowed=0
failed=0
undo=""
disks=""
later() {
    undo="$1
$undo"
}
take_down() {
    printf '%s' "$undo" >"$work/undo"
    while read -r line; do
        [ -z "$line" ] || eval "$line" >/dev/null 2>&1
    done <"$work/undo"
    undo=""
    disks=""
}
finish() {
    take_down
    rm -rf --one-file-system "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP
cannot() { echo "-        not here: $1"; }
section() {
    take_down
    echo "-- $1"
}
has() {
    for tool in "$@"; do
        command -v "$tool" >/dev/null || return 1
    done
}

# A new image of $1 MiB: $image, and a loop device on it: $loop.
images=0
disk() {
    images=$((images + 1))
    image="$work/image$images"
    truncate -s "$1M" "$image"
    # No holes, which are another matter.
    dd if=/dev/zero of="$image" bs=1M count="$1" conv=notrunc 2>/dev/null
    loop=$(losetup -f) && losetup "$loop" "$image" || return 1
    blockdev --setrw "$loop"
    later "losetup -d $loop"
    disks="$disks $loop"
}
# Attaches file or device $1 from byte $2 on, of $3 bytes if given: $loop.
over() {
    loop=$(losetup -f) || return 1
    losetup -o "${2:-0}" ${3:+--sizelimit "$3"} "$loop" "$1" || return 1
    later "losetup -d $loop"
    disks="$disks $loop"
}
# Device-mapper device $1 with the table $2...: /dev/mapper/$tag-$1.
dm() {
    name="$tag-$1"
    shift
    echo "$*" | dmsetup create "$name" 2>/dev/null || return 1
    dmsetup mknodes "$name" 2>/dev/null
    later "dmsetup remove --force --retry $name"
}
fs() { mkfs.ext4 -q -F -O ^has_journal -E lazy_itable_init=0 "$1" 8m >/dev/null 2>&1; }
# A filesystem on $1, mounted at $point.
mounted() {
    fs "$1" || return 1
    hold "$1"
}
points=0
hold() { # DEVICE [OPTIONS]
    points=$((points + 1))
    point="$work/point$points"
    mkdir -p "$point"
    # shellcheck disable=SC2086 # Several options.
    mount ${2:-} "$1" "$point" || return 1
    later "umount $point"
}
kernel_name() {
    basename "$(readlink -f "/sys/dev/block/$((0x$(stat -Lc %t "$1"))):$((0x$(stat -Lc %T "$1")))")"
}
# Sectors written to the row's disks.
written() {
    sum=0
    for node in $disks; do
        # shellcheck disable=SC2046 # Its fields.
        set -- $(cat "/sys/class/block/${node##*/}/stat")
        sum=$((sum + $7))
    done
    echo "$sum"
}
digest() { for node in $disks; do dd if="$node" bs=1M 2>/dev/null | md5sum; done; }
raw() { # DEVICE [ARGUMENT...]
    case "$*" in
    *--span*) ;;
    *) set -- "$@" --span 1m ;;
    esac
    "$syncprof" raw "$@" --sizes 4k --rounds 2 --budget 1s >"$work/out" 2>"$work/err"
}
row() { # OK EXPECTED WHAT SECTORS
    if [ "$1" = ok ]; then
        printf 'ok       %-8s %-68s %8s  same\n' "$2" "$3" "$4"
    else
        failed=$((failed + 1))
        printf 'FAIL     %-8s %-68s %8s  %s\n' "$2" "$3" "$4" "$1"
        sed 's/^/             /' "$work/err" | head -n 4
    fi
}
# `raw` is refused with this text, and with all that overrides. More arguments go along.
refused() { # WHAT DEVICE TEXT [ARGUMENT...]
    what=$1 node=$2 text=$3
    shift 3
    sync
    before=$(digest)
    sectors=$(written)
    verdict=ok
    raw "$node" "$@"
    [ $? -eq 3 ] && grep -q -- "$text" "$work/err" || verdict="not refused with '$text'"
    # What isn't there has no name to confirm. A span's room is asked for what is kept alone.
    if [ -b "$node" ] && [ $# -eq 0 ] && [ "$verdict" = ok ]; then
        raw "$node" --overwrite --force --confirm "$(kernel_name "$node")"
        [ $? -eq 3 ] && grep -q -- "$text" "$work/err" || verdict="not refused to overwrite with '$text'"
    fi
    sectors=$(($(written) - sectors))
    [ "$sectors" -eq 0 ] || verdict="written"
    [ "$before" = "$(digest)" ] || verdict="changed"
    refused=$((refused + 1))
    row "$verdict" refused "$what" "$sectors"
}
# `raw` measures, and leaves every byte as it was.
allowed() { # WHAT DEVICE [ARGUMENT...]
    what=$1 node=$2
    shift 2
    sync
    before=$(digest)
    sectors=$(written)
    verdict=ok
    raw "$node" "$@" || verdict="not measured"
    sectors=$(($(written) - sectors))
    [ "$before" = "$(digest)" ] || verdict="changed"
    allowed=$((allowed + 1))
    row "$verdict" allowed "$what" "$sectors"
}
# Another program that has $1 open for writing.
writer() {
    sleep 1000 3<>"$1" &
    later "kill $!"
    sleep 0.2
}

printf -- '-        must be  %-68s  sectors  bytes\n' "target"
modprobe loop 2>/dev/null
modprobe ext4 2>/dev/null

section "what is no block device"
refused "nothing of that name" "$work/nothing" "no such"
: >"$work/file"
refused "a regular file" "$work/file" "not a block device"
refused "a directory" "$work" "not a block device"
refused "a character device" /dev/null "not a block device"

section "one disk"
disk 24
allowed "a free disk" "$loop"
exec 4<"$loop"
allowed "one that is open for reading" "$loop"
exec 4<&-
writer "$loop"
refused "one that is open for writing" "$loop" "open for writing in sleep"
section "one disk, its image"
disk 24
writer "$image"
refused "one whose image is open for writing" "$loop" "open for writing in sleep"
section "one disk, in use"
disk 24
fs "$loop"
allowed "a filesystem that is not mounted" "$loop"
hold "$loop"
refused "a mounted filesystem" "$loop" "syncprof gap"
umount "$point"
hold "$loop" "-o ro"
refused "one that is mounted read-only" "$loop" "mounted"
umount "$point"
if has unshare; then
    unshare -m sh -c "mount -o ro $loop $point && exec sleep 1000" &
    later "kill $!"
    sleep 1
    refused "one that is mounted in another namespace" "$loop" "namespace"
fi
section "swap"
disk 24
if has mkswap swapon && mkswap "$loop" >/dev/null 2>&1 && swapon "$loop" 2>/dev/null; then
    later "swapoff $loop"
    # Which the kernel may use.
    disks=""
    refused "swap space" "$loop" "swap"
    over "$image"
    disks=""
    refused "a loop device on the same image" "$loop" "swap"
else
    cannot "swap"
fi
section "read-only"
disk 24
blockdev --setro "$loop"
later "blockdev --setrw $loop"
refused "a disk that is set read-only" "$loop" "read-only"
section "btrfs"
if has mkfs.btrfs && { modprobe btrfs 2>/dev/null; grep -qw btrfs /proc/filesystems; }; then
    disk 128
    one=$loop
    disk 128
    if mkfs.btrfs -q -f "$one" "$loop" >/dev/null 2>&1 && { btrfs device scan "$one" "$loop" >/dev/null 2>&1; hold "$one"; }; then
        refused "the first member of a btrfs" "$one" "btrfs"
        refused "its second member" "$loop" "btrfs"
    fi
else
    cannot "btrfs"
fi

section "loop devices"
disk 24
first=$loop
over "$first"
refused "the backing of a loop device" "$first" "backs ${loop#/dev/}"
allowed "that loop device" "$loop"
middle=$loop
over "$loop"
allowed "a loop device over a loop device" "$loop"
refused "that in the middle" "$middle" "backs ${loop#/dev/}"
section "loop devices on one image"
disk 24
mounted "$loop"
mount_of=$point
over "$image"
refused "another loop device on a mounted image" "$loop" "mounted at $mount_of"
over "$image" $((16 << 20))
refused "one past the filesystem's end, but in the mounted device" "$loop" "mounted at $mount_of"
section "loop devices side by side"
disk 48
losetup -d "$loop"
over "$image" 0 $((16 * mib))
one=$loop
mounted "$loop"
over "$image" $((16 * mib)) $((16 * mib))
allowed "a loop device beside a mounted one on one image" "$loop"
over "$image" $((16 * mib - 512)) $((8 * mib))
refused "one that overlaps it by a sector" "$loop" "mounted at"
section "a loop device over what is mounted"
disk 24
mounted "$loop"
over "$loop"
refused "a loop device over a mounted device" "$loop" "mounted at"

section "partitions"
part() { addpart "$1" "$2" "$3" "$4" && later "delpart $1 $2"; }
if has addpart delpart; then
    disk 24
    d=$loop
    part "$d" 1 2048 20000
    part "$d" 2 32768 8192
    sleep 0.2
    allowed "a disk with partitions, none in use" "$d"
    over "${d}p2"
    refused "a partition that backs a loop device" "${d}p2" "backs"
    refused "the disk of it" "$d" "partition ${d#/dev/}p2"
    losetup -d "$loop"
    disks=$d
    mounted "${d}p1"
    refused "a mounted partition" "${d}p1" "syncprof gap"
    refused "the disk of it" "$d" "its partition ${d#/dev/}p1"
    allowed "a partition beside it" "${d}p2"
    over "$d" $((32768 * 512)) $((4 << 20))
    disks=$d
    allowed "a loop device on that disk, beside the mounted partition" "$loop"
    over "$d" $((20000 * 512)) $((4 << 20))
    disks=$d
    refused "a loop device on that disk, over the mounted partition's end" "$loop" "mounted at"
    over "$image" $((20000 * 512)) $((4 << 20))
    disks=$d
    refused "a loop device on the disk's image, over it" "$loop" "mounted at"
    section "a whole disk under its partitions"
    disk 24
    d=$loop
    part "$d" 1 2048 20000
    sleep 0.2
    if mounted "$d"; then
        refused "a partition of a disk that is mounted itself" "${d}p1" "disk"
    fi
else
    cannot "partitions: no addpart"
fi

section "partitions that overlap"
# No program makes such ones in a running kernel; a table does: 1: 2048+40000, 2: 34816+40000, 3: 80000+10000.
disk 48
d=$loop
printf '\000\000\000\000\203\000\000\000\000\010\000\000\100\234\000\000\000\000\000\000\203\000\000\000\000\210\000\000\100\234\000\000\000\000\000\000\203\000\000\000\200\070\001\000\020\047\000\000' |
    dd of="$image" bs=1 seek=446 conv=notrunc 2>/dev/null
printf '\125\252' | dd of="$image" bs=1 seek=510 conv=notrunc 2>/dev/null
losetup -d "$d"
losetup -P "$d" "$image"
sleep 0.5
if [ -b "${d}p2" ]; then
    allowed "a disk whose partitions overlap, none in use" "$d"
    allowed "a partition that an idle one overlaps" "${d}p1"
    mounted "${d}p2"
    refused "a partition that overlaps a mounted one" "${d}p1" "${d#/dev/}p2, which lies on the same bytes (sectors 34816 to"
    allowed "a partition beside it" "${d}p3"
    over "${d}p1"
    disks=$d
    refused "a loop device on the overlapping one" "$loop" "mounted at"
    losetup -d "$loop"
    umount "$point"
    if mkswap "${d}p2" >/dev/null 2>&1 && swapon "${d}p2" 2>/dev/null; then
        disks=""
        refused "a partition that overlaps swap space" "${d}p1" "swap"
        swapoff "${d}p2"
        disks=$d
    fi
    mounted "${d}p1"
    refused "a partition that a mounted one overlaps" "${d}p2" "mounted at"
    umount "$point"
    writer "${d}p2"
    refused "a partition that overlaps one that is open for writing" "${d}p1" "open for writing"
else
    cannot "partitions that overlap: this kernel reads no tables"
fi

section "an overlay"
modprobe overlay 2>/dev/null
mkdir -p "$work/layers"
if mount -t tmpfs -o size=128m none "$work/layers"; then
    later "umount $work/layers"
    mkdir "$work/layers/lower" "$work/layers/upper" "$work/layers/work" "$work/merged"
    dd if=/dev/zero of="$work/layers/upper/image" bs=1M count=24 2>/dev/null
    dd if=/dev/zero of="$work/layers/upper/other" bs=1M count=16 2>/dev/null
    options="lowerdir=$work/layers/lower,upperdir=$work/layers/upper,workdir=$work/layers/work"
    if mount -t overlay -o "$options" none "$work/merged" 2>/dev/null; then
        later "umount $work/merged"
        over "$work/layers/upper/image"
        real=$loop
        mounted "$loop"
        over "$work/merged/image"
        refused "an overlay's file that is mounted by its upper one" "$loop" "mounted at $point"
        umount "$point"
        hold "$loop"
        refused "the upper file of one that is mounted by the overlay" "$real" "mounted at $point"
        umount "$point"
        over "$work/merged/other"
        disks=$loop
        allowed "another file of the overlay" "$loop"
        writer "$work/layers/upper/other"
        refused "one whose upper file is open for writing" "$loop" "open for writing"
    else
        cannot "overlay"
    fi
fi

section "a small filesystem"
mkdir -p "$work/small"
if mount -t tmpfs -o size=24m none "$work/small"; then
    later "umount $work/small"
    truncate -s 64M "$work/small/image"
    over "$work/small/image"
    disks=""
    refused "holes that would fill the image's filesystem" "$loop" "may take 16M from the filesystem" --span 16m
    allowed "holes that it has room for" "$loop"
fi

section "a frozen filesystem"
disk 48
if has fsfreeze && mounted "$loop"; then
    frozen=$point
    dd if=/dev/zero of="$point/image" bs=1M count=8 2>/dev/null
    over "$point/image"
    sync
    fsfreeze --freeze "$frozen"
    disks=$loop
    refused "a loop device on a frozen filesystem" "$loop" "is frozen"
    raw_err=$("$syncprof" gap "$frozen" 2>&1)
    case $raw_err in
    *"is frozen"*) row ok refused "gap on a frozen filesystem" 0 ;;
    *) echo "$raw_err" >"$work/err"; row "not refused" refused "gap on a frozen filesystem" 0 ;;
    esac
    refused=$((refused + 1))
    fsfreeze --unfreeze "$frozen"
else
    cannot "fsfreeze"
fi

section "a thread with descriptors of its own"
if python3 -c "" 2>/dev/null; then
    disk 24
    python3 - "$loop" <<'PYTHON' &
import ctypes, os, sys, threading, time
def apart():
    ctypes.CDLL(None).unshare(0x400)  # CLONE_FILES
    os.open(sys.argv[1], os.O_RDWR)
    time.sleep(1000)
threading.Thread(target=apart, daemon=True).start()
time.sleep(1000)
PYTHON
    later "kill $!"
    sleep 1
    refused "one that such a thread has open for writing" "$loop" "open for writing in python3"
else
    cannot "threads with descriptors of their own: no python3"
fi

section "zram"
modprobe zram 2>/dev/null
if [ -e /sys/class/zram-control/hot_add ]; then
    number=$(cat /sys/class/zram-control/hot_add)
    later "echo $number >/sys/class/zram-control/hot_remove"
    echo 64M >"/sys/block/zram$number/disksize"
    [ -b "/dev/zram$number" ] || mknod "/dev/zram$number" b "$(sed 's/:.*//' "/sys/block/zram$number/dev")" "$number"
    disks="/dev/zram$number"
    allowed "a zram disk" "/dev/zram$number"
    mkswap "/dev/zram$number" >/dev/null && swapon "/dev/zram$number" && later "swapoff /dev/zram$number"
    disks=""
    refused "zram that is swap space" "/dev/zram$number" "swap"
fi

section "device-mapper"
modprobe dm-mod 2>/dev/null
if has dmsetup && dmsetup targets 2>/dev/null | grep -q linear; then
    modprobe -a dm-crypt dm-delay dm-flakey dm-snapshot dm-thin-pool dm-mirror dm-multipath dm-round-robin 2>/dev/null
    disk 64
    d=$loop
    dm a 0 65536 linear "$d" 0
    refused "a disk under a map" "$d" "is held by"
    allowed "a map" "/dev/mapper/$tag-a"
    dm c 0 16384 linear "$d" 98304
    dm b 0 65536 linear "$d" 32768
    refused "a map that an idle one over the same disk overlaps" "/dev/mapper/$tag-a" "held by"
    mounted "/dev/mapper/$tag-b"
    refused "a map that a mounted one overlaps by half" "/dev/mapper/$tag-a" "mounted at $point"
    refused "a mounted map" "/dev/mapper/$tag-b" "syncprof gap"
    allowed "a map beside a mounted one" "/dev/mapper/$tag-c"
    over "$image" $((20 << 20)) $((4 << 20))
    refused "a loop device on the image below a mounted map" "$loop" "mounted at $point"
    over "$image" $((56 << 20)) $((4 << 20))
    refused "one on that image beside them, in the loop device below" "$loop" "is the backing of"
    over "/dev/mapper/$tag-c"
    refused "a map that backs a loop device" "/dev/mapper/$tag-c" "backs"
    section "device-mapper, other targets over one disk"
    disk 64
    d=$loop
    dm mounted 0 32768 linear "$d" 32768
    mounted "/dev/mapper/$tag-mounted"
    key=babebabebabebabebabebabebabebabebabebabebabebabebabebabebabebabe
    if dm crypt 0 32768 crypt aes-xts-plain64 "$key" 0 "$d" 16384; then
        refused "crypt over a mounted map's sectors" "/dev/mapper/$tag-crypt" "mounted at $point"
        dm apart 0 16384 crypt aes-xts-plain64 "$key" 0 "$d" 98304
        allowed "crypt beside it" "/dev/mapper/$tag-apart"
        dmsetup remove "$tag-crypt"
        dmsetup remove "$tag-apart"
    fi
    if dm delay 0 8192 delay "$d" 0 0 "$d" 32768 0; then
        refused "delay that reads beside a mounted map and writes to it" "/dev/mapper/$tag-delay" "mounted at"
        dmsetup remove "$tag-delay"
    fi
    if dm delay 0 8192 delay "$d" 0 1; then
        allowed "delay beside it" "/dev/mapper/$tag-delay"
        dmsetup remove "$tag-delay"
    fi
    if dm flakey 0 8192 flakey "$d" 40000 3600 0; then
        refused "flakey over it" "/dev/mapper/$tag-flakey" "mounted at"
        dmsetup remove "$tag-flakey"
    fi
    disk 64
    if dm striped 0 32768 striped 2 128 "$d" 24576 "$loop" 0; then
        refused "a stripe that reaches it" "/dev/mapper/$tag-striped" "mounted at"
        dmsetup remove "$tag-striped"
        dm striped 0 32768 striped 2 128 "$d" 16384 "$loop" 0
        allowed "a stripe that ends before it" "/dev/mapper/$tag-striped"
        dmsetup remove "$tag-striped"
    fi
    dm parts 0 8192 linear "$loop" 0
    dm twice 0 16384 linear "$d" 60000
    writer "/dev/mapper/$tag-twice"
    refused "a map that one overlaps that is open for writing" "/dev/mapper/$tag-mounted" "."
    dm upper 0 4096 linear "/dev/mapper/$tag-parts" 0
    refused "a map under a map" "/dev/mapper/$tag-parts" "is held by"
    dm third 0 4096 linear "/dev/mapper/$tag-parts" 4096
    allowed "a map beside a map over one map" "/dev/mapper/$tag-third"
    dm fourth 0 4096 linear "/dev/mapper/$tag-parts" 0
    mkswap "/dev/mapper/$tag-fourth" >/dev/null && swapon "/dev/mapper/$tag-fourth" && later "swapoff /dev/mapper/$tag-fourth"
    disks=""
    refused "a map over the sectors of another one that is swap space" "/dev/mapper/$tag-upper" "swap"
    section "device-mapper, suspended"
    disk 64
    d=$loop
    dm lower 0 65536 linear "$d" 0
    dm upper 0 32768 linear "/dev/mapper/$tag-lower" 0
    dmsetup suspend --noflush --nolockfs "$tag-upper"
    later "dmsetup resume $tag-upper"
    disks=$d
    refused "a suspended map" "/dev/mapper/$tag-upper" "dmsetup resume $tag-upper"
    dmsetup resume "$tag-upper"
    over "/dev/mapper/$tag-upper"
    disks=$d
    top=$loop
    dmsetup suspend --noflush --nolockfs "$tag-lower"
    later "dmsetup resume $tag-lower"
    refused "a map over a suspended one" "/dev/mapper/$tag-upper" "dmsetup resume $tag-lower"
    refused "a loop device over a map over a suspended one" "$top" "dmsetup resume $tag-lower"
    dmsetup resume "$tag-lower"
    losetup -d "$top"
    mounted "/dev/mapper/$tag-upper"
    dmsetup suspend --noflush --nolockfs "$tag-upper"
    "$syncprof" gap --all --sizes 4k --span 1m --rounds 2 --budget 1s >"$work/out" 2>"$work/err"
    grep -q "dmsetup resume $tag-upper).*left out" "$work/err"
    [ $? -eq 0 ] && row ok refused "gap --all leaves out what lies on a suspended map" 0 || row "not told" refused "gap --all leaves it out" 0
    "$syncprof" list >"$work/out" 2>"$work/err"
    grep -q "dmsetup resume $tag-upper" "$work/err"
    [ $? -eq 0 ] && row ok refused "list tells of it" 0 || row "not told" refused "list tells of it" 0
    refused=$((refused + 2))
    dmsetup resume "$tag-upper"
    section "multipath"
    disk 32
    one=$loop
    over "$image"
    if dm mp 0 65536 multipath 1 queue_if_no_path 0 1 1 round-robin 0 2 1 "$one" 1 "$loop" 1; then
        refused "a path of a multipath device" "$one" "multipath\\|device-mapper"
        disks=$one
        allowed "the multipath device" "/dev/mapper/$tag-mp"
        dm part1 0 16384 linear "/dev/mapper/$tag-mp" 0
        dm part2 0 16384 linear "/dev/mapper/$tag-mp" 16384
        mounted "/dev/mapper/$tag-part1"
        allowed "a partition beside a mounted one of it" "/dev/mapper/$tag-part2"
        over "$image" 0 $((4 << 20))
        disks=$one
        refused "the drive by a third path" "$loop" "mounted at"
        umount "$point"
        paths=$(dmsetup table "$tag-mp" | grep -o '[0-9]*:[0-9]* 1' | cut -d' ' -f1)
        for path in $paths; do dmsetup message "$tag-mp" 0 fail_path "$path"; done
        refused "a multipath device without a path" "/dev/mapper/$tag-mp" "fail_if_no_path"
        refused "a partition of it" "/dev/mapper/$tag-part2" "fail_if_no_path"
        dmsetup message "$tag-mp" 0 fail_if_no_path
    else
        cannot "multipath"
    fi
    section "thin volumes"
    disk 64
    d=$loop
    dm meta 0 8192 linear "$d" 0
    dm data 0 65536 linear "$d" 16384
    if dm pool 0 65536 thin-pool "/dev/mapper/$tag-meta" "/dev/mapper/$tag-data" 128 0 1 skip_block_zeroing; then
        dmsetup message "$tag-pool" 0 "create_thin 0"
        dmsetup message "$tag-pool" 0 "create_thin 1"
        dm thin 0 131072 thin "/dev/mapper/$tag-pool" 0
        dm other 0 131072 thin "/dev/mapper/$tag-pool" 1
        refused "a thin pool with volumes" "/dev/mapper/$tag-pool" "is held by"
        refused "a pool's data" "/dev/mapper/$tag-data" "is held by"
        refused "a pool's metadata" "/dev/mapper/$tag-meta" "is held by"
        refused "a thin volume that would fill its pool" "/dev/mapper/$tag-thin" "from the pool" --span 24m
        disks=""
        allowed "a thin volume that its pool has room for" "/dev/mapper/$tag-thin"
        disks=$d
        mounted "/dev/mapper/$tag-other"
        disks=""
        allowed "a thin volume beside a mounted one" "/dev/mapper/$tag-thin"
        disks=$d
        dm rogue 0 8192 linear "$d" 20000
        refused "a map over a pool's data, past it" "/dev/mapper/$tag-rogue" "held by\\|mounted"
    else
        cannot "thin volumes"
    fi
    section "snapshots"
    disk 64
    d=$loop
    dm real 0 32768 linear "$d" 0
    dm cow 0 16384 linear "$d" 65536
    if dm snap 0 32768 snapshot "/dev/mapper/$tag-real" "/dev/mapper/$tag-cow" P 8 &&
        dm origin 0 32768 snapshot-origin "/dev/mapper/$tag-real"; then
        refused "what an origin and its snapshot lie on" "/dev/mapper/$tag-real" "is held by"
        refused "what a snapshot keeps its copies on" "/dev/mapper/$tag-cow" "is held by"
        fs "/dev/mapper/$tag-snap"
        hold "/dev/mapper/$tag-snap" "-o ro"
        disks=""
        allowed "the origin of a mounted snapshot" "/dev/mapper/$tag-origin"
        disks=$d
        refused "the origin, more than the snapshot has room for" "/dev/mapper/$tag-origin" "from the snapshot" --span 8m
        refused "the mounted snapshot" "/dev/mapper/$tag-snap" "mounted"
    else
        cannot "snapshots"
    fi
    section "a mirror"
    disk 32
    one=$loop
    disk 32
    if dm mirror 0 32768 mirror core 1 1024 2 "$one" 0 "$loop" 0; then
        refused "a leg of a mirror" "$loop" "is held by"
        allowed "a mirror" "/dev/mapper/$tag-mirror"
    fi
else
    cannot "device-mapper"
fi

section "md"
modprobe -a md-mod raid1 raid0 2>/dev/null
if has mdadm && [ -e /proc/mdstat ]; then
    disk 32
    one=$loop
    disk 32
    md=/dev/md125
    if mdadm --create "$md" --run --level=1 --raid-devices=2 --metadata=1.2 --assume-clean "$one" "$loop" >/dev/null 2>&1; then
        later "mdadm --stop $md"
        disks=""
        refused "the first member of an md array" "$one" "md"
        refused "its second member" "$loop" "md"
        allowed "the array" "$md"
        dm onmd 0 8192 linear "$md" 0 && {
            refused "an array under a map" "$md" "is held by"
            over "$image" $((4 << 20)) $((4 << 20))
            disks=""
            refused "a loop device on a member's image" "$loop" "held by"
            dmsetup remove "$tag-onmd"
        }
    fi
else
    cannot "md"
fi

section "LVM"
lvm_config="devices { use_devicesfile=0 filter=[ \"a|^/dev/loop|\", \"r|.*|\" ] } \
global { use_lvmlockd=0 use_lvmpolld=0 event_activation=0 } activation { monitoring=0 } \
backup { backup=0 archive=0 }"
lvm_run() { lvm "$@" --config "$lvm_config" >/dev/null 2>"$work/err"; }
if has lvm dmsetup && disk 64 && lvm_run vgcreate "$tag" "$loop"; then
    d=$loop
    later "lvm vgremove -f -y $tag --config '$lvm_config'"
    lvm_run lvcreate -Wn -Zn -L 16M -n one "$tag"
    lvm_run lvcreate -Wn -Zn -L 16M -n two "$tag"
    lvm_run vgmknodes "$tag"
    refused "a physical volume in use" "$d" "LVM"
    mounted "/dev/mapper/$tag-one"
    refused "a mounted logical volume" "/dev/mapper/$tag-one" "syncprof gap"
    allowed "a logical volume beside it on one physical volume" "/dev/mapper/$tag-two"
    if lvm_run lvcreate -s -L 8M -n snap "$tag/two"; then
        lvm_run vgmknodes "$tag"
        disks=""
        allowed "the origin of a logical snapshot" "/dev/mapper/$tag-two"
        disks=$d
        refused "the volume under it" "/dev/mapper/$tag-two-real" "LVM"
    fi
else
    cannot "LVM"
fi

section "LUKS"
if has cryptsetup dmsetup && disk 48 &&
    printf secret | cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 "$loop" - 2>"$work/err" &&
    printf secret | cryptsetup open --key-file - "$loop" "$tag-luks" 2>"$work/err"; then
    later "cryptsetup close $tag-luks"
    refused "an opened LUKS container" "$loop" "is held by"
    allowed "its volume" "/dev/mapper/$tag-luks"
else
    cannot "LUKS"
fi

section "zones"
if [ ! -d /sys/module/null_blk ] && modprobe null_blk nr_devices=1 gb=1 zoned=1 zone_size=64 memory_backed=1 2>/dev/null; then
    later "modprobe -r null_blk"
    zoned=/dev/nullb0
    refused "a zoned disk" "$zoned" "it is a zoned device"
    over "$zoned"
    disks=""
    refused "a loop device over a zoned disk" "$loop" "nullb0, which it lies on, is a zoned device"
    if has dmsetup && dm onloop 0 65536 linear "$loop" 0; then
        refused "a map over that" "/dev/mapper/$tag-onloop" "is a zoned device"
        dmsetup remove "$tag-onloop"
    fi
    losetup -d "$loop"
    if has dmsetup && dm onzones 0 131072 linear "$zoned" 0; then
        refused "a map over a zoned disk" "/dev/mapper/$tag-onzones" "is a zoned device"
        over "/dev/mapper/$tag-onzones"
        disks=""
        refused "a loop device over that" "$loop" "is a zoned device"
    fi
else
    cannot "zones: no null_blk, or it is in use"
fi

section "exports"
modprobe -a configfs nvmet 2>/dev/null
mount -t configfs none /sys/kernel/config 2>/dev/null
if [ -d /sys/kernel/config/nvmet ]; then
    export_as() { # PATH NAMESPACE
        space="/sys/kernel/config/nvmet/subsystems/$tag/namespaces/$2"
        mkdir -p "$space" && printf %s "$1" >"$space/device_path" && echo 1 >"$space/enable" && later "echo 0 >$space/enable; rmdir $space"
    }
    mkdir "/sys/kernel/config/nvmet/subsystems/$tag" && later "rmdir /sys/kernel/config/nvmet/subsystems/$tag"
    disk 24
    if export_as "$loop" 1; then
        refused "a disk that is exported" "$loop" "exported"
        over "$image" $((4 << 20))
        refused "a loop device on its image" "$loop" "exported"
    fi
    section "exported images"
    mkdir -p "/sys/kernel/config/nvmet/subsystems/$tag" && later "rmdir /sys/kernel/config/nvmet/subsystems/$tag"
    disk 24
    if export_as "$image" 2; then
        refused "a loop device whose image is exported" "$loop" "exported"
    fi
else
    cannot "exports: no nvmet"
fi

section "drives of one identity"
wwid() { cat "/sys/block/$1/device/wwid" 2>/dev/null; }
if [ -n "${SYNCPROF_TEST_SCSI:-}" ] || { [ -e /dev/sdc ] && [ -n "$(wwid sda)" ] && [ "$(wwid sda)" = "$(wwid sdb)" ]; }; then
    disks="/dev/sda /dev/sdb /dev/sdc"
    later "true"
    mounted /dev/sda
    refused "another path to a mounted drive" /dev/sdb "though of another size\\|the same drive"
    refused "one of another size" /dev/sdc "device/rescan"
    umount "$point"
    serial=$(tail -c +5 /sys/block/sdb/device/vpd_pg80 | tr -d ' \0')
    raw /dev/sdb --overwrite --force --confirm "$serial"
    [ $? -eq 3 ] && grep -q "confirm with sdb" "$work/err" && verdict=ok || verdict="confirmed by '$serial'"
    row "$verdict" refused "a serial number of two drives that is to confirm" 0
    refused=$((refused + 1))
    allowed "a drive whose other path nobody uses" /dev/sdb
else
    cannot "drives of one identity: no disks sda, sdb and sdc of one WWN"
fi

section "the whole"
echo "$refused refused, $allowed allowed, $failed not as they must be"
[ "$failed" -eq 0 ]
