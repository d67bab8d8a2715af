#!/usr/bin/env bash
# summary.sh COMMAND…: runs tests, and says at the end which of them were skipped for want of what.
set -u
cd "$(dirname "$0")/.."
[ -z "${SKIPPED_TESTS:-}" ] || exec "$@" # another one prints the summary
mkdir -p .bin
export SKIPPED_TESTS=$PWD/.bin/skipped
: >"$SKIPPED_TESTS"
"$@"
status=$?
if [ -s "$SKIPPED_TESTS" ]; then
	printf '\nSKIPPED %d tests, for want of:\n' "$(wc -l <"$SKIPPED_TESTS")"
	cut -f 1,2 "$SKIPPED_TESTS" | sort | uniq -c | sed 's/\t/ (/; s/$/)/'
fi
exit $status
