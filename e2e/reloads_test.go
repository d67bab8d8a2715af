package e2e

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"antirobot/store/redisstore/redistest"
)

// reloadsConfig is what two gateways share; known is white-listed, so that its requests may come as fast as they like.
const reloadsConfig = `
admin: {name: %s, advertise: 127.0.0.1}
store: {url: "redis://%s"}
keys: {secret_file: %q}
journal: {humans: 1}
lists: {white: [198.18.0.0/15], block: [192.0.2.66]}
defaults:
  upstream: {urls: [%q], idle_timeout: 2s}
  verdict: {sync: true, threshold: 0.99}
services:
  - name: site
    paths:
      - {prefix: /login, rules: {text: "stop as BLOCK"}}
      - {prefix: /slow, verdict: {limits: [{window: 10m, requests: 5, ban: 10m}]}}
    messages:
      routes:
        - route: POST /comments/**
          sources: [{attribute: text, from: form, key: words}]
          answers: [{decision: OK, action: pass}, {decision: SPAM, action: block}]
          otherwise: block
message:`

// reloadsRounds is how often each gateway is reloaded under traffic.
const reloadsRounds = 12

// TestReloadsUnderTraffic reloads two gateways that share a store, each time with other services, lists, upstreams, rules and certificates,
// by the API and by SIGHUP in turn, while visitors ask in each protocol, on connections that stay and on new ones, people post, operators read
// pages of the console, and the gateways ask each other. Every answer is what it would be without a reload: none fails, lists, bans, rules and
// limits hold throughout, bans of one gateway hold at the other, and nothing is left behind.
func TestReloadsUnderTraffic(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	book, other := newGuestbook(t), newGuestbook(t)
	_, rules, _ := strings.Cut(routesConfig, "\nmessage:")
	secret := secretFile(t)
	type gate struct {
		*gateway
		ways map[string]asker
		file string
		text string
	}
	var all []*gate
	for _, name := range []string{"anna", "berta"} {
		g, ways := askers(t, reloadsConfig+strings.ReplaceAll(rules, "%", "%%"), name, r.Addr, secret, book.URL)
		all = append(all, &gate{g, ways, g.args[2], read(t, g.args[2])})
	}
	for n, text := range []string{"192.0.2.77", "198.51.100.7"} {
		all[n].ban("ip:"+text, "1h")
	}
	all[0].list("block", "198.51.100.8", "1h")
	// spend asks from an address for what is limited until it is stopped, or so often, and returns how often it was not.
	spend := func(g *gate, from string, most int) (passed int) {
		pages := g.session("ip:" + from).Pages
		for passed < most && g.ways["HTTP/2"]("GET", "/slow", from, "") == 200 {
			passed++
			eventually(t, "the request is counted", func() bool { return g.session("ip:"+from).Pages >= pages+passed })
		}
		return passed
	}
	const limited = "203.0.113.5"
	whole := spend(all[0], "203.0.113.6", 40)
	if spend(all[0], limited, 3) != 3 || whole <= 3 || whole == 40 {
		t.Fatalf("the limit lets %d through", whole)
	}
	for _, g := range all {
		eventually(t, "both know what was said to one", func() bool {
			return g.ways["HTTP/2"]("GET", "/", "192.0.2.77", "") == 302 && g.ways["HTTP/2"]("GET", "/", "198.51.100.7", "") == 302 && g.ways["HTTP/2"]("GET", "/", "198.51.100.8", "") == 403
		})
	}

	var before [2]left
	for i, g := range all {
		before[i] = g.left()
	}
	stop := make(chan struct{})
	var asked, good atomic.Int64
	var traffic sync.WaitGroup
	// again runs f beside the reloads until they end.
	again := func(f func(turn int)) {
		traffic.Go(func() {
			for turn := 0; ; turn++ {
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond):
				}
				f(turn)
				asked.Add(1)
			}
		})
	}
	for i, g := range all {
		for protocol, ask := range g.ways {
			wants := func(status int, method, target, from, body string) {
				if got := ask(method, target, from, body); got != status {
					t.Errorf("%s: %s %s of %s: %d, wanted %d", protocol, method, target, from, got, status)
				}
			}
			again(func(turn int) {
				known := fmt.Sprintf("198.18.%d.%d", i, turn%250)
				wants(200, "GET", "/goods", known, "")
				wants(200, "POST", "/order", known, strings.Repeat("x", turn%5000))
				switch turn % 5 {
				case 0:
					wants(403, "GET", "/", "192.0.2.66", "") // the file's list
				case 1:
					wants(403, "GET", "/", "198.51.100.8", "") // the API's
				case 2:
					wants(302, "GET", "/", "192.0.2.77", "") // a ban by one gateway
				case 3:
					wants(302, "GET", "/", "198.51.100.7", "") // and by the other
				case 4:
					wants(403, "GET", "/x/..%2flogin", fmt.Sprintf("203.%d.%d.1", i, turn%250), "")
				}
			})
		}
		again(func(turn int) {
			if turn > 90 { // more newcomers who are so alike are asked
				return
			}
			from := fmt.Sprintf("101.%d.%d.%d", i, turn/250, turn%250)
			post := func(text string) int {
				return g.ways["HTTP/1.1"]("POST", "/comments", from, fmt.Sprintf("words=%s+%d+at+%d", text, turn, i))
			}
			good.Add(1)
			if got := post("hello+there"); got != 200 {
				t.Errorf("good message %d: %d", turn, got)
			}
			if got := post("a+casino"); got != 403 {
				t.Errorf("bad message %d: %d", turn, got)
			}
			time.Sleep(50 * time.Millisecond)
		})
		secure, _, _ := strings.Cut(strings.Split(g.text, `{address: "`)[2], `"`)
		again(func(int) { // handshakes, over TCP and QUIC
			c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			req, _ := http.NewRequest(http.MethodGet, "https://"+secure+"/new", nil)
			req.Header.Set("X-Forwarded-For", "198.18.9.9")
			res, err := c.Do(req)
			if err != nil || res.StatusCode != 200 {
				t.Errorf("a new connection: %v %v", res, err)
				return
			}
			res.Body.Close()
			conn := dialQUIC(t, secure, "site.example")
			if status, err := conn.get("https://" + secure + "/free"); err != nil || status >= 500 {
				t.Errorf("a new connection of HTTP/3: %d %v", status, err)
			}
			_ = conn.conn.CloseWithError(0, "")
		})
		again(func(turn int) { // what operators and their console ask, of both gateways
			path := []string{"/api/journal?q=kind:request&gateways=all", "/api/status?gateways=all", "/api/subjects/ip:192.0.2.77?gateways=all", "/metrics", "/api/messages"}[turn%5]
			status, text := g.tryAPI("GET", path, nil)
			var got everywhere
			if strings.Contains(path, "gateways=all") {
				_ = json.Unmarshal(text, &got)
			}
			if status != 200 || len(got.Gateways) > 0 && got.Gateways[0].Error+got.Gateways[1].Error != "" {
				t.Errorf("%s: %d %.300s", path, status, text)
			}
		})
	}

	for round := range reloadsRounds {
		for i, g := range all {
			text := strings.Replace(g.text, "block: [192.0.2.66]", fmt.Sprintf("block: [192.0.2.66, 192.0.2.%d]", 100+round), 1)
			if round%2 == 1 {
				text = strings.Replace(text, book.URL, other.URL, 1)
				text = strings.Replace(text, "services:\n", fmt.Sprintf("services:\n  - {name: extra%d, hosts: [extra%d.example]}\n", round, round), 1)
			}
			write(t, g.file, text)
			_, cert, _ := strings.Cut(text, `tls_cert: "`)
			cert, _, _ = strings.Cut(cert, `"`)
			certificate(t, filepath.Dir(cert), int64(round+2))
			if (round+i)%3 == 0 {
				seen := strings.Count(g.logs.String(), `"reloaded"`)
				_ = g.cmd.Process.Signal(syscall.SIGHUP)
				eventually(t, "SIGHUP reloads", func() bool { return strings.Count(g.logs.String(), `"reloaded"`) > seen })
			} else {
				g.api("POST", "/api/reload", nil)
			}
			blocked := fmt.Sprintf("192.0.2.%d", 100+round)
			if got := g.ways["HTTP/1.1"]("GET", "/", blocked, ""); got != 403 {
				t.Errorf("round %d: what the reload brought: %d", round, got)
			}
		}
	}
	close(stop)
	traffic.Wait()
	if asked.Load() < 20*reloadsRounds {
		t.Errorf("%d turns beside the reloads", asked.Load())
	}
	if rest := spend(all[0], limited, 40); 3+rest > whole+1 { // what was long ago counts less
		t.Errorf("the limit let %d through before the reloads, and then %d, wanted %d in all", 3, rest, whole)
	}
	bodies, _ := book.take()
	more, _ := other.take()
	came := 0
	for _, body := range append(bodies, more...) {
		if strings.Contains(body, "casino") {
			t.Errorf("a service got %q", body)
		}
		came += strings.Count(body, "words=hello")
	}
	if int64(came) != good.Load() || came == 0 {
		t.Errorf("services got %d good messages of %d", came, good.Load())
	}
	for i, g := range all {
		eventually(t, "both stop who is over the limit of one", func() bool { return g.ways["HTTP/2"]("GET", "/", limited, "") == 302 })
		var now left
		// The pools of earlier configurations are kept for a minute. A few more or less are busy at any time.
		const few = reloadsRounds / 2
		eventually(t, fmt.Sprintf("gateway %d gives back what the reloads took: %+v", i, before[i]), func() bool {
			now = g.left()
			return now.goroutines <= before[i].goroutines+few && now.files <= before[i].files+few
		})
		t.Logf("gateway %d: %+v, before %+v", i, now, before[i])
		if now.memory > before[i].memory+(256<<20) {
			t.Errorf("gateway %d has grown from %+v to %+v", i, before[i], now)
		}
	}
}

// left is what a gateway holds.
type left struct {
	goroutines float64
	files      int
	memory     int64
}

func (g *gateway) left() left {
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", g.cmd.Process.Pid))
	if err != nil {
		g.t.Fatal(err)
	}
	return left{g.metric("go_goroutines "), len(files), g.rss()}
}
