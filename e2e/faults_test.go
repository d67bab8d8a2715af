package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"antirobot/servertest"
	"antirobot/store/redisstore/redistest"
)

// faultsEnv makes TestFaults cause every fault, and for longer: make faults.
const faultsEnv = "ANTIROBOT_FAULTS"

// rig is two gateways and the store that they share, each behind a link of its own, under load.
type rig struct {
	t     *testing.T
	redis *redistest.Server
	links []*redistest.Proxy
	all   []*gateway

	served, wrong, slowest atomic.Int64 // requests; nanoseconds
	acked, refused         atomic.Int64 // durable updates
	stop                   chan struct{}
	done                   sync.WaitGroup
}

const (
	rigBans    = 20
	rigShingle = "00000000000000cc"
)

func rigBanned(i int) string { return fmt.Sprintf("203.0.113.%d", i%rigBans+1) }

// newRig starts everything, bans, and begins the load.
func newRig(t *testing.T, f *fault) *rig {
	t.Helper()
	x := &rig{t: t, stop: make(chan struct{})}
	x.redis = redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	up, secret := site(t).URL, secretFile(t)
	for range 2 {
		link := redistest.StartProxy(t, x.redis.Addr)
		g := &gateway{t: t, dir: t.TempDir(), args: []string{
			"serve", "--upstream", up, "--captcha-test-answer", testAnswer, "--store", "redis://" + link.Addr, "--secret-file", secret,
			"--trusted-proxies", "127.0.0.1",
		}}
		if f.disk != "" {
			mountSmall(t, g.dir, f.disk)
		}
		if f.clock && len(x.all) == 1 {
			g.clock = filepath.Join(t.TempDir(), "clock")
		}
		g.run()
		t.Cleanup(func() { g.kill(syscall.SIGKILL) })
		x.links, x.all = append(x.links, link), append(x.all, g)
	}
	for i := range rigBans {
		x.all[i%2].ban("ip:"+rigBanned(i), "1h")
	}
	for _, g := range x.all {
		eventually(t, "all bans", func() bool { return g.metric("antirobot_bans ") == rigBans })
	}
	for n, g := range x.all {
		x.done.Go(func() { x.visit(n, g) })
		x.done.Go(func() { x.count(g) })
	}
	return x
}

// fill writes a file until the disk is full.
func fill(t *testing.T, file string) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}

func (x *rig) running() bool {
	select {
	case <-x.stop:
		return false
	case <-time.After(5 * time.Millisecond):
		return true
	}
}

// visit sends requests of banned visitors and others, and looks at the answers.
func (x *rig) visit(n int, g *gateway) {
	client := &http.Client{Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for i := 0; x.running(); i++ {
		addr, want := fmt.Sprintf("198.51.%d.%d", n, i%250), 200
		if i%2 == 0 {
			addr, want = rigBanned(i/2), 302
		}
		req, err := http.NewRequest("GET", g.url+"/x", nil)
		if err != nil {
			x.t.Error(err)
			return
		}
		req.Header.Set("X-Forwarded-For", addr)
		asBrowser(req)
		began := time.Now()
		res, err := client.Do(req)
		took := int64(time.Since(began))
		for old := x.slowest.Load(); took > old && !x.slowest.CompareAndSwap(old, took); old = x.slowest.Load() {
		}
		x.served.Add(1)
		if err != nil || res.StatusCode != want {
			x.wrong.Add(1)
		}
		if err == nil {
			_ = res.Body.Close()
		}
	}
}

// count makes durable updates, and counts those that are acknowledged.
func (x *rig) count(g *gateway) {
	for x.running() {
		status, _ := g.tryAPI("POST", "/api/counters/update?wait=durable", map[string]any{
			"prefix": "e2e", "updates": []map[string]any{{"type": 15, "shingle": rigShingle}},
		})
		if status == 200 {
			x.acked.Add(1)
		} else {
			x.refused.Add(1)
		}
	}
}

// well reports whether both gateways are, and nothing waits.
func (x *rig) well() bool {
	for _, g := range x.all {
		if status, _ := g.health(); status != "ok" || g.metric("antirobot_counter_queue_batches") > 0 {
			return false
		}
	}
	return true
}

// during is the load for a while under a fault, until there was enough of it to see something.
func (x *rig) during(d time.Duration) {
	from := x.served.Load()
	time.Sleep(d)
	eventually(x.t, "requests are answered", func() bool { return x.served.Load() > from+20 })
}

// end ends the load and says what came of it.
func (x *rig) end(f *fault, again time.Duration) {
	x.t.Helper()
	close(x.stop)
	x.done.Wait()
	acked := x.acked.Load()
	if !f.forgets {
		eventually(x.t, "what was acknowledged is counted", func() bool {
			return int64(x.all[0].counted(15, rigShingle)) >= acked
		})
	}
	n := int64(x.all[0].counted(15, rigShingle))
	if n > acked+x.refused.Load() {
		x.t.Errorf("counted %d of %d updates: something was counted twice", n, acked+x.refused.Load())
	}
	x.t.Logf("| %s | %d | %d | %d | %d | %d | %v | %v |", f.name, x.served.Load(), x.wrong.Load(), acked, x.refused.Load(), max(acked-n, 0),
		time.Duration(x.slowest.Load()).Round(time.Millisecond), again.Round(10*time.Millisecond))
	if wrong := x.wrong.Load(); f.clock && wrong*20 <= x.served.Load() {
		return // in the moment until the gateway has asked for the store's time
	} else if wrong > 0 {
		x.t.Errorf("%d of %d requests were answered wrongly", x.wrong.Load(), x.served.Load())
	}
	if acked < 10 {
		x.t.Errorf("only %d durable updates were acknowledged", acked)
	}
}

// fault is one of the rig's: break does the harm for a while and mends it.
type fault struct {
	name    string
	always  bool   // without faultsEnv, too
	forgets bool   // the store loses its counters
	ill     bool   // health does not get well by itself
	clock   bool   // of the second gateway, is set
	disk    string // how large the disk of a gateway is, such as 64m
	harm    func(x *rig, d time.Duration)
}

func faults() []fault {
	each := func(harm func(p *redistest.Proxy)) func(x *rig, d time.Duration) {
		return func(x *rig, d time.Duration) {
			for _, l := range x.links {
				harm(l)
			}
			x.during(d)
			for _, l := range x.links {
				l.Heal()
			}
		}
	}
	return []fault{
		{name: "both gateways cut off from the store", harm: each((*redistest.Proxy).Cut)},
		{name: "one gateway cut off from the store", harm: func(x *rig, d time.Duration) { x.links[0].Cut(); x.during(d); x.links[0].Heal() }},
		{name: "packets vanish", harm: each((*redistest.Proxy).Hole)},
		{name: "the store hears and is not heard", always: true, harm: each((*redistest.Proxy).Mute)},
		{name: "every answer takes 100 ms more", harm: each(func(p *redistest.Proxy) { p.Slow(50 * time.Millisecond) })},
		{name: "store paused (SIGSTOP)", harm: func(x *rig, d time.Duration) {
			x.redis.Signal(x.t, syscall.SIGSTOP)
			x.during(d)
			x.redis.Signal(x.t, syscall.SIGCONT)
		}},
		{name: "store killed and started with its data", harm: func(x *rig, d time.Duration) {
			x.redis.Kill()
			x.during(d)
			x.redis.Restart(x.t)
		}},
		{name: "store's memory full", harm: func(x *rig, d time.Duration) {
			x.redis.CLI(x.t, "config", "set", "maxmemory", "1")
			x.during(d)
			x.redis.CLI(x.t, "config", "set", "maxmemory", "0")
		}},
		{name: "FLUSHALL by mistake", forgets: true, ill: true, harm: func(x *rig, d time.Duration) {
			x.redis.CLI(x.t, "flushall")
			x.during(d)
		}},
		{name: "one gateway's clock an hour ahead", clock: true, harm: clock(time.Hour)},
		{name: "one gateway's clock an hour behind", clock: true, harm: clock(-time.Hour)},
		{name: "the gateways' disks full", disk: "96m", harm: func(x *rig, d time.Duration) {
			for _, g := range x.all {
				fill(x.t, filepath.Join(g.dir, "filler"))
			}
			x.during(d)
			for _, g := range x.all {
				if err := os.Remove(filepath.Join(g.dir, "filler")); err != nil {
					x.t.Error(err)
				}
			}
		}},
		{name: "store away and the gateways' disks full", disk: "96m", harm: func(x *rig, d time.Duration) {
			for i, g := range x.all {
				x.links[i].Cut()
				fill(x.t, filepath.Join(g.dir, "filler"))
			}
			x.during(d)
			for i, g := range x.all {
				if err := os.Remove(filepath.Join(g.dir, "filler")); err != nil {
					x.t.Error(err)
				}
				x.links[i].Heal()
			}
		}},
	}
}

// TestFaults causes faults under load: no request may get a wrong verdict, and nothing that was acknowledged as durable may
// be lost or counted twice. make faults causes all of them and prints the table of docs/scaling.md.
func TestFaults(t *testing.T) {
	all, d := os.Getenv(faultsEnv) != "", time.Second
	if all {
		d = 5 * time.Second
	}
	for _, f := range faults() {
		if !all && !f.always {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			x := newRig(t, &f)
			x.during(d / 5)
			f.harm(x, d)
			mended := time.Now()
			if f.ill { // health tells of a loss for ten minutes
				eventually(t, "all bans are back", func() bool { return indexed(t, x.redis, "-", "+") >= rigBans })
			} else {
				eventually(t, "all is well", x.well)
			}
			again := time.Since(mended)
			x.during(d / 5)
			x.end(&f, again)
		})
	}
}

// clockEnv names the file that says by how many seconds the clock of a program of anotherClock is ahead.
const clockEnv = "ANTIROBOT_TEST_CLOCK"

// aheadSource is added to package time.
const aheadSource = `package time

import (
	"sync/atomic"
	"syscall"
)

var ahead atomic.Int64

func init() {
	file, ok := syscall.Getenv("` + clockEnv + `")
	if !ok {
		return
	}
	go func() {
		for ; ; Sleep(20 * Millisecond) {
			var b [16]byte
			fd, err := syscall.Open(file, syscall.O_RDONLY, 0)
			if err != nil {
				continue
			}
			n, _ := syscall.Read(fd, b[:])
			_ = syscall.Close(fd)
			if sec, err := atoi(string(b[:max(n, 0)])); err == nil {
				ahead.Store(int64(sec))
			}
		}
	}()
}
`

// anotherClock builds the program with a package time whose Now is ahead by what a file says: a wrong clock of one process, which
// Linux has no name space for, and which a preloaded library can't give to a program that does not ask libc.
func anotherClock(t *testing.T) (bin string) {
	t.Helper()
	run := func(args ...string) string {
		cmd := exec.Command("go", args...)
		cmd.Dir = ".."
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go %s: %v", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(out))
	}
	dir, source := t.TempDir(), filepath.Join(run("env", "GOROOT"), "src", "time")
	text, err := os.ReadFile(filepath.Join(source, "time.go"))
	if err != nil {
		t.Fatal(err)
	}
	const reads = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(text), reads) != 1 {
		t.Fatal("time.Now reads the clock in another way now: adapt this test")
	}
	patched := strings.Replace(string(text), reads, reads+"\tsec += ahead.Load()\n", 1)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(source, "time.go"):  writeFile(t, "time.go", patched),
		filepath.Join(source, "ahead.go"): writeFile(t, "ahead.go", aheadSource),
	}})
	if err != nil {
		t.Fatal(err)
	}
	bin = filepath.Join(dir, "antirobot")
	run("build", "-overlay", writeFile(t, "overlay.json", string(overlay)), "-o", bin, ".")
	return bin
}

// program is what runs the gateway.
func (g *gateway) program(args []string) *exec.Cmd {
	g.t.Helper()
	if g.clock != "" {
		cmd := exec.Command(anotherClock(g.t), args...)
		cmd.Env = append(os.Environ(), clockEnv+"="+g.clock)
		return cmd
	}
	bin, err := binary()
	if err != nil {
		g.t.Fatal(err)
	}
	return exec.Command(bin, args...)
}

// clock is a fault that sets the clock of the second gateway while passes are earned at both, for questions of both.
func clock(ahead time.Duration) func(x *rig, d time.Duration) {
	return func(x *rig, d time.Duration) {
		g := x.all[1]
		x.setClock(ahead)
		eventually(x.t, "the gateway says that its clock is wrong", func() bool {
			_, err := g.health()
			return strings.Contains(err, "clock")
		})
		for i, asks := range x.all {
			for k, answered := range x.all {
				x.passes(asks, answered, rigBanned(2*i+k))
			}
		}
		x.during(d)
		x.setClock(0)
	}
}

// setClock sets how far the clock of the second gateway is ahead.
func (x *rig) setClock(ahead time.Duration) {
	x.t.Helper()
	if err := os.WriteFile(x.all[1].clock, []byte(strconv.Itoa(int(ahead/time.Second))), 0o600); err != nil {
		x.t.Fatal(err)
	}
}

// passes lets a banned visitor be asked by one gateway, answer at one, and go on at both: a wrong answer is counted.
func (x *rig) passes(asks, answered *gateway, addr string) {
	x.t.Helper()
	v := visitor(x.t)
	v.header.Set("X-Forwarded-For", addr)
	answers := []*response{asks.solveAt(v, "/x", answered)}
	for _, g := range x.all {
		answers = append(answers, v.get(g.url+"/x"))
	}
	for i, want := range []int{http.StatusSeeOther, http.StatusOK, http.StatusOK} {
		x.served.Add(1)
		if got := answers[i].StatusCode; got != want {
			x.wrong.Add(1)
			x.t.Errorf("answer %d of a visitor who is asked at %s and answers at %s: %d, want %d", i, asks.url, answered.url, got, want)
		}
	}
}

// TestDiskFull: with no room left for its data a gateway answers everybody rightly and takes bans, says once of each part that the disk is
// full, recovers when there is room, and then keeps what it was told meanwhile. It does not start where it can write nothing.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	g := &gateway{t: t, dir: t.TempDir(), args: []string{"serve", "--upstream", site(t).URL, "--trusted-proxies", "127.0.0.1"}}
	mountSmall(t, g.dir, "48m")
	g.run()
	t.Cleanup(func() { g.kill(syscall.SIGKILL) })
	ask := func(addr string, want int) {
		t.Helper()
		if r := from(t, addr).get(g.url + "/x"); r.StatusCode != want {
			t.Errorf("%s gets %d", addr, r.StatusCode)
		}
	}
	healthy := func() bool {
		_, text := g.tryAPI(http.MethodGet, "/healthz", nil)
		return strings.Contains(string(text), `"status":"ok"`)
	}
	g.ban("ip:203.0.113.1", "1h")
	filler := filepath.Join(g.dir, "filler")
	fill(t, filler)
	n := 0
	everybody := func() {
		n++
		ask("203.0.113.1", http.StatusFound)
		if n%10 == 0 {
			ask(fmt.Sprintf("198.51.%d.7", n/10), http.StatusOK)
		}
	}
	eventually(t, "each part has found that the disk is full", func() bool {
		everybody()
		text := g.logs.String()
		return !healthy() && strings.Contains(text, `"part":"restart_log","error"`) && strings.Contains(text, `"part":"journal","error"`)
	})
	for range 100 {
		everybody()
	}
	g.ban("ip:203.0.113.2", "1h")
	ask("203.0.113.2", http.StatusFound)
	for _, part := range []string{"restart_log", "journal", "store"} {
		lines := 0
		for line := range strings.SplitSeq(g.logs.String(), "\n") {
			if strings.Contains(line, `"part":"`+part+`"`) && strings.Contains(line, "no space left") {
				lines++
			}
		}
		if lines > 3 {
			t.Errorf("the %s says %d times that the disk is full", part, lines)
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all is well with room on the disk", healthy)
	g.ban("ip:203.0.113.3", "1h")
	g.kill(syscall.SIGTERM)
	g.run()
	for _, addr := range []string{"203.0.113.1", "203.0.113.2", "203.0.113.3"} {
		ask(addr, http.StatusFound)
	}
	g.kill(syscall.SIGTERM)
	fill(t, filler)
	out, err := g.program(append(append([]string{}, g.args...), "--admin", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--data-dir", g.dir)).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "does not take") {
		t.Errorf("a start with a full disk: %v, %s", err, out)
	}
}

// TestFailuresSayWhatToDo: whatever keeps a request from being served (a service that is away, slow or busy, a body, an address or
// cookies that are too large, an unknown host, a path that can be read in two ways), over each protocol people get a page in their
// language, scripts JSON, users of an XML interface XML, and whoever says nothing plain text.
func TestFailuresSayWhatToDo(t *testing.T) {
	t.Parallel()
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(patience):
		}
	}))
	t.Cleanup(slow.Close)
	cert, key := certificate(t, t.TempDir(), 1)
	address := freePort(t)
	startWith(t, "serve", "--config", configFile(t, `
listen: [{address: %q, tls_cert: %q, tls_key: %q, http3: true}]
http: {max_header_bytes: 8KiB}
defaults: {captcha: {branding: {name: The Shop}}}
services:
  - {name: down, hosts: [down.example], upstream: {urls: ["http://%s"]}, requests: {xml_paths: [/xml], max_body: 100}}
  - {name: slow, hosts: [slow.example], upstream: {urls: [%q]}, requests: {xml_paths: [/xml], response_timeout: 100ms}}
`, address, cert, key, freePort(t), slow.URL))
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	insecure := &tls.Config{InsecureSkipVerify: true}
	protocols := map[string]http.RoundTripper{
		"HTTP/1.1": &http.Transport{DialContext: dial, TLSClientConfig: insecure, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}},
		"HTTP/2.0": &http.Transport{DialContext: dial, TLSClientConfig: insecure.Clone(), ForceAttemptHTTP2: true},
		"HTTP/3.0": dialQUIC(t, address, "down.example").http,
	}
	cookies := strings.Repeat("c="+strings.Repeat("x", 2900)+"; ", 3) + "d=e"
	for _, c := range []struct {
		name, method, url string
		cookies           string
		status            int
		ru, en, kind      string // the page's heading, and the name in JSON
		wait              string
	}{
		{"away", "GET", "https://down.example/a", "", 502, "Сайт не отвечает", "The site does not answer", "upstream_down", "10"},
		{"away for a form", "POST", "https://down.example/a", "", 502, "Сайт не отвечает", "The site does not answer", "upstream_down", ""},
		{"slow", "GET", "https://slow.example/a", "", 504, "Сайт отвечает слишком долго", "The site takes too long", "upstream_timeout", "30"},
		{"large body", "POST", "https://down.example/a?large", "", 413, "Запрос слишком большой", "The request is too large", "too_large", ""},
		{"long address", "GET", "https://down.example/" + strings.Repeat("a", 3000), "", 414, "Адрес или cookie слишком длинные", "The address or the cookies are too long", "head_too_large", ""},
		{"large cookies", "GET", "https://down.example/", cookies, 431, "Адрес или cookie слишком длинные", "The address or the cookies are too long", "head_too_large", ""},
		{"unknown host", "GET", "https://unknown.example/", "", 421, "Здесь ничего нет", "There is nothing here", "not_found", ""},
		{"two readings", "GET", "https://down.example/a/%2e%2e/%00", "", 400, "Не удалось разобрать запрос", "The request could not be understood", "bad_request", ""},
	} {
		for protocol, via := range protocols {
			ask := func(path string, header ...string) (*http.Response, string) {
				t.Helper()
				body := "a=b"
				if strings.HasSuffix(c.url, "large") {
					body = strings.Repeat("a", 200)
				}
				var from io.Reader
				if c.method == "POST" {
					from = strings.NewReader(body)
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, c.method, strings.Replace(c.url, "example/", "example/"+path, 1), from)
				if err != nil {
					t.Fatal(err)
				}
				for i := 0; i < len(header); i += 2 {
					req.Header.Set(header[i], header[i+1])
				}
				if c.cookies != "" {
					req.Header.Set("Cookie", c.cookies)
				}
				res, err := via.RoundTrip(req)
				if err != nil {
					t.Fatalf("%s, %s: %v", c.name, protocol, err)
				}
				defer res.Body.Close()
				b, err := io.ReadAll(res.Body)
				if err != nil {
					t.Fatalf("%s, %s: %v", c.name, protocol, err)
				}
				if res.StatusCode != c.status || res.Proto != protocol || res.Header.Get("Retry-After") != c.wait || res.Header.Get("Cache-Control") != "no-store" {
					t.Errorf("%s, %s: %s %d %v", c.name, protocol, res.Proto, res.StatusCode, res.Header)
				}
				return res, string(b)
			}
			form := []string{"Content-Type", "application/x-www-form-urlencoded", "Accept", "text/html,application/xhtml+xml,*/*;q=0.8", "Accept-Language"}
			for lang, heading := range map[string]string{"ru": c.ru, "en": c.en} {
				if res, body := ask("", append(form, lang)...); res.Header.Get("Content-Language") != lang || !strings.Contains(body, heading+"</h1>") {
					t.Errorf("%s, %s, in %s: %v\n%s", c.name, protocol, lang, res.Header, tail(body, 1500))
				}
			}
			var said struct{ Type string }
			if _, body := ask("", "Accept", "application/json"); json.Unmarshal([]byte(body), &said) != nil || said.Type != c.kind {
				t.Errorf("%s, %s, a script: %s", c.name, protocol, body)
			}
			if res, body := ask("xml/", "Accept", "text/xml"); xml.Unmarshal([]byte(body), new(struct{})) != nil || !strings.Contains(body, "<error code=") {
				t.Errorf("%s, %s, XML: %v %s", c.name, protocol, res.Header, body)
			}
			if res, body := ask("p.png", "Accept", "image/png", "Sec-Fetch-Dest", "image", "Sec-Fetch-Mode", "no-cors"); c.name != "two readings" && strings.Contains(res.Header.Get("Content-Type"), "html") {
				t.Errorf("%s, %s, a picture: %v %s", c.name, protocol, res.Header, body)
			}
		}
	}
	curl := servertest.Need(t, "curl")
	for _, as := range []string{"--http1.1", "--http2"} {
		out, err := exec.Command(curl, "-sk", as, "--resolve", "down.example:"+address[strings.LastIndexByte(address, ':')+1:]+":127.0.0.1",
			"-H", "Accept: application/json", "https://down.example"+address[strings.LastIndexByte(address, ':'):]+"/a").CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), `{"type":"upstream_down","request-id":"`) {
			t.Errorf("curl %s: %v %s", as, err, out)
		}
	}
}

// TestCheckFailuresReachVisitors: where a balancer hands on the answer of a call, what can't be judged is told to the visitor: in style
// full, in style forward, and to a stopped request whose host no service has.
func TestCheckFailuresReachVisitors(t *testing.T) {
	t.Parallel()
	for style, path := range map[string]string{"full": "/a", "verdict": "/check?style=forward"} {
		g := start(t, "serve", "--config", configFile(t, `
check: {listen: ["127.0.0.1:0"], on_error: closed, style: %s}
services:
  - {name: shop, hosts: [shop.example], upstream: {urls: ["http://127.0.0.1:1"]}}
`, style))
		at, b := "http://"+g.listening("balancers"), visitor(t)
		b.Jar = nil
		ask := func(path, url string, more ...string) *response {
			host := strings.Split(url, "/")[2]
			return b.get(at+path, append(append([]string{"Host", host}, forwarded("GET", url, goodUser)...), more...)...)
		}
		html := []string{"Accept", "text/html", "Accept-Language", "ru"}
		ask(path, "http://unknown.example/", html...).must(t, 503, "Сейчас").must(t, 503, "</h1>")
		ask(path, "http://unknown.example/", "Accept", "application/json").must(t, 503, `"type":"unavailable"`)
		if style == "verdict" {
			ask("/", "http://unknown.example/", html...).must(t, 421, "Здесь ничего нет</h1>")
		}
	}
}

// TestRestartForgetsNothing: a robot's pages count on over a restart, and over a crash, as if there had been none; and a ban that somebody has
// lifted is not made again.
func TestRestartForgetsNothing(t *testing.T) {
	t.Parallel()
	g := configured(t, `
identity: {trusted_proxies: [127.0.0.1]}
services:
  - name: shop
    upstream: {urls: [%q]}
    verdict: {limits: [{window: 1h, requests: 30, ban: 1h}]}
`, site(t).URL)
	page := 0
	next := func() int {
		page++
		return from(t, "198.51.100.7").get(fmt.Sprintf("%s/product/%d", g.url, page)).StatusCode
	}
	read := func(n int) {
		t.Helper()
		for range n {
			if status := next(); status != 200 {
				t.Fatalf("page %d: %d", page, status)
			}
		}
	}
	read(12)
	g.kill(syscall.SIGTERM)
	g.run()
	eventually(t, "the past is known", func() bool { return g.metric("antirobot_restart_log_read_total") >= 12 })
	before := logSize(t, g.dir)
	read(12)
	eventually(t, "they are judged", func() bool { return g.metric("antirobot_restart_log_events_total") >= 12 })
	eventually(t, "and written down", func() bool { return logSize(t, g.dir) > before+12*80 })
	g.kill(syscall.SIGKILL)
	g.run()
	eventually(t, "the robot is stopped", func() bool { return next() != 200 || page > 40 })
	if page < 30 || page > 34 { // the judgement follows the answer
		t.Errorf("stopped at page %d, want 31 or a little later", page)
	}
	g.api("DELETE", "/api/bans?subject=ip:198.51.100.7&service=*", nil)
	g.kill(syscall.SIGTERM)
	g.run()
	eventually(t, "the past is known", func() bool { return g.metric("antirobot_restart_log_read_total") > 30 })
	if status := next(); status != 200 {
		t.Errorf("%d after the ban was lifted and a restart", status)
	}
	g.api("DELETE", "/api/subjects/ip:198.51.100.7", nil)
	for _, f := range logFiles(t, g.dir) {
		if b, err := os.ReadFile(f); err != nil || bytes.Contains(b, []byte{198, 51, 100, 7}) {
			t.Errorf("%s names who was erased; %v", f, err)
		}
	}
}

func logFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "restart-log", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// logSize returns how many bytes are written down in a data directory.
func logSize(t *testing.T, dir string) (n int64) {
	t.Helper()
	for _, f := range logFiles(t, dir) {
		if info, err := os.Stat(f); err == nil {
			n += info.Size()
		}
	}
	return n
}

// solve goes through the captcha page as a browser without JavaScript does, and returns the response to the right digits.
func (g *gateway) solve(v *client, path string) *response { return g.solveAt(v, path, g) }

// solveAt challenges a visitor, who sends the right answer to a gateway.
func (g *gateway) solveAt(v *client, path string, answered *gateway) *response {
	g.t.Helper()
	r := v.get(g.url + path)
	if r.StatusCode != http.StatusFound {
		g.t.Fatalf("%s is not challenged: %d %s", path, r.StatusCode, r.body)
	}
	page := v.get(r.Header.Get("Location")).must(g.t, 200, `name="rep"`)
	form := formOf(g.t, page.body)
	form.Set("rep", testAnswer)
	return v.do("POST", answered.url+"/checkcaptcha", form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
}

var (
	hiddenField = regexp.MustCompile(`<input[^>]*type="hidden"[^>]*>`)
	attribute   = regexp.MustCompile(`(name|value)="([^"]*)"`)
)

func formOf(t *testing.T, page string) url.Values {
	t.Helper()
	form := url.Values{}
	for _, in := range hiddenField.FindAllString(page, -1) {
		a := map[string]string{}
		for _, m := range attribute.FindAllStringSubmatch(in, -1) {
			a[m[1]] = htmlUnescape(m[2])
		}
		form.Set(a["name"], a["value"])
	}
	if len(form) == 0 {
		t.Fatalf("no hidden fields in %s", page)
	}
	return form
}

func htmlUnescape(s string) string {
	return strings.NewReplacer("&amp;", "&", "&#34;", `"`, "&#39;", "'", "&lt;", "<", "&gt;", ">", "&#43;", "+").Replace(s)
}

func (c *client) pass(t *testing.T, site string) string {
	t.Helper()
	u, err := url.Parse(site)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range c.Jar.Cookies(u) {
		if k.Name == "spravka" {
			return k.Value
		}
	}
	t.Fatal("no spravka in the jar")
	return ""
}

// settle waits until all write-behind data is in the store.
func (g *gateway) settle() {
	g.t.Helper()
	for range 500 {
		if g.metric("antirobot_writes_waiting") == 0 {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	g.t.Fatal("writes still wait for the store")
}

// TestStateSurvivesKill9 kills the gateway and looks for everything that must last.
func TestStateSurvivesKill9(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL, "--trusted-proxies", "127.0.0.1")
	as := func(addr string) []string { return []string{"X-Forwarded-For", addr} }
	v := visitor(t)
	for k, h := 0, as("203.0.113.1"); k < len(h); k += 2 {
		v.header.Set(h[k], h[k+1])
	}
	g.ban("ip:203.0.113.1", "10m")
	g.ban("ip:203.0.113.2", "10m")
	g.api("POST", "/api/lists/block", map[string]string{"entry": "198.51.100.0/24", "ttl": "1h", "reason": "test"})
	g.api("POST", "/api/lists/white", map[string]string{"entry": "192.0.2.7", "ttl": "1h", "reason": "test"})

	solved := g.solve(v, "/first")
	if solved.StatusCode != http.StatusSeeOther {
		t.Fatalf("solve: %d %s", solved.StatusCode, solved.body)
	}
	spend := func(n int) (passed int) {
		for range n {
			if v.get(g.url+"/spend").StatusCode == 200 {
				passed++
			}
		}
		return passed
	}
	if got := spend(30); got != 30 {
		t.Fatalf("%d of the first 30 requests passed", got)
	}
	other := visitor(t)
	other.header.Set("X-Forwarded-For", "203.0.113.2")
	g.solve(other, "/")
	revoked := other.get(g.url+"/").must(t, 200, "site got")
	_ = revoked
	next := time.Now().UTC().Truncate(time.Second).Add(time.Second) // births are kept in whole seconds
	<-time.After(time.Until(next))
	g.api("POST", "/api/revoke", map[string]string{"before": next.Format(time.RFC3339)})
	other.get(g.url+"/").must(t, 302, "")

	g.settle()
	g.kill(syscall.SIGKILL)
	g.run()

	plain := visitor(t)
	plain.get(g.url+"/", as("203.0.113.2")...).must(t, 302, "")
	plain.get(g.url+"/", as("198.51.100.9")...).must(t, 403, "")
	other.get(g.url+"/").must(t, 302, "")
}

// TestAllowanceIsExact spends a pass from many connections at once, across a restart: exactly the configured number.
func TestAllowanceIsExact(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	v := visitor(t)
	g.solve(v, "/")
	pass := v.pass(t, g.url)

	spend := func(n, workers int) int64 {
		var passed, left atomic.Int64
		left.Store(int64(n))
		var wg sync.WaitGroup
		for range workers {
			wg.Add(1)
			go func() {
				defer wg.Done()
				c := visitor(t)
				for left.Add(-1) >= 0 {
					if c.get(g.url+"/x", "Cookie", "spravka="+pass).StatusCode == 200 {
						passed.Add(1)
					}
				}
			}()
		}
		wg.Wait()
		return passed.Load()
	}
	first := spend(40, 8)
	g.settle()
	g.kill(syscall.SIGKILL)
	g.run()
	if rest := spend(200, 8); first != 40 || first+rest != 100 {
		t.Errorf("the pass paid for %d + %d requests, wanted 40 + 60", first, rest)
	}
}

// TestReload changes the configuration under load: no request fails, a bad file changes nothing and says why.
func TestReload(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "antirobot.yaml")
	write := func(mode string) {
		text := fmt.Sprintf("defaults:\n  upstream: {urls: [%q]}\n  verdict: {mode: %s}\n", site(t).URL, mode)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("enforce")
	g := start(t, "serve", "--config", file)
	g.ban("ip:127.0.0.1", "10m")
	v := visitor(t)
	v.get(g.url+"/").must(t, 302, "")

	var failed, asked atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c := &http.Client{Timeout: 5 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			for {
				select {
				case <-stop:
					return
				default:
				}
				r, err := c.Get(g.url + "/load")
				asked.Add(1)
				if err != nil || r.StatusCode >= 500 {
					failed.Add(1)
					continue
				}
				r.Body.Close()
			}
		}()
	}
	write("observe")
	g.api("POST", "/api/reload", nil)
	v.get(g.url+"/").must(t, 200, "site got")

	if err := os.WriteFile(file, []byte("defaults: {upstream: {urls: [http://127.0.0.1:1]}, verdict: {mode: perhaps}, colour: blue}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, body := g.tryAPI("POST", "/api/reload", nil)
	if status != 422 || !strings.Contains(string(body), "verdict.mode") || !strings.Contains(string(body), "colour") {
		t.Errorf("bad file: %d %s", status, body)
	}
	v.get(g.url+"/").must(t, 200, "site got")

	write("enforce")
	_ = g.cmd.Process.Signal(syscall.SIGHUP)
	g.logs.find(func(s string) bool { return strings.Contains(s, `"reloaded"`) && strings.Contains(s, "SIGHUP") })
	v.get(g.url+"/").must(t, 302, "")
	close(stop)
	wg.Wait()
	if failed.Load() > 0 || asked.Load() < 10 {
		t.Errorf("%d of %d requests failed during reloads", failed.Load(), asked.Load())
	}
}

// TestFirstRequestsPass checks the invariant: a new subject's requests 1 and 2 pass.
func TestFirstRequestsPass(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL, "--trusted-proxies", "127.0.0.1")
	for i := range 50 {
		v := visitor(t)
		for range 2 {
			v.get(g.url+"/", "X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i)).must(t, 200, "site got")
		}
	}
}

// TestFastScraperIsStopped exceeds the default limits.
func TestFastScraperIsStopped(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL, "--trusted-proxies", "127.0.0.1")
	robot := visitor(t)
	robot.header.Set("X-Forwarded-For", "203.0.113.66")
	for n := 1; ; n++ {
		if robot.get(fmt.Sprintf("%s/page/%d", g.url, n)).StatusCode == 302 {
			if n <= 2 {
				t.Fatalf("stopped at request %d", n)
			}
			t.Logf("stopped at request %d", n)
			break
		}
		if n > 3000 {
			t.Fatal("3000 requests in a row and nobody minds")
		}
	}
	eventually(t, "a metric counts the robot", func() bool { // a moment after the answer
		return g.metric("antirobot_requests_total", `verdict="robot"`) > 0
	})
}

// TestServiceDown starts without a running service: visitors get a clear page.
func TestServiceDown(t *testing.T) {
	t.Parallel()
	g := serve(t, "http://"+freePort(t))
	r := visitor(t).get(g.url + "/")
	r.must(t, 502, r.Header.Get("X-Request-Id"))
	if !strings.Contains(r.Header.Get("Content-Type"), "text/html") {
		t.Errorf("Content-Type %q", r.Header.Get("Content-Type"))
	}
}

// ran runs the real binary and returns what it wrote; it must end well if ok is set, and badly otherwise.
func ran(t *testing.T, ok bool, args ...string) string {
	t.Helper()
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(bin, args...).CombinedOutput()
	if (err == nil) != ok {
		t.Fatalf("antirobot %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestBackup copies the state of a running gateway, and starts another from the copy: whoever was banned is, and whoever had
// a pass has it. The second one finds the ports of the first taken, and says which flags choose others.
func TestBackup(t *testing.T) {
	t.Parallel()
	upstream := site(t).URL
	g := serve(t, upstream)
	admin := strings.TrimPrefix(g.admin, "http://")
	if out := ran(t, true, "health", "--admin", admin); !strings.Contains(out, `"ready":true`) {
		t.Errorf("health says %s", out)
	}
	g.ban("ip:127.0.0.1", "10m")
	v := visitor(t)
	solve(t, v, v.get(g.url+"/").must(t, 302, "").Header.Get("Location"))

	remembers := func() bool {
		return strings.Contains(string(g.api("GET", "/api/journal?q=kind:solved", nil)), `"solved"`)
	}
	eventually(t, "the journal has the solved challenge", remembers)
	ran(t, false, "backup", filepath.Join(g.dir, "missing", "copy"), "--admin", admin, "--data-dir", g.dir)
	copied := filepath.Join(g.dir, "copy")
	ran(t, true, "backup", copied, "--admin", admin, "--data-dir", g.dir)
	g.ban("ip:203.0.113.9", "10m") // after it
	ran(t, false, "backup", copied, "--admin", admin, "--data-dir", g.dir)
	again := filepath.Join(g.dir, "again")
	if out := ran(t, true, "backup", again, "--admin", admin, "--data-dir", g.dir, "--json"); strings.TrimSpace(out) != fmt.Sprintf(`{"dir":%q}`, again) {
		t.Errorf("--json: %s", out)
	}
	if _, err := os.Stat(filepath.Join(again, "copy")); err == nil {
		t.Error("a backup holds the one before it")
	}

	next := filepath.Join(t.TempDir(), "next")
	ran(t, true, "restore", copied, "--data-dir", next)
	said := ran(t, false, "serve", "--upstream", upstream, "--listen", strings.TrimPrefix(g.url, "http://"), "--admin", "127.0.0.1:0", "--data-dir", next)
	if !strings.Contains(said, "another program listens on "+strings.TrimPrefix(g.url, "http://")+" already") || !strings.Contains(said, "--listen ADDR, ANTIROBOT_LISTEN") {
		t.Errorf("a taken port is said so: %s", said)
	}
	said = ran(t, false, "demo", "--listen", "127.0.0.1:0", "--admin", admin, "--data-dir", filepath.Join(t.TempDir(), "demo"))
	if !strings.Contains(said, "--admin ADDR, ANTIROBOT_ADMIN_LISTEN") {
		t.Errorf("the demo says of a taken port: %s", said)
	}
	g.kill(syscall.SIGTERM)
	ran(t, false, "health", "--admin", admin)

	g.dir = next
	g.run()
	visitor(t).get(g.url+"/").must(t, 302, "")
	v.get(g.url+"/").must(t, 200, "site got")
	if !remembers() {
		t.Error("the journal of the copy does not have what was solved")
	}
	if bans := string(g.api("GET", "/api/bans", nil)); strings.Contains(bans, "203.0.113.9") {
		t.Errorf("a ban that was made after the backup is in it: %s", bans)
	}
}
