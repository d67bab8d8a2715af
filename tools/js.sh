#!/usr/bin/env bash
# Builds antirobot.js, its types, the console's script and its texts, all of which are committed.
set -eu -o pipefail
cd "$(dirname "$0")/.."
go test -count=1 ./templates -run 'TestScriptTexts' -update >/dev/null
go test -count=1 ./templates -run 'TestScript(IsFresh|Types)' -update >/dev/null
.bin/esbuild console/js/console.ts --format=iife --bundle --minify --target=es2022 --charset=utf8 --legal-comments=none >console/static/console.js
go test -count=1 ./templates -run TestScriptIsSmall -v | grep bytes
