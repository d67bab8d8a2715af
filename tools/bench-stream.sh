#!/usr/bin/env bash
# What an event costs on its way from a gateway to a processor, and what a successor reads once more (docs/adr/0036-roles-and-a-stream.md).
set -eu
cd "$(dirname "$0")/.."
go test ./stream -run '^$' -bench 'Offer|Reference|Through' -benchtime 1500000x
go test ./stream -run '^$' -bench Replay -benchtime 500000x
