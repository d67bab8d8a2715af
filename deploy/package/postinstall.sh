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
chgrp antirobot /etc/antirobot/antirobot.yaml
chmod 0640 /etc/antirobot/antirobot.yaml
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart antirobot.service
fi
