#!/usr/bin/env bash
# Which people and robots of tools/strangers are told apart: SEEDS (1 2); VERBOSE=1 by sort, too.
set -eu
cd "$(dirname "$0")/strangers"
go run . bench -antirobot ../../antirobot -seeds "${SEEDS:-1 2}" ${VERBOSE:+-v}
