#!/bin/sh
# Runs `gap --trunc --trace on` again and again on ext4 on a loop device, which makes and ends rings as fast
# as it can, beside a program that makes the kernel's worker threads end and begin, and counts runs that
# stood still. Run as root; needs jq.
#
#   NEIGHBOUR='PROGRAM ARGUMENT...' tests/keeper.sh [SECONDS, 1800 by default] [PROGRAM]
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-1800} program=${2:-target/release/syncprof}
[ -x "$program" ] || cargo build --release --locked
folder=$(mktemp -d "$PWD/target/syncprof-keeper-XXXXXX")
loop='' neighbour=''
finish() {
    [ -z "$neighbour" ] || kill "$neighbour" 2>/dev/null || true
    mountpoint -q "$folder/mount" && umount "$folder/mount"
    [ -z "$loop" ] || losetup -d "$loop"
    rm -rf "$folder"
}
trap finish EXIT
trap 'exit 130' INT TERM
mkdir "$folder/mount"
truncate -s 256M "$folder/image"
mkfs.ext4 -q "$folder/image"
loop=$(losetup --find --show "$folder/image")
mount "$loop" "$folder/mount"

end=$(($(date +%s) + seconds)) runs=0 slices=0 stalls=0 rescues=0 failed=0
while [ "$(date +%s)" -lt "$end" ]; do
    if [ -n "${NEIGHBOUR:-}" ] && { [ -z "$neighbour" ] || ! kill -0 "$neighbour" 2>/dev/null; }; then
        $NEIGHBOUR >/dev/null 2>&1 &
        neighbour=$!
    fi
    XDG_STATE_HOME="$folder" "$program" --quiet gap "$folder/mount" --trunc --trace on --sizes 4k,64k --span 8m \
        --budget 20s --json "$folder/record.json" >"$folder/table" 2>&1 || {
        failed=$((failed + 1))
        cat "$folder/table" >&2
    }
    runs=$((runs + 1))
    set -- $(jq -r '[.cells[]] | "\([.[].slices | length] | add) \([.[].stalled | length] | add) \([.[].stalled[].rescued] | add // 0)"' \
        "$folder/record.json")
    slices=$((slices + $1)) stalls=$((stalls + $2)) rescues=$((rescues + $3))
done
printf '%d runs, %d slices: %d stood still, in %d of which a lost request came back; %d runs failed\n' \
    "$runs" "$slices" "$stalls" "$rescues" "$failed"
[ $((stalls + failed)) -eq 0 ]
