#!/usr/bin/env bash
# Cuts, pauses, fills, flushes and slows down what two gateways share, under load (docs/scaling.md).
set -eu -o pipefail
cd "$(dirname "$0")/.."
export ANTIROBOT_FAULTS=1 ANTIROBOT_BIN=$PWD/antirobot
go test ./e2e -count=1 -run 'TestFaults|TestRollingRestart' -v -timeout 20m | grep -E 'faults_test|^ *---|FAIL|ok'
