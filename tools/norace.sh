#!/usr/bin/env bash
# Prints which tests the race detector leaves out, as the words for `go test`: the packages, or with "names" a pattern of their
# tests. Left out are those of files that are not built with it, and those that ask for raceEnabled, also by way of a helper.
set -eu
cd "$(dirname "$0")/.."
mapfile -t dirs < <(git ls-files '*_test.go' | grep -vE '^(e2e|tools)/' | xargs grep -lE '^//go:build !race' | xargs -n1 dirname | sort -u)
if [ "${1:-packages}" = packages ]; then
	printf './%s ' "${dirs[@]}"
	exit
fi
for dir in "${dirs[@]}"; do
	awk '
		FNR == 1 { norace = 0; name = "" }
		/^\/\/go:build !race/ { norace = 1 }
		/^func / { name = $2; sub(/\(.*/, "", name); if (norace && name ~ /^(Test|Fuzz)/) known[name] }
		/^}/ { name = "" }
		name != "" && !/^func / { body[name] = body[name] " " $0 }
		END {
			known["raceEnabled"]
			do {
				grew = 0
				for (f in body) if (!(f in known)) for (k in known) if (body[f] ~ "(^|[^A-Za-z0-9_.])" k "([^A-Za-z0-9_]|$)") { known[f]; grew = 1; break }
			} while (grew)
			for (k in known) if (k ~ /^(Test|Fuzz)/) print k
		}' "$dir"/*_test.go
done | sort -u | paste -sd'|' | sed 's/.*/^(&)$/'
