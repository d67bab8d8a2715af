#!/usr/bin/env bash
# progress.sh FLAG…: go build with these flags, which prints one line for all the libraries that it fetches and packages it compiles.
set -eu -o pipefail
cd "$(dirname "$0")/.."
[ -t 1 ] && every=1 || every=50
count() { # counts the lines that match a pattern, and shows others as they are
	awk -v pattern="$1" -v every="$every" -v what="$2" '
		BEGIN { format = every > 1 ? "%s: %d\n" : "\r%s: %d" }
		function show() { printf format, what, n; shown = n; fflush() }
		$0 ~ pattern { n++; if (n % every == 0) show(); next }
		{ print; fflush() }
		END { if (n != shown) show(); if (n && every == 1) print "" }'
}
list=$(go list -deps . 2> >(count '^go: downloading ' "libraries fetched" >&2))
echo "compiling up to $(wc -l <<<"$list") packages; on a fresh clone this takes some minutes"
CGO_ENABLED=0 go build -v -trimpath "$@" 2>&1 | count '^[^ ]+$' "packages compiled"
