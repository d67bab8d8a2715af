#!/usr/bin/env bash
# Which made-up people and robots are told apart, and after how many requests (docs/measurements.md).
set -eu
cd "$(dirname "$0")/.."
go run ./traffic/simulate
