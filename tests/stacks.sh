#!/bin/sh
# Checks the guard on stacks of real devices: LVM, md, LUKS, device-mapper, partition tables, and
# drives that fail or vanish. Run it as root where the kernel has those and their tools are there:
#
#     tests/stacks.sh target/release/syncprof
#
# It works on loop images (and one scsi_debug disk) of its own only, and takes all down again. What
# this machine has no driver or tool for is named and counted. Exits 1 if a check failed.
set -u

[ $# -eq 1 ] && [ -x "$1" ] || { echo "usage: $0 BINARY" >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || { echo "$0: needs root" >&2; exit 2; }
syncprof=$(readlink -f "$1")
PATH="$PATH:/usr/sbin:/sbin"
work=$(mktemp -d "${TMPDIR:-/tmp}/syncprof-stacks.XXXXXX") || exit 2
tag="syncprof$$"
XDG_STATE_HOME="$work/state"
export PATH XDG_STATE_HOME
# Without udev, nobody answers device-mapper's cookies.
[ -e /run/udev/control ] || export DM_DISABLE_UDEV=1
# No other device is looked at, and no daemon asked.
lvm_config="devices { use_devicesfile=0 filter=[ \"a|^/dev/loop|\", \"r|.*|\" ] } \
global { use_lvmlockd=0 use_lvmpolld=0 event_activation=0 } activation { monitoring=0 } \
backup { backup=0 archive=0 }"

passed=0
failed=0
untested=0
undo=""

pass() { passed=$((passed + 1)); echo "ok    $1"; }
fail() { failed=$((failed + 1)); echo "FAIL  $1"; head -n 30 "$work/err" "$work/out" 2>/dev/null | sed 's/^/      /'; }
cannot() { untested=$((untested + 1)); echo "not tested here: $1"; }
check() { # WHAT COMMAND...
    what=$1
    shift
    if "$@"; then pass "$what"; else fail "$what"; fi
}

# Remembers a command that takes something down again; the last made goes first.
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
}
finish() {
    take_down
    rm -rf --one-file-system "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

# Puts the first loop device over a new image of $1 MiB in $disk; $2: more options.
images=0
disk() {
    images=$((images + 1))
    image="$work/image$images"
    truncate -s "$1M" "$image" || return 1
    # shellcheck disable=SC2086 # Several options.
    disk=$(losetup -f --show ${2:-} "$image") || return 1
    later "losetup -d $disk"
}

has() {
    for tool in "$@"; do
        command -v "$tool" >/dev/null || return 1
    done
}

# Device-mapper has this target.
dm_has() {
    has dmsetup || return 1
    modprobe "dm-$1" 2>/dev/null || modprobe dm-mod 2>/dev/null
    dmsetup targets 2>/dev/null | grep -q "^$1 "
}

# Makes a device-mapper device /dev/mapper/$tag-$1 from the table on standard input.
dm() {
    dmsetup create "$tag-$1" || return 1
    dmsetup mknodes "$tag-$1" 2>/dev/null
    later "dmsetup remove --retry $tag-$1"
}

# A device's name in sysfs: its node may be a link, or a node of another name.
kernel_name() {
    basename "$(readlink -f "/sys/dev/block/$((0x$(stat -Lc %t "$1"))):$((0x$(stat -Lc %T "$1")))")"
}

digest() { sync "$1" 2>/dev/null || sync; sha256sum <"$1"; }

# A short run of one cell.
quick="--sizes 4k --span 1m --rounds 2 --budget 2s"
run() { # ARGUMENT...
    # shellcheck disable=SC2086 # Several options.
    "$syncprof" "$@" $quick >"$work/out" 2>"$work/err"
}

# `raw` on a device is refused, with and without all that overrides, in one line with this text.
refused() { # WHAT DEVICE TEXT
    for way in "" "--overwrite --force --confirm $(kernel_name "$2")"; do
        # shellcheck disable=SC2086 # Several options.
        run raw "$2" $way
        status=$?
        if [ $status -eq 3 ] && grep -q -- "$3" "$work/err" && [ "$(wc -l <"$work/err")" -eq 1 ]; then
            pass "$1: refused${way:+ to overwrite}"
        else
            echo "exit status $status, and not one line with '$3'" >>"$work/err"
            fail "$1: refused${way:+ to overwrite}"
        fi
    done
    check "$1: listed as not writable" listed "$2" false
}

# The list's verdict on a device is $2: true or false.
listed() { # DEVICE VERDICT
    "$syncprof" list --json >"$work/list" 2>"$work/err" || return 1
    awk -v name="\"name\": \"$(kernel_name "$1")\"," '
        index($0, name) { found = 1 }
        found && /"writable_by_raw"/ { gsub(/[^a-z]/, "", $2); print $2; exit }' \
        "$work/list" >"$work/out"
    grep -qx "$2" "$work/out"
}

# `raw` on a free device measures, and leaves every byte as it was.
preserved() { # WHAT DEVICE
    before=$(digest "$2")
    run raw "$2"
    status=$?
    if [ $status -ne 0 ]; then
        echo "exit status $status" >>"$work/err"
        fail "$1: measured"
    elif [ "$before" != "$(digest "$2")" ]; then
        fail "$1: content kept"
    else
        pass "$1: measured, content kept"
    fi
    check "$1: listed as writable" listed "$2" true
}

# What carries a signature is overwritten by force alone.
needs_force() { # WHAT DEVICE TEXT
    before=$(digest "$2")
    run raw "$2" --overwrite --confirm "$(kernel_name "$2")"
    status=$?
    if [ $status -eq 3 ] && grep -q -- "$3" "$work/err" && [ "$before" = "$(digest "$2")" ]; then
        pass "$1: not overwritten without --force"
    else
        echo "exit status $status, or no '$3'" >>"$work/err"
        fail "$1: not overwritten without --force"
    fi
}

# `gap` on a mounted filesystem compares with the file's own blocks, and leaves nothing behind.
gap_on() { # WHAT DIRECTORY
    echo precious >"$2/precious"
    names=$(ls -A "$2")
    run gap "$2" --json "$work/record.json"
    status=$?
    if [ $status -ne 0 ] || ! grep -q '"role": *"raw"' "$work/record.json"; then
        echo "exit status $status, or no raw side" >>"$work/err"
        fail "$1: gap on the file's own blocks"
    elif [ "$names" != "$(ls -A "$2")" ] || [ "$(cat "$2/precious")" != precious ]; then
        fail "$1: nothing left behind"
    else
        pass "$1: gap on the file's own blocks, nothing left behind"
    fi
}

# Mounts a new filesystem of a sort at $point; fails where there is none.
mounted() { # SORT DEVICE
    has "mkfs.$1" || return 1
    modprobe "$1" 2>/dev/null
    grep -qw "$1" /proc/filesystems || return 1
    case $1 in
    xfs) mkfs.xfs -q -f "$2" ;;
    *) "mkfs.$1" -q -F "$2" ;;
    esac >/dev/null 2>&1 || return 1
    point="$work/mount-$1-$(basename "$2")"
    mkdir -p "$point"
    mount -t "$1" "$2" "$point" || return 1
    later "umount $point"
}

section() {
    take_down
    echo "-- $1"
}

modprobe loop 2>/dev/null

section "partition table"
if has sfdisk && disk 700 "--partscan" && printf 'label: gpt\n,64M\n,\n' | sfdisk -q "$disk" >/dev/null 2>&1 &&
    { [ -b "${disk}p2" ] || partprobe "$disk" 2>/dev/null || blockdev --rereadpt "$disk" 2>/dev/null; [ -b "${disk}p2" ]; }; then
    needs_force "GPT disk" "$disk" "GPT"
    preserved "GPT disk, unused" "$disk"
    preserved "partition of it" "${disk}p1"
    for fs in ext4 xfs; do
        if mounted "$fs" "${disk}p2"; then
            refused "mounted $fs partition" "${disk}p2" "syncprof gap"
            refused "disk with a mounted $fs partition" "$disk" "partition"
            preserved "partition beside the mounted $fs" "${disk}p1"
            gap_on "$fs on a partition" "$point"
            umount "$point"
            needs_force "unmounted $fs partition" "${disk}p2" "filesystem"
        else
            cannot "$fs: no mkfs.$fs or no driver"
        fi
    done
    wipefs -qa "${disk}p1" 2>/dev/null
    if mounted ext4 "$disk"; then
        : # The whole disk can be mounted though it had partitions.
        refused "partition of a mounted disk" "${disk}p1" "disk"
    else
        cannot "whole disk mounted under its partitions: the kernel or mkfs refused"
    fi
else
    cannot "partition tables: no sfdisk, or this kernel reads none"
fi

section "device-mapper"
if dm_has linear && disk 64; then
    sectors=$(blockdev --getsz "$disk")
    if echo "0 $((sectors / 2)) linear $disk 0" | dm lower; then
        refused "device under dm-linear" "$disk" "$tag-lower"
        preserved "dm-linear" "/dev/mapper/$tag-lower"
        if echo "0 $((sectors / 2)) linear /dev/mapper/$tag-lower 0" | dm upper; then
            refused "dm under dm" "/dev/mapper/$tag-lower" "$tag-upper"
            preserved "dm over dm" "/dev/mapper/$tag-upper"
            if mounted ext4 "/dev/mapper/$tag-upper"; then
                refused "mounted dm" "/dev/mapper/$tag-upper" "syncprof gap"
                refused "dm under a mounted dm" "/dev/mapper/$tag-lower" "$tag-upper"
                refused "disk under a mounted dm" "$disk" "$tag-lower"
                gap_on "ext4 on dm over dm" "$point"
            fi
        fi
    else
        fail "dm-linear could not be set up"
    fi
else
    cannot "device-mapper: no dmsetup or no driver"
fi

section "a device that dies under a run"
if dm_has linear && dm_has error && disk 64; then
    sectors=$(blockdev --getsz "$disk")
    for method in o_dsync fdatasync none; do
        echo "0 $sectors linear $disk 0" | dm dying
        "$syncprof" raw "/dev/mapper/$tag-dying" --sizes 4k,64k --span 1m --budget 20s --precision 0.1% --method "$method" \
            --json "$work/dying.json" >"$work/out" 2>"$work/err" &
        pid=$!
        sleep 2
        echo "0 $sectors error" | dmsetup load "$tag-dying"
        dmsetup suspend --nolockfs --noflush "$tag-dying" && dmsetup resume "$tag-dying"
        wait $pid
        status=$?
        [ $status -eq 1 ] && grep -q '"failed": *"' "$work/dying.json"
        check "I/O errors in the middle, $method: cells failed, exit status $status" [ $? -eq 0 ]
        dmsetup remove --retry "$tag-dying"
    done
    echo "0 $sectors error" | dm dead
    run raw "/dev/mapper/$tag-dead"
    status=$?
    check "unreadable device: exit status $status is 4" [ $status -eq 4 ]
    check "unreadable device: one line" [ "$(wc -l <"$work/err")" -eq 1 ]
    dmsetup remove --retry "$tag-dead"
    if dm_has flakey; then
        echo "0 $sectors flakey $disk 0 0 3600 1 error_writes" | dm flakey
        run raw "/dev/mapper/$tag-flakey"
        status=$?
        check "writes fail from the start: exit status $status is 1" [ $status -eq 1 ]
        run raw "/dev/mapper/$tag-flakey" --overwrite --confirm "$(kernel_name "/dev/mapper/$tag-flakey")" --engine sync
        status=$?
        check "writes fail from the start, sync: exit status $status is 1" [ $status -eq 1 ]
        dmsetup remove --retry "$tag-flakey"
    else
        cannot "dm-flakey: no driver"
    fi
    # A filesystem that shuts down under a gap.
    for fs in ext4 xfs; do
        disk 512
        sectors=$(blockdev --getsz "$disk")
        echo "0 $sectors linear $disk 0" | dm "under-$fs"
        if mounted "$fs" "/dev/mapper/$tag-under-$fs"; then
            "$syncprof" gap "$point" --sizes 4k --span 1m --budget 20s --precision 0.1% --json "$work/dying.json" \
                >"$work/out" 2>"$work/err" &
            pid=$!
            sleep 3
            echo "0 $sectors error" | dmsetup load "$tag-under-$fs"
            dmsetup suspend --nolockfs --noflush "$tag-under-$fs" && dmsetup resume "$tag-under-$fs"
            wait $pid
            status=$?
            check "$fs whose device dies under a gap: exit status $status is 1 or 4" [ $status -eq 1 -o $status -eq 4 ]
            grep -q panicked "$work/err"
            check "$fs whose device dies under a gap: no panic" [ $? -ne 0 ]
            umount "$point"
            echo "0 $sectors linear $disk 0" | dmsetup load "$tag-under-$fs"
            dmsetup suspend --nolockfs --noflush "$tag-under-$fs"
            dmsetup resume "$tag-under-$fs"
            mount -t "$fs" "/dev/mapper/$tag-under-$fs" "$point"
            "$syncprof" clean "$point" >"$work/out" 2>"$work/err"
            ls -A "$point" >>"$work/out"
            check "$fs whose device died: clean removes what is left" [ -z "$(ls -A "$point" | grep -v lost+found)" ]
            umount "$point"
        else
            cannot "$fs that dies: no mkfs.$fs or no driver"
        fi
    done
else
    cannot "dying devices: no device-mapper with linear and error"
fi

section "LVM"
lvm_run() { lvm "$@" --config "$lvm_config" >/dev/null 2>"$work/err"; }
if has lvm && dm_has linear && disk 300; then
    pv=$disk
    if lvm_run pvcreate -qq -y "$pv"; then
        needs_force "unused physical volume" "$pv" "LVM"
        preserved "unused physical volume" "$pv"
        later "lvm vgremove -f -y $tag --config '$lvm_config'"
        lvm_run vgcreate "$tag" "$pv" && lvm_run lvcreate -Wn -Zn -an -L 64M -n one "$tag"
        preserved "physical volume of an inactive group" "$pv"
        if lvm_run vgchange -ay "$tag"; then
            lvm_run vgmknodes "$tag"
            lv="/dev/mapper/$tag-one"
            refused "physical volume in use" "$pv" "LVM"
            preserved "free logical volume" "$lv"
            if mounted ext4 "$lv"; then
                refused "mounted logical volume" "$lv" "syncprof gap"
                refused "physical volume under a mount" "$pv" "LVM"
                gap_on "ext4 on a logical volume" "$point"
                umount "$point"
            fi
            if lvm_run lvcreate -s -L 16M -n snap "$tag/one"; then
                lvm_run vgmknodes "$tag"
                snapshot=$(digest "/dev/mapper/$tag-snap")
                preserved "origin of a snapshot" "$lv"
                refused "volume under an origin" "/dev/mapper/$tag-one-real" "LVM"
                [ "$snapshot" = "$(digest "/dev/mapper/$tag-snap")" ]
                check "snapshot: content kept" [ $? -eq 0 ]
                lvm_run lvremove -f -y "$tag/snap"
            else
                cannot "LVM snapshot: no driver"
            fi
            lvm_run vgchange -an "$tag"
        else
            fail "LVM group could not be activated"
        fi
    else
        fail "LVM physical volume could not be made"
    fi
else
    cannot "LVM: no lvm, or no device-mapper"
fi

section "md"
modprobe -a md-mod raid1 2>/dev/null
if has mdadm && [ -e /proc/mdstat ] && grep -q raid1 /proc/mdstat && disk 64; then
    one=$disk
    disk 64
    two=$disk
    for metadata in 1.2 1.0 0.90; do
        md=/dev/md127
        if mdadm --create "$md" --run --level=1 --raid-devices=2 --metadata="$metadata" --assume-clean \
            "$one" "$two" >"$work/out" 2>"$work/err"; then
            # Unless it is stopped by then, and the name is another array's.
            later "grep -q '^${md#/dev/} .*${one#/dev/}' /proc/mdstat && mdadm --stop $md"
            for member in "$one" "$two"; do
                refused "md $metadata member" "$member" "md"
            done
            preserved "md $metadata array" "$md"
            if mounted ext4 "$md"; then
                refused "mounted md" "$md" "syncprof gap"
                refused "member of a mounted md" "$one" "md"
                gap_on "ext4 on md" "$point"
                umount "$point"
            fi
            mdadm --stop "$md" >/dev/null 2>&1
            needs_force "member of a stopped md $metadata" "$one" "md"
            preserved "member of a stopped md $metadata" "$one"
            mdadm --zero-superblock "$one" "$two"
        else
            fail "md array could not be made"
        fi
    done
else
    cannot "md: no mdadm, or no driver with raid1"
fi

section "LUKS"
modprobe -a dm-crypt 2>/dev/null
if has cryptsetup && dm_has crypt && disk 64; then
    for type in luks1 luks2; do
        name="$tag-$type"
        if printf secret | cryptsetup luksFormat -q --type "$type" --pbkdf pbkdf2 --pbkdf-force-iterations 1000 \
            "$disk" - >"$work/out" 2>"$work/err"; then
            needs_force "closed $type" "$disk" "LUKS"
            preserved "closed $type" "$disk"
            printf secret | cryptsetup open --key-file - "$disk" "$name" 2>"$work/err"
            later "cryptsetup close $name"
            refused "opened $type" "$disk" "$name"
            preserved "mapping of a $type" "/dev/mapper/$name"
            if mounted ext4 "/dev/mapper/$name"; then
                refused "mounted mapping" "/dev/mapper/$name" "syncprof gap"
                gap_on "ext4 on $type" "$point"
                umount "$point"
            fi
            cryptsetup close "$name"
        else
            cannot "$type: this kernel lacks its ciphers: $(tail -n 1 "$work/err")"
        fi
    done
else
    cannot "LUKS: no cryptsetup, or no dm-crypt"
fi

section "a SCSI disk that is taken away"
if [ ! -e /sys/bus/pseudo/drivers/scsi_debug ] && modprobe sd_mod 2>/dev/null && modprobe scsi_debug dev_size_mb=64 2>/dev/null; then
    later "modprobe -r scsi_debug"
    sd=""
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        ls -d /sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*/block/sd* >"$work/out" 2>/dev/null && break
        sleep 1
    done
    for model in /sys/block/sd*/device/model; do
        case $(cat "$model") in
        scsi_debug*) sd=$(basename "${model%/device/model}") ;;
        esac
    done
    if [ -n "$sd" ] && [ -b "/dev/$sd" ]; then
        serial=$(tail -c +5 "/sys/block/$sd/device/vpd_pg80" 2>/dev/null | tr -d ' \0')
        preserved "SCSI disk" "/dev/$sd"
        if [ -n "$serial" ]; then
            run raw "/dev/$sd" --overwrite --confirm "$serial"
            check "overwrite confirmed by the serial number" [ $? -eq 0 ]
            run raw "/dev/$sd" --overwrite --confirm "${serial}0"
            check "overwrite not confirmed by another number" [ $? -eq 3 ]
        fi
        "$syncprof" raw "/dev/$sd" --sizes 4k --span 1m --budget 20s --precision 0.1% --json "$work/gone.json" \
            >"$work/out" 2>"$work/err" &
        pid=$!
        sleep 2
        echo 1 >"/sys/block/$sd/device/delete"
        wait $pid
        status=$?
        [ $status -eq 1 ] && grep -q '"failed": *"' "$work/gone.json"
        check "disk taken away in the middle: cell failed, exit status $status is 1" [ $? -eq 0 ]
        run raw "/dev/$sd"
        check "disk that is gone: exit status 3" [ $? -eq 3 ]
    else
        cannot "SCSI disk: scsi_debug made none"
    fi
else
    cannot "SCSI disk: no scsi_debug driver, or it is in use"
fi

section "a zoned device"
if [ ! -d /sys/module/null_blk ] && modprobe null_blk nr_devices=1 gb=1 zoned=1 zone_size=64 memory_backed=1 2>/dev/null; then
    later "modprobe -r null_blk"
    if grep -q host-managed /sys/block/nullb0/queue/zoned; then
        refused "zoned device" /dev/nullb0 "zoned"
    else
        cannot "zoned device: null_blk made none"
    fi
else
    cannot "zoned device: no null_blk driver, or it is in use"
fi

section "what is left"
check "no scratch folder is left behind" [ -z "$(ls "$work/state/syncprof" 2>/dev/null | grep -v '\.json$')" ]

echo "$passed passed, $failed failed, $untested not tested here"
[ $failed -eq 0 ]
