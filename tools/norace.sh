#!/usr/bin/env bash
# Prints what is tested without the race detector, as words for `go test`:
#   alone       the packages that start nothing that would run beside them, nor does any package of ours that they or their tests
#               need: there is no race to find. The tests of the root hold them to it.
#   packages    of the others those with tests that the race detector leaves out
#   names       a pattern of these tests: those of files that are not built with it, and those that ask for raceEnabled, also by way of a helper
#   benchmarks  the packages that are among neither, and have benchmarks
set -eu
cd "$(dirname "$0")/.."
ours() { git ls-files -co --exclude-standard "$@" | grep -vE '^(e2e|tools)/'; }
in_dirs() { xargs -r -n1 dirname | sort -u | sed 's,^\.$,antirobot,; t; s,^,antirobot/,'; }
# A tab, "go" and a call; a method of that name, or what calls one later; servers and sockets of any kind.
starts='^[[:space:]]*go [[:alpha:]_].*\(|\.(Go|AfterFunc|Parallel|RunParallel|Notify|AddCleanup|SetFinalizer)\(|^(import)?[[:space:]]*([[:alpha:]_.]+ )?"(net|net/http(/[a-z]+)?|os/signal|testing/synctest)"$'
alone() {
	ours '*.go' | xargs grep -HE "$starts"'|^package |^(import)?[[:space:]]*([[:alpha:]_.]+ )?"antirobot/.*"$' | awk '
		{
			file = $0; sub(/:.*/, "", file); rest = substr($0, length(file) + 2)
			p = "antirobot/" file; sub(/\/[^\/]*$/, "", p)
			test = file ~ /_test\.go$/
		}
		rest ~ /^package / { if (test) all[p]; next }
		rest ~ /"antirobot\/[^"]*"$/ {
			split(rest, quoted, "\"")
			if (test) tested[p] = tested[p] " " quoted[2]; else needs[p] = needs[p] " " quoted[2]
			next
		}
		{ tests[p]; if (!test) starts[p] }
		function starter(p, by, n, i) { # something that p needs starts something, or p itself
			if (!(p in known)) {
				known[p] = p in starts
				n = split(needs[p], by, " ")
				for (i = 1; i <= n && !known[p]; i++) known[p] = starter(by[i])
			}
			return known[p]
		}
		END {
			for (p in all) {
				alone = !(p in tests) && !starter(p)
				n = split(tested[p], by, " ")
				for (i = 1; i <= n && alone; i++) alone = by[i] == p || !starter(by[i])
				if (alone) print p
			}
		}' | sort
}
left_out() { ours '*_test.go' | xargs grep -lE '^//go:build !race' | in_dirs | grep -vxFf <(alone); }
case "${1:-packages}" in
alone) alone ;;
packages) left_out ;;
benchmarks) ours '*_test.go' | xargs grep -lE '^func Benchmark' | in_dirs | grep -vxFf <(alone; left_out) ;;
names)
	left_out | sed 's,^antirobot/,,' | while read -r dir; do
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
	;;
esac
