#!/bin/sh
# Gets a Debian machine ready for the tests: installs what is missing, loads the modules of devices and
# filesystems where the kernel has any, and mounts tracefs. Uses sudo where this is not run as root.
set -eu

as_root=""
[ "$(id -u)" -eq 0 ] || as_root="sudo"
PATH="$PATH:/usr/sbin:/sbin"

# Command and package, in pairs.
missing=""
while read -r command package; do
    command -v "$command" >/dev/null || missing="$missing $package"
done <<END
cc gcc
c++ g++
losetup mount
mkfs.ext4 e2fsprogs
lsattr e2fsprogs
mkfs.xfs xfsprogs
xfs_io xfsprogs
mkfs.btrfs btrfs-progs
addpart util-linux
setpriv util-linux
END
if [ -n "$missing" ]; then
    $as_root apt-get update -q
    # shellcheck disable=SC2086 # The list is split into packages on purpose.
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends $missing
fi

# Built into some kernels, so that there is nothing to load: what is lacking then, the tests tell.
if command -v modprobe >/dev/null; then
    for module in loop zram ext4 xfs btrfs; do
        $as_root modprobe -q "$module" || true
    done
fi
tracefs=/sys/kernel/tracing
if [ -d "$tracefs" ] && ! grep -q " $tracefs tracefs " /proc/mounts; then
    $as_root mount -t tracefs tracefs "$tracefs"
fi
