#!/bin/sh
# Gets the machine ready, then runs all tests, or those that cargo test's arguments name. Device tests
# need root: where this is not run as root, sudo runs the test programs.
set -eu
cd "$(dirname "$0")/.."
tests/setup.sh

PATH="$PATH:/usr/sbin:/sbin"
export PATH
if [ "$(id -u)" -ne 0 ]; then
    exec cargo test --locked --config 'target."cfg(unix)".runner = ["sudo", "-E", "env", "PATH='"$PATH"'"]' "$@"
fi
exec cargo test --locked "$@"
