#!/usr/bin/env bash
# Writes what each factor is like among made-up people and robots (docs/factors.md).
set -eu
cd "$(dirname "$0")/.."
file=$(mktemp)
trap 'rm -f "$file"' EXIT
./antirobot traffic --factors "$file" --length 12h >/dev/null
python3 tools/rates.py "$file" >verdict/processor/testdata/rates.tsv
go test ./verdict/processor -run TestFactorsDoc -update
