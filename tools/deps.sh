#!/usr/bin/env bash
# Installs what the tests use: Debian packages (XGBoost among them, to compare with and to train), and into .bin a few npm
# packages (tools/package-lock.json pins them; nothing of them is shipped). Does nothing when all is there. With the word "agents" it
# brings the optional ones, too, which are half of them: what only `make agents` drives browsers with.
set -eu
cd "$(dirname "$0")/.."
# The fonts are for people who look at the pictures of `make screens`; Noto's Chinese and Japanese would be 56 MB, these are 4.
want=(chromium chromium-headless-shell chromium-driver firefox-esr nginx-light redis-server haproxy apache2-bin caddy fontconfig fonts-noto-core fonts-wqy-microhei fonts-vlgothic python3 python3-xgboost curl nodejs npm perl libnet-akismet-perl systemd nghttp2-client xvfb xdotool webkit2gtk-driver php-cli default-jdk-headless gcc libc6-dev git wget rclone cadaver aria2 skopeo newsboat)
# Debian's Python, whichever stands first on the PATH.
have_akismet() { perl -MNet::Akismet -e 1 >/dev/null 2>&1; }
have_xgboost() { /usr/bin/python3 -c "import xgboost" >/dev/null 2>&1; }
have() { command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ]; }
fonts() {
	have fc-list || return 1
	for lang in ar hi ja kk zh; do
		[ -n "$(fc-list ":lang=$lang" family)" ] || return 1
	done
}
# Programs that do legitimate work at a service.
clients() { have git && have wget && have rclone && have cadaver && have aria2c && have skopeo && have newsboat; }
debian() {
	if fonts && have chromium && have chromium-headless-shell && have chromedriver && have firefox-esr && have nginx && have redis-server && have haproxy && have apache2 && have caddy && have python3 && have curl && have node && have npm && have_xgboost && have_akismet && have systemd-analyze && have h2load && have Xvfb && have xdotool && have WebKitWebDriver && have php && have javac && have gcc && clients; then
		return
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
	have node && want=("${want[@]/nodejs/}")
	have npm && want=("${want[@]/npm/}")
	# shellcheck disable=SC2086
	$sudo apt-get install -y -qq --no-install-recommends ${want[*]}
}
debian
# promtool alone, without the server that the package would start: to check the rules of deploy/prometheus.
if ! have promtool && ! [ -x .bin/promtool ]; then
	mkdir -p .bin
	tmp=$(mktemp -d)
	(cd "$tmp" && chmod 755 . && apt-get download -qq prometheus 2>/dev/null || { sudo=""; [ "$(id -u)" = 0 ] || sudo="sudo"; $sudo apt-get update -qq && apt-get download -qq prometheus; })
	dpkg-deb --fsys-tarfile "$tmp"/prometheus_*.deb | tar -x -C "$tmp" ./usr/bin/promtool
	mv "$tmp/usr/bin/promtool" .bin/promtool
	rm -r "$tmp"
fi
optional=(puppeteer-core selenium-webdriver)
[ "${1:-}" = agents ] || [ -d .bin/node_modules/puppeteer-core ] || optional=()
lacking() {
	cmp -s tools/package-lock.json .bin/package-lock.json || return 0
	for module in axe-core react-dom akismet-api playwright-core "${optional[@]}"; do
		[ -d ".bin/node_modules/$module" ] || return 0
	done
	return 1
}
if lacking; then
	mkdir -p .bin
	cp tools/package.json tools/package-lock.json .bin/
	omit=--omit=optional
	[ ${#optional[@]} = 0 ] || omit=--include=optional
	(cd .bin && npm ci "$omit" --no-audit --no-fund --ignore-scripts --silent)
fi
