#!/bin/sh
# Installs what the tests need on Debian, then runs them all. Device tests need root: where this
# is not run as root, sudo runs the test programs, and installs.
set -eu
cd "$(dirname "$0")/.."

as_root=""
[ "$(id -u)" -eq 0 ] || as_root="sudo"

# Command and package, in pairs.
missing=""
while read -r command package; do
    PATH="$PATH:/usr/sbin:/sbin" command -v "$command" >/dev/null || missing="$missing $package"
done <<END
cc gcc
losetup mount
mkfs.ext4 e2fsprogs
mkfs.xfs xfsprogs
mkfs.btrfs btrfs-progs
addpart util-linux
lsattr e2fsprogs
END
if [ -n "$missing" ]; then
    $as_root apt-get update -q
    # shellcheck disable=SC2086 # The list is split into packages on purpose.
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends $missing
fi

PATH="$PATH:/usr/sbin:/sbin"
export PATH
if [ -n "$as_root" ]; then
    exec cargo test --locked --config 'target."cfg(unix)".runner = ["sudo", "-E", "env", "PATH='"$PATH"'"]' "$@"
fi
exec cargo test --locked "$@"
