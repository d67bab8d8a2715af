#!/bin/sh
# Stops the gateway when the package goes, not when another version of it comes: deb says remove, rpm says 0.
set -e
case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now antirobot.service
	fi
	;;
esac
