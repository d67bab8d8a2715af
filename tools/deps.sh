#!/usr/bin/env bash
# Installs the Debian packages that the end-to-end tests use. Does nothing when they are there.
set -eu
want=(chromium nginx-light redis-server haproxy caddy fonts-noto-core python3 curl)
have() { command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ]; }
if have chromium && have nginx && have redis-server && have haproxy && have caddy && have python3 && have curl; then
	exit 0
fi
if ! have apt-get; then
	echo "make deps knows Debian's packages only; install these yourself: ${want[*]}" >&2
	exit 1
fi
sudo=""
[ "$(id -u)" = 0 ] || sudo="sudo"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
have nginx && want=("${want[@]/nginx-light/}")
# shellcheck disable=SC2086
$sudo apt-get install -y -qq --no-install-recommends ${want[*]}
