package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVersionsSideBySide runs an earlier version, which ANTIROBOT_PREVIOUS names, and this one over one Redis, as in an upgrade of
// one gateway after the other: bans and their ends of each hold on the other, and passes of the earlier one on this one, also once the
// earlier one has started again. A pass of this one may say what an earlier one can't read, which asks its visitor again.
func TestVersionsSideBySide(t *testing.T) {
	bin := built(t)
	previous := os.Getenv("ANTIROBOT_PREVIOUS")
	if previous == "" {
		t.Fatal("ANTIROBOT_PREVIOUS must name an earlier binary: run make check-packages")
	}
	var whole [2]string
	for i, name := range []string{previous, bin} {
		var err error
		if whole[i], err = filepath.Abs(name); err != nil {
			t.Fatal(err)
		}
	}
	out := inside(t, versionsScript, "OLD="+whole[0], "NEW="+whole[1])
	if !strings.HasSuffix(strings.TrimSpace(out), "all is well") {
		t.Errorf("%s", out)
	}
}

const versionsScript = `
set -E
trap 'echo "line $LINENO: $BASH_COMMAND"; sleep 2; grep -h checkcaptcha old.log new.log || true; tail -n 3 old.log' ERR
redis-server --port 6379 --bind 127.0.0.1 --save '' --appendonly no >redis.log &
until (exec 3<>/dev/tcp/127.0.0.1/6379) 2>/dev/null; do sleep 0.1; done # an earlier version may not wait for it
mkdir site && echo hello > site/a && python3 -m http.server -d site --bind 127.0.0.1 3000 >/dev/null 2>&1 &
echo a secret of both of them > secret
run() { # PROGRAM NAME PORT ADMIN
	$1 serve --listen 127.0.0.1:$3 --admin 127.0.0.1:$4 --upstream http://127.0.0.1:3000 --data-dir $2 --store redis://127.0.0.1:6379 \
		--secret-file secret --trusted-proxies 127.0.0.1 --captcha-test-answer 271828 >>$2.log 2>&1 &
	gateway=$!
	for i in $(seq 600); do test "$(ask $3 192.0.2.1 || true)" = 200 && return; kill -0 $gateway; sleep 0.2; done
	cat $2.log; exit 1
}
ask() { # PORT ADDRESS [COOKIE]
	curl -s -o /dev/null -w '%{http_code}' -H "X-Forwarded-For: $2" -H 'User-Agent: Mozilla/5.0 Firefox/133.0' -H 'Accept: text/html' -H "Cookie: ${3:-}" http://127.0.0.1:$1/a
}
await() { # STATUS PORT ADDRESS
	for i in $(seq 300); do test "$(ask $2 $3)" = $1 && return; sleep 0.2; done
	echo "port $2 answers $3 with $(ask $2 $3), and not $1"; tail -n 20 old.log new.log; exit 1
}
solve() { # PORT ADDRESS: prints the pass
	key=$(curl -s -H "X-Forwarded-For: $2" -H 'X-Requested-With: XMLHttpRequest' http://127.0.0.1:$1/a | python3 -c 'import json,sys; print(json.load(sys.stdin)["captcha"]["key"])')
	curl -s -D - -o /dev/null -H "X-Forwarded-For: $2" "http://127.0.0.1:$1/checkcaptcha?key=$key&rep=271828&format=json" | grep -o '^[Ss]et-[Cc]ookie: spravka=[^;]*' | cut -d' ' -f2
}
both() { # by the commands of the new one: an earlier version may not have them
	$NEW ban 203.0.113.$1 --admin 127.0.0.1:9001 --data-dir old >/dev/null
	$NEW ban 203.0.113.$2 --admin 127.0.0.1:9002 --data-dir new >/dev/null
	for port in 8001 8002; do await 302 $port 203.0.113.$1; await 302 $port 203.0.113.$2; done
	of_old=$(solve 8001 203.0.113.$1); of_new=$(solve 8002 203.0.113.$2)
	test -n "$of_old"
	test "$(ask 8001 203.0.113.$1 $of_old)" = 200
	test "$(ask 8002 203.0.113.$1 $of_old)" = 200
	test "$(ask 8002 203.0.113.$2 $of_new)" = 200
	$NEW unban 203.0.113.$1 --admin 127.0.0.1:9002 --data-dir new >/dev/null
	await 200 8001 203.0.113.$1
}
run $OLD old 8001 9001; old=$gateway
run $NEW new 8002 9002; new=$gateway
both 1 2
kill $old; wait $old
run $OLD old 8001 9001; old=$gateway
both 3 4
kill $new; wait $new; kill $old; wait $old
! grep -h '"level":"error"' old.log new.log
echo all is well
`
