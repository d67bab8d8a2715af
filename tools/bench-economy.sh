#!/usr/bin/env bash
# How much of a shop robots of each make get in a day, and what that costs people (docs/harvest.md).
set -eu
cd "$(dirname "$0")/.."
go run ./traffic/simulate --economy
