#!/usr/bin/env bash
# check-packages.sh PREVIOUS ARCH: tries deb, rpm and images in namespaces of their own (arm64 by qemu), lints and renders the Helm chart,
# and runs a build of the commit PREVIOUS and this version over one Redis.
set -eu
cd "$(dirname "$0")/.."
dist=$PWD/dist
rm -rf dist/previous
mkdir -p dist/previous/src
git archive "$1" | tar -x -C dist/previous/src
(cd dist/previous/src && go build -buildvcs=false -o ../antirobot .)
rm -r dist/previous/src
cd tools/release
ANTIROBOT_BIN=$dist/linux-$2/antirobot ANTIROBOT_ARM64=$dist/linux-arm64/antirobot ANTIROBOT_PREVIOUS=$dist/previous/antirobot \
	go test -v -count=1 -timeout 30m ./... | grep -vE '^=== '
