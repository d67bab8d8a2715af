#!/bin/sh
# The data directory stays, even when the package is purged: it holds the keys of passes that people have. So does the user
# who owns it. To remove both: rm -rf /var/lib/antirobot && userdel antirobot
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
