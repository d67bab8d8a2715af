#!/usr/bin/env bash
# For `go test -exec`: runs a test binary as it was asked to, and then its benchmarks, each once and on little, so that none rots and
# nothing is linked for that alone.
set -u
"$@" || exit
if grep -q '^func Benchmark' ./*_test.go && ! out=$("$1" -test.run '^$' -test.short -test.bench . -test.benchtime 1x -test.timeout 10m 2>&1); then
	echo "$out"
	exit 1
fi
