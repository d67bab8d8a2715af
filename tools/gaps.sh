#!/usr/bin/env bash
# gaps.sh FILLER TARGET…: makes the targets one after the other, and beside them, in the gaps that their waits leave, the filler with
# the lowest priority, until both are done. A target that fails ends the filler, too.
set -eu
make=${MAKE:-make}
filler=$1
shift
set -m # a group of its own, which ends as one
nice -n 19 "$make" --no-print-directory "$filler" &
filling=$!
set +m
trap 'kill -- -"$filling" 2>/dev/null || true' EXIT
for target; do
	"$make" --no-print-directory "$target"
done
wait "$filling"
