#!/usr/bin/env bash
# unit.sh: runs the unit tests, with the race detector but where a package starts nothing that would run beside it. `unit.sh plain`
# runs all without the race detector, also those that count allocations, each benchmark once, and the tests of sim.
set -eu -o pipefail
cd "$(dirname "$0")/.."
alone='/(captcha/(drift|limits|location|steps|style)|message/learn|proxy/insert|request|rules|rules/texts|settings|svg|terminal)$'
mapfile -t all < <(go list ./... | grep -v '/e2e')
if [ "${1:-}" = plain ]; then
	go test -shuffle=on -timeout 30m "${all[@]}"
	go test -short -run '^$' -bench . -benchtime 1x "${all[@]}" | grep -vE '^(Benchmark|goos:|goarch:|pkg:|cpu:|PASS$|ok |\?)' || [ "${PIPESTATUS[0]}" = 0 ]
	go -C sim test -shuffle=on -timeout 60m ./...
	exit
fi
mapfile -t without < <(printf '%s\n' "${all[@]}" | grep -E "$alone")
mapfile -t with < <(printf '%s\n' "${all[@]}" | grep -vE "$alone")
go test -shuffle=on "${without[@]}"
race=(-race)
if ! command -v "$(go env CC)" >/dev/null; then
	if [ -n "${CI:-}" ]; then
		echo "the race detector needs a C compiler, and in CI nothing may be skipped: make deps" >&2
		exit 1
	fi
	printf 'a C compiler\tmake deps\tthe race detector\n' >>"$SKIPPED_TESTS"
	race=()
fi
# Some packages wait for servers, so more at once than there are cores.
go test "${race[@]}" -p 4 -shuffle=on -timeout 30m "${with[@]}"
