#!/usr/bin/env bash
# Runs every fuzz target for FUZZTIME (10s) each.
set -eu
cd "$(dirname "$0")/.."
for package in $(go list ./...); do
	for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
		echo "$package $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-10s}" "$package"
	done
done
