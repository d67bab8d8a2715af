package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"antirobot/servertest"
)

// TestReplayOfServers replays what real servers have logged about three requests, by their defaults: who came is the same in each.
func TestReplayOfServers(t *testing.T) {
	t.Parallel()
	const agent = `Mozilla/5.0 (X11; "q" #1) a|b{c}`
	config := writeFile(t, "antirobot.yaml", `
lists: {block: ["127.0.0.1 a test"]}
services: [{name: shop, hosts: [shop.example], upstream: {urls: ["http://127.0.0.1:1"]}}]
`)
	ask := func(t *testing.T, url string) {
		t.Helper()
		for _, path := range []string{"/", "/a?b=%20c", "/d"} {
			r, err := http.NewRequest(http.MethodGet, url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = "shop.example"
			r.Header = http.Header{"User-Agent": {agent}, "Referer": {"http://shop.example/"}}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
		}
	}
	replayed := func(t *testing.T, logs string, args []string, want ...string) {
		t.Helper()
		code, out := command(t, append([]string{"replay", logs, "--config", config}, args...)...)
		if code != 0 {
			t.Errorf("status %d", code)
		}
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("the report does not say %q:\n%s", w, out)
			}
		}
	}
	const stopped = "3 of 3 requests would have been stopped (100.0 %): 0 by a captcha (programs: 403 or 429), 3 blocked"

	t.Run("HAProxy", func(t *testing.T) {
		syslog, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer syslog.Close()
		addr := freePort(t)
		runDaemon(t, addr, servertest.Need(t, "haproxy"), "-db", "-f", writeFile(t, "haproxy.cfg", fmt.Sprintf(`
global
	log %s local0
defaults
	mode http
	log global
	option httplog
	option dontlognull
	timeout connect 1s
	timeout client 5s
	timeout server 5s
frontend web
	bind %s
	capture request header Host len 64
	capture request header Referer len 256
	capture request header User-Agent len 256
	http-request return status 200 content-type text/html string page
`, syslog.LocalAddr(), addr)))
		ask(t, "http://"+addr)
		var log []byte
		buf := make([]byte, 4096)
		for lines := 0; lines < 3; {
			_ = syslog.SetReadDeadline(time.Now().Add(patience))
			n, _, err := syslog.ReadFrom(buf)
			if err != nil {
				t.Fatalf("%v after\n%s", err, log)
			}
			if strings.Contains(string(buf[:n]), "HTTP/1.1") { // it logs that it starts, too
				lines++
			}
			log = append(append(log, strings.TrimSpace(string(buf[:n]))...), '\n')
		}
		dir := filepath.Dir(writeFile(t, "haproxy.log", string(log)))
		replayed(t, dir, []string{"--captures", "Host,Referer,User-Agent"}, stopped, "ip:127.0.0.1", agent)
		replayed(t, dir, []string{"--host", "shop.example"}, stopped, "no line has a User-Agent", "3 requests have headers that HAProxy captured: --captures says which they are")
	})
	t.Run("nginx", func(t *testing.T) {
		addr, dir := freePort(t), t.TempDir()
		serveNginx(t, addr, fmt.Sprintf("server { listen %s; access_log %s/access.log combined; return 200 page; }", addr, dir))
		ask(t, "http://"+addr)
		eventually(t, "nginx has logged", func() bool {
			b, _ := os.ReadFile(filepath.Join(dir, "access.log"))
			return strings.Count(string(b), "\n") == 3
		})
		replayed(t, dir, []string{"--host", "shop.example"}, stopped, "ip:127.0.0.1", agent)
	})
}
