#!/usr/bin/env bash
# summary.sh COMMAND…: runs tests, and says at the end which of them were skipped for want of what.
set -u
cd "$(dirname "$0")/.."
[ -z "${ANTIROBOT_SKIPPED:-}" ] || exec "$@" # another one prints the summary
mkdir -p .bin
export ANTIROBOT_SKIPPED=$PWD/.bin/skipped
: >"$ANTIROBOT_SKIPPED"
"$@"
status=$?
if [ -s "$ANTIROBOT_SKIPPED" ]; then
	printf '\nSKIPPED %d tests, for want of:\n' "$(wc -l <"$ANTIROBOT_SKIPPED")"
	cut -f 1,2 "$ANTIROBOT_SKIPPED" | sort | uniq -c | sed 's/\t/ (/; s/$/)/'
fi
exit $status
