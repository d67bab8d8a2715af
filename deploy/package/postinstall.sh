#!/bin/sh
# Makes the user, and restarts a gateway that ran before an upgrade. Asks nothing; starts nothing that was not running.
set -e
if ! getent group antirobot >/dev/null; then
	groupadd --system antirobot
fi
if ! getent passwd antirobot >/dev/null; then
	useradd --system --gid antirobot --home-dir /var/lib/antirobot --no-create-home --shell /usr/sbin/nologin antirobot
fi
mkdir -p /var/lib/antirobot
chown antirobot:antirobot /var/lib/antirobot
chmod 0700 /var/lib/antirobot
# As it was unpacked, only root can read it. A file that the operator has removed, linked or given to somebody stays as it is.
if [ -f /etc/antirobot/antirobot.yaml ] && [ "$(stat -c %U:%G:%a /etc/antirobot/antirobot.yaml)" = root:root:640 ]; then
	chgrp antirobot /etc/antirobot/antirobot.yaml
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart antirobot.service
fi
