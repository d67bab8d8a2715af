#!/usr/bin/env bash
# How many robots in real browsers are found within AGENT_PAGES (30), by tool and manner, and what a silent check shows them:
# AGENT_TOOLS (all), AGENT_MANNERS (all), AGENT_ROUNDS (1), AGENT_AT_ONCE (4). Takes half an hour.
set -eu -o pipefail
cd "$(dirname "$0")/.."
tools/deps.sh agents
export AGENT_PAGES=${AGENT_PAGES:-30} ANTIROBOT_BIN=$PWD/antirobot
go test -tags agents ./e2e -count=1 -run 'TestAgents(AtTheCheck|InBrowsers)' -v -timeout 3h | grep -vE '^=== |^ *--- PASS'
