#!/usr/bin/env bash
# A look-up by number and a filter over the last hour, in a journal of ENTRIES (25 million: takes gigabytes in TMPDIR).
set -eu
cd "$(dirname "$0")/.."
go test ./journal -run '^$' -bench BenchmarkJournal -benchtime 20x -timeout 2h -entries "${ENTRIES:-25000000}"
