package e2e

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"antirobot/servertest"
	"antirobot/store/redisstore/redistest"
)

// fromScaling returns the lines of docs/scaling.md for a balancer, with its addresses replaced by those of a test.
func fromScaling(t *testing.T, which string, replace ...string) string {
	t.Helper()
	text, err := os.ReadFile("../docs/scaling.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```" + which + "\n(.*?)```").FindSubmatch(text)
	if m == nil {
		t.Fatalf("docs/scaling.md has no lines for %s", which)
	}
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(string(m[1]), replace[i]) {
			t.Fatalf("the lines for %s in docs/scaling.md have no %q", which, replace[i])
		}
	}
	return strings.NewReplacer(replace...).Replace(string(m[1]))
}

// bare is an address without the scheme.
func bare(url string) string { return strings.TrimPrefix(url, "http://") }

// announced makes a request over its own connection, for which the PROXY protocol announces a client address.
func announced(to, client, path string) (status int, err error) {
	c, err := net.Dial("tcp", to)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, err = fmt.Fprintf(c, "PROXY TCP4 %s 192.0.2.1 40000 80\r\nGET %s HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: Mozilla/5.0\r\nAccept: text/html\r\nConnection: close\r\n\r\n", client, path)
	if err != nil {
		return 0, err
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	_, err = io.Copy(io.Discard, r.Body)
	return r.StatusCode, err
}

// throughFleet runs three gateways on one Redis, sends requests through the balancer started by run, and returns what each
// gateway has seen.
func throughFleet(t *testing.T, run func(t *testing.T, all []*gateway) (addr string)) {
	r := redistest.Start(t)
	all := fleet(t, 3, "redis://"+r.Addr, "--trusted-proxies", "127.0.0.1")
	addr := run(t, all)
	const clients, each = 40, 6
	for round := range each {
		for i := range clients {
			s, err := announced(addr, fmt.Sprintf("203.0.113.%d", i+1), fmt.Sprintf("/%d", round))
			if err != nil || s != 200 {
				t.Fatalf("client %d: %d, %v", i, s, err)
			}
		}
	}
	seen := map[string]int{} // client: gateways that have seen it
	for n, g := range all {
		mine := 0
		for i := range clients {
			client := fmt.Sprintf("203.0.113.%d", i+1)
			var d struct {
				Session *struct {
					Requests float64 `json:"requests"`
				} `json:"session"`
			}
			if err := json.Unmarshal(g.api("GET", "/api/subjects/ip:"+client, nil), &d); err != nil {
				t.Fatal(err)
			}
			if d.Session != nil {
				seen[client]++
				mine++
			}
		}
		t.Logf("gateway %d has sessions of %d clients", n, mine)
		if mine == 0 {
			t.Errorf("gateway %d has seen nobody", n)
		}
	}
	for client, n := range seen {
		if n != 1 {
			t.Errorf("%s was seen by %d gateways", client, n)
		}
	}
	if len(seen) != clients {
		t.Errorf("%d of %d clients were seen", len(seen), clients)
	}
}

// haproxyBefore runs HAProxy with the lines of the docs.
func haproxyBefore(t *testing.T, all []*gateway) string {
	bin, addr := servertest.Need(t, "haproxy"), freePort(t)
	lines := []string{"bind :80", "bind " + addr + " accept-proxy"}
	for i, g := range all {
		_, port, _ := net.SplitHostPort(bare(g.admin))
		lines = append(lines, fmt.Sprintf("10.0.0.1%d:8080 check port 8079", i+1), bare(g.url)+" check port "+port)
	}
	runDaemon(t, addr, bin, "-db", "-f", writeFile(t, "haproxy.cfg", fromScaling(t, "haproxy", lines...)))
	return addr
}

// TestBalanceByAddress checks the lines of docs/scaling.md: each client address reaches the same gateway.
func TestBalanceByAddress(t *testing.T) {
	t.Parallel()
	t.Run("HAProxy", func(t *testing.T) { throughFleet(t, haproxyBefore) })
	t.Run("nginx", func(t *testing.T) {
		throughFleet(t, func(t *testing.T, all []*gateway) string {
			bin, addr, dir := servertest.Need(t, "nginx"), freePort(t), t.TempDir()
			lines := []string{"listen 80;", "listen " + addr + " proxy_protocol;\n    set_real_ip_from 127.0.0.1;\n    real_ip_header proxy_protocol;"}
			for i, g := range all {
				lines = append(lines, fmt.Sprintf("10.0.0.1%d:8080", i+1), bare(g.url))
			}
			conf := fmt.Sprintf("worker_processes 1; daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/error.log;\nevents {}\nhttp {\naccess_log off; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;\n%[2]s}\n", dir, fromScaling(t, "nginx", lines...))
			runDaemon(t, addr, bin, "-c", writeFile(t, "nginx.conf", conf), "-p", dir)
			return addr
		})
	})
}

// TestRollingRestart restarts two gateways one after the other behind HAProxy, under load: nobody gets an error.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	file := filepath.Join(t.TempDir(), "antirobot.yaml")
	write(t, file, fmt.Sprintf(`
drain_delay: 1500ms
store: {url: "redis://%s"}
keys: {secret_file: %q}
identity: {trusted_proxies: [127.0.0.1]}
processor: {enabled: false}
defaults: {upstream: {urls: [%q]}}
services: [{name: default, hosts: ["*"]}]
`, r.Addr, secretFile(t), site(t).URL))
	var all []*gateway
	for range 3 {
		all = append(all, start(t, "serve", "--config", file))
	}
	addr := haproxyBefore(t, all)
	stop := make(chan struct{})
	var served, bad atomic.Int64
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(2 * time.Millisecond):
				}
				s, err := announced(addr, fmt.Sprintf("203.0.%d.%d", w, i%200+1), "/x")
				if served.Add(1); err != nil || s != 200 {
					bad.Add(1)
					t.Logf("a request fails: %d, %v", s, err)
				}
			}
		})
	}
	for _, g := range all[:2] {
		before := served.Load()
		eventually(t, "some load", func() bool { return served.Load() > before+50 })
		end := g.done
		if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		eventually(t, "readyz says draining while it serves", func() bool {
			res, err := http.Get(g.admin + "/readyz")
			if err != nil {
				return false
			}
			defer res.Body.Close()
			b, _ := io.ReadAll(res.Body)
			return res.StatusCode == 503 && strings.Contains(string(b), "draining")
		})
		if s := g.asks(visitor(t), "/", "203.0.113.1"); s != 200 {
			t.Errorf("while it drains, connections are refused: %d", s)
		}
		<-end
		g.run()
	}
	before := served.Load()
	eventually(t, "some load", func() bool { return served.Load() > before+50 })
	close(stop)
	wg.Wait()
	t.Logf("%d requests, %d failed", served.Load(), bad.Load())
	if bad.Load() > 0 {
		t.Errorf("%d of %d requests failed", bad.Load(), served.Load())
	}
}

// TestReadyWithoutHost sends a balancer's simplest probe.
func TestReadyWithoutHost(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	c, err := net.Dial("tcp", bare(g.admin))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "GET /readyz HTTP/1.0\r\n\r\n")
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || r.StatusCode != 200 {
		t.Fatalf("%v, %v", r, err)
	}
	_ = r.Body.Close()
}

// everywhere is what is read of an answer with gateways=all.
type everywhere struct {
	Items []struct {
		Path    string
		Gateway string
		Name    string
		Entries int
	}
	Session  *struct{ Requests float64 }
	Gateways []struct{ Name, Error string }
}

// TestGatewaysAsked: two gateways share a store; each keeps its own journal, and the console of one shows both, names whose row is
// whose, and says who is gone when one has been killed. A seal is good for no other call, and nobody else's address is asked.
func TestGatewaysAsked(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	up, secret := site(t).URL, secretFile(t)
	var all []*gateway
	for _, name := range []string{"anna", "berta"} {
		file := configFile(t, "admin: {name: %s, advertise: 127.0.0.1}\njournal: {humans: 1}\nidentity: {trusted_proxies: [127.0.0.1]}\n%s", name, "")
		all = append(all, serve(t, up, "--config", file, "--store", "redis://"+r.Addr, "--secret-file", secret))
	}
	a, b := all[0], all[1]
	from(t, "203.0.113.5").get(a.url+"/at-anna").must(t, 200, "")
	_, number, _ := strings.Cut(from(t, "203.0.113.6").get(b.url+"/at-berta").must(t, 200, "").body, "X-Request-Id: ")
	number = number[:26]
	ask := func(path string) (got everywhere) {
		t.Helper()
		if err := json.Unmarshal(a.api("GET", path, nil), &got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	var got everywhere
	eventually(t, "both journals are shown", func() bool {
		got = ask("/api/journal?q=kind:request&gateways=all")
		return len(got.Items) == 2
	})
	if got.Items[0].Gateway != "berta" || got.Items[0].Path != "/at-berta" || got.Items[1].Gateway != "anna" || len(got.Gateways) != 2 || got.Gateways[1].Error != "" {
		t.Errorf("together: %+v", got)
	}
	if alone := ask("/api/journal?q=kind:request"); len(alone.Items) != 1 || alone.Gateways != nil {
		t.Errorf("alone: %+v", alone)
	}
	if got = ask("/api/journal/" + number + "?gateways=all"); len(got.Items) != 1 || got.Items[0].Gateway != "berta" {
		t.Errorf("the number of a request at the other: %+v", got)
	}
	a.api("GET", "/api/decisions/"+number+"?gateways=all", nil)
	if got = ask("/api/subjects/ip:203.0.113.6?gateways=all"); got.Session == nil {
		t.Errorf("a subject at the other: %+v", got)
	}
	if got = ask("/api/journal/top?by=path&gateways=all"); len(got.Items) != 2 {
		t.Errorf("top: %+v", got)
	}
	if out, err := a.command("why", number); err != nil || !strings.Contains(out, "/at-berta") {
		t.Errorf("why: %v %s", err, out)
	}
	if out, err := a.command("tail", "kind:request", "--follow=false"); err != nil || !strings.Contains(out, "/at-anna") || !strings.Contains(out, number+" berta\n") {
		t.Errorf("tail: %v %s", err, out)
	}
	if out, err := a.command("status"); err != nil || !strings.Contains(out, "gateway  anna ready") || !strings.Contains(out, "gateway  berta ready") {
		t.Errorf("status: %v %s", err, out)
	}

	b.kill(syscall.SIGKILL)
	if out, err := a.command("status"); err != nil || !strings.Contains(out, "not all is here; the gateway berta") {
		t.Errorf("status after one was killed: %v %s", err, out)
	}
	if got = ask("/api/journal?q=kind:request&gateways=all"); len(got.Items) != 1 || len(got.Gateways) != 2 || got.Gateways[1].Name != "berta" || got.Gateways[1].Error == "" {
		t.Errorf("one was killed: %+v", got)
	}
	if status, text := a.tryAPI("GET", "/api/decisions/"+number+"?gateways=all", nil); status != 404 || !strings.Contains(string(text), "the gateway berta did not answer") {
		t.Errorf("a number of the killed one: %d %s", status, text)
	}
	b.run()
	eventually(t, "the gateway that is back answers", func() bool {
		got = ask("/api/journal?q=kind:request&gateways=all")
		return fmt.Sprint(got.Gateways) == "[{anna } {berta }]"
	})
}

// pushed is what GET /api/push answers.
type pushed struct {
	InForce  uint64 `json:"in_force"`
	Runs     uint64
	Error    string
	Versions []struct {
		Version uint64
		By      string
	}
	Gateways []struct {
		Version uint64
	}
}

func (g *gateway) pushed() (s pushed) {
	g.t.Helper()
	if err := json.Unmarshal(g.api("GET", "/api/push", nil), &s); err != nil {
		g.t.Fatal(err)
	}
	return s
}

// command runs a command of antirobot for this gateway.
func (g *gateway) command(args ...string) (string, error) {
	g.t.Helper()
	bin, err := binary()
	if err != nil {
		g.t.Fatal(err)
	}
	out, err := exec.Command(bin, append(args, "--admin", g.admin, "--data-dir", g.dir)...).CombinedOutput()
	return string(out), err
}

// TestPush: what is pushed at one gateway runs on all, over restarts too; what is bad changes nothing; and a rollback brings
// back what was.
func TestPush(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	all := fleet(t, 2, "redis://"+r.Addr)
	a, b := all[0], all[1]
	dir := t.TempDir()
	file := filepath.Join(dir, "site.yaml")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	blocks := func(g *gateway) bool { return visitor(t).get(g.url+"/").StatusCode == 403 }
	push := func(want string, args ...string) {
		t.Helper()
		if out, err := a.command(append([]string{"push"}, args...)...); !strings.Contains(out, want) {
			t.Fatalf("antirobot push %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	runs := func(version uint64, blocked bool) {
		t.Helper()
		for _, g := range all {
			eventually(t, "all run what is in force", func() bool {
				s := g.pushed()
				return s.Runs == version && s.InForce == version && s.Error == "" && blocks(g) == blocked
			})
		}
	}
	write("here.txt", "127.0.0.0/8\n::1\n")
	write("site.yaml", "lists: {lists: [{name: here, flag: block, file: here.txt}]}\n")
	push("version 1, with 1 file, is in force", file, "--note", "nobody comes in")
	runs(1, true)

	write("site.yaml", "lists: {lists: [{name: here, flag: nonsense, file: here.txt}]}\nstore: {url: 'memory:'}\n")
	push("store: is of each gateway's own file", file)
	write("site.yaml", "lists: {lists: [{name: here, flag: nonsense, file: here.txt}]}\n")
	push("nonsense", file)
	if status, _ := a.tryAPI("POST", "/api/push", map[string]any{"bundle": []byte("no bundle")}); status != 400 {
		t.Errorf("no bundle: %d", status)
	}
	runs(1, true)

	write("here.txt", "192.0.2.1\n")
	write("site.yaml", "lists: {lists: [{name: here, flag: block, file: here.txt}]}\n")
	push("version 2", file)
	runs(2, false)
	push("version 1 is in force", "--rollback")
	runs(1, true)
	push("version 2 is in force", "--rollback", "--to", "2")
	push("no such version", "--rollback", "--to", "7")
	push("version 1 is in force", "--rollback")
	runs(1, true)
	eventually(t, "both gateways tell what they run", func() bool {
		s := b.pushed()
		return len(s.Gateways) == 2 && s.Gateways[0].Version == 1 && s.Gateways[1].Version == 1
	})
	push("(in force)", "status")
	// Version 2, which was in force in between, may only now be taken where that takes long.
	eventually(t, "the metric tells it, too", func() bool { return b.metric("antirobot_push_version") == 1 })
	if acts := string(a.api("GET", "/api/journal?q=kind:act", nil)); !strings.Contains(acts, `"rollback"`) || !strings.Contains(acts, "nobody comes in") {
		t.Errorf("the journal has\n%s", acts)
	}

	b.kill(syscall.SIGTERM)
	b.run()
	if !blocks(b) || b.metric("antirobot_push_version") != 1 {
		t.Error("a gateway that starts does not begin with what was pushed")
	}
	push("gateways' own files are", "--rollback", "--to", "0")
	runs(0, false)
}

// processor runs a process that judges what gateways see.
func processor(t *testing.T, file string) *gateway {
	t.Helper()
	g := &gateway{t: t, dir: t.TempDir(), args: []string{"serve", "--role", "processor", "--config", file}, ownListen: true}
	g.run()
	t.Cleanup(func() {
		g.kill(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("the processor wrote:\n%s", tail(g.logs.String(), 4000))
		}
	})
	return g
}

// visitors is where g serves visitors; a processor serves none.
func (g *gateway) visitors() string {
	if slices.Contains(g.args, "processor") {
		return ""
	}
	return "http://" + g.listening("visitors")
}

// robot is a made-up client that reads pages one after the other.
type robot struct {
	kind    string
	address func(i int) string // of its request number i
	header  func(i int) map[string]string
	cookies bool
	parts   bool   // each page with two pictures
	under   string // where it reads
	hurries bool
	took    time.Duration // the last page, with its parts
}

const chrome = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36"

// robots are one of each kind; net is the third number of their addresses.
func robots(net int) []robot {
	at := func(format string) func(int) string {
		return func(int) string { return fmt.Sprintf(format, net) }
	}
	always := func(h map[string]string) func(int) map[string]string {
		return func(int) map[string]string { return h }
	}
	browser := always(map[string]string{"User-Agent": chrome, "Accept": "text/html,*/*;q=0.8", "Accept-Language": "en", "Accept-Encoding": "gzip", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "none"})
	rotating := func(i int) map[string]string {
		return map[string]string{"User-Agent": strings.Replace(chrome, "126", fmt.Sprint(100+i%25), 1), "Accept": "text/html", "Accept-Language": "en"}
	}
	return []robot{
		{kind: "library, by the quota", address: at("203.0.%d.1"), header: always(map[string]string{"User-Agent": "python-requests/2.31"}), under: "/articles"},
		{kind: "library with the name of a browser, by a rule", address: at("198.51.%d.1"), header: always(map[string]string{"User-Agent": chrome, "Accept": "*/*"}), under: "/articles"},
		{kind: "library with cookies, by the quota", address: at("198.18.%d.1"), header: always(map[string]string{"User-Agent": "python-requests/2.31"}), cookies: true, under: "/articles"},
		{kind: "without cookies, by its pace", address: at("198.52.%d.1"), header: browser, under: "/pace"},
		{kind: "with cookies and parts, by its pace", address: at("198.19.%d.1"), header: browser, cookies: true, parts: true, under: "/pace"},
		{kind: "without cookies, by the quota", address: at("100.65.%d.1"), header: browser, under: "/free"},
		{kind: "another browser at each page, by the quota", address: at("100.67.%d.1"), header: rotating, under: "/free"},
		{kind: "network, by the quota", address: func(i int) string { return fmt.Sprintf("192.0.%d.%d", net, i%100+1) }, header: browser, under: "/free", hurries: true},
		{kind: "IPv6 network, by the quota", address: func(i int) string { return fmt.Sprintf("2001:db8:%x:%x::1", net, i) }, header: browser, under: "/free", hurries: true},
	}
}

// mostPages is how many pages a robot reads at most.
const mostPages = 400

// ask requests a page as the robot's request number i does.
func (r *robot) ask(v *client, url string, i int) *response {
	header := []string{"X-Forwarded-For", r.address(i)}
	for k, val := range r.header(i) {
		header = append(header, k, val)
	}
	return v.get(url, header...)
}

// reads lets the robot read until it is stopped, and returns the number of pages that it got. wait is called before each.
func (r *robot) reads(t *testing.T, url string, wait func(i int)) int {
	v := visitor(t)
	if !r.cookies {
		v.Client.Jar = nil
	}
	for i := range mostPages {
		wait(i)
		began, page := time.Now(), fmt.Sprintf("%s%s/%d", url, r.under, i)
		if r.ask(v, page, i).StatusCode != http.StatusOK {
			return i
		}
		if r.parts {
			for k := range 2 {
				v.get(fmt.Sprintf("%s/pictures/%d-%d", url, i, k), "X-Forwarded-For", r.address(i), "User-Agent", chrome, "Accept", "image/*,*/*;q=0.8", "Accept-Language", "en",
					"Referer", page, "Accept-Encoding", "gzip", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image", "Sec-Fetch-Site", "same-origin")
			}
		}
		r.took = time.Since(began)
	}
	return mostPages
}

// pause waits before a page: longer where answers take longer, since there judgements do, too.
func (r *robot) pause() {
	wait := 12 * time.Millisecond
	if r.hurries {
		wait = 4 * time.Millisecond
	}
	time.Sleep(wait + 5*r.took)
}

// peopleRead lets people of many networks read a page and the one behind it, so that every processor knows that cookies and referers
// arrive: until then who sends none is blamed by those alone that have met somebody who does.
func peopleRead(t *testing.T, url string, net int) {
	t.Helper()
	for i := range 24 {
		v := visitor(t)
		at := fmt.Sprintf("198.20.%d.1", 100*net+i)
		first := url + "/articles/of-people"
		v.get(first, "X-Forwarded-For", at)
		if r := v.get(first+"/more", "X-Forwarded-For", at, "Referer", first); r.StatusCode != http.StatusOK {
			t.Fatalf("a person gets %d", r.StatusCode)
		}
	}
}

// race lets all robots read at once where people have read, and returns what each got.
func race(t *testing.T, url string, net int) map[string]int {
	t.Helper()
	peopleRead(t, url, net)
	got := map[string]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, r := range robots(net) {
		wg.Go(func() {
			n := r.reads(t, url, func(int) { r.pause() })
			mu.Lock()
			defer mu.Unlock()
			got[r.kind] = n
		})
	}
	wg.Wait()
	return got
}

// Robots under /free are stopped by the quota alone, under /pace and /few by their pace, and elsewhere by a rule.
const siteOfRobots = `
role: %s
store: {url: %q}
keys: {secret_file: %q}
identity: {trusted_proxies: [127.0.0.1], i_per_hour: 100000}
processor: {quota: {hour: 40, day: 700, newcomers: 1000000}}
defaults:
  upstream: {urls: [%q]}
  verdict: {limits: [], campaign: nothing}
services:
  - name: default
    hosts: ["*"]
    paths:
      - {prefix: /free, verdict: {threshold: 0.999}}
      - {prefix: /pace, verdict: {threshold: 0.999, limits: [{requests: 40, window: 1m, ban: 10m}]}}
      - {prefix: /few, verdict: {threshold: 0.999, limits: [{requests: 10, window: 1m, ban: 10m}]}}
`

// site3 is three gateways behind HAProxy, which takes turns, with two processors behind them.
type site3 struct {
	url      string
	gateways []*gateway
	judges   []*gateway
}

func startSite3(t *testing.T) *site3 {
	bin, up, secret := servertest.Need(t, "haproxy"), site(t).URL, secretFile(t)
	r := redistest.Start(t)
	file := func(role string) string { return configFile(t, siteOfRobots, role, "redis://"+r.Addr, secret, up) }
	s := &site3{gateways: make([]*gateway, 3), judges: make([]*gateway, 2)}
	s.gateways[0] = start(t, "serve", "--config", file("gateway")) // it makes the key ring
	var wg sync.WaitGroup
	files := [...]string{file("gateway"), file("gateway"), file("processor"), file("processor")}
	wg.Go(func() { s.gateways[1] = start(t, "serve", "--config", files[0]) })
	wg.Go(func() { s.gateways[2] = start(t, "serve", "--config", files[1]) })
	wg.Go(func() { s.judges[0] = processor(t, files[2]) })
	wg.Go(func() { s.judges[1] = processor(t, files[3]) })
	wg.Wait()
	eventually(t, "the processors share the partitions", func() bool {
		return s.judges[0].metric("antirobot_stream_partitions ") == 8 && s.judges[1].metric("antirobot_stream_partitions ") == 8
	})
	addr := freePort(t)
	lines := "defaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\nlisten site\n  bind " + addr + "\n  balance roundrobin\n"
	for i, g := range s.gateways {
		eventually(t, "the gateway hears of processors", func() bool { return g.metric("antirobot_stream_alone ") == 0 })
		lines += fmt.Sprintf("  server g%d %s\n", i, bare(g.url))
	}
	runDaemon(t, addr, bin, "-db", "-f", writeFile(t, "haproxy.cfg", lines))
	s.url = "http://" + addr
	return s
}

// TestRobotsThroughThreeGateways lets the same robots read through one gateway that does everything, and through three that
// take turns: they are stopped after the same number of pages, and by the same cause. Then a processor is killed while robots read:
// the other one takes over what it knew, and no ban is lost.
// onTheWay is how many pages a robot may get while the processors' decision is on its way to the gateways.
const onTheWay = 150

func TestRobotsThroughThreeGateways(t *testing.T) {
	servertest.Need(t, "haproxy") // before robots read
	servertest.Need(t, "redis-server", "valkey-server")
	one := startConfigured(t, fmt.Sprintf(siteOfRobots, "all", "", "", site(t).URL))
	var want map[string]int
	var first sync.WaitGroup
	first.Go(func() { want = race(t, one.url, 1) })
	s := startSite3(t)
	first.Wait()
	got := race(t, s.url, 2)
	for kind, n := range want {
		t.Logf("%s: stopped after %d pages by one gateway, after %d by three", kind, n, got[kind])
		if strings.Contains(kind, "network") && n == mostPages {
			continue // a hundred addresses with four pages each: each is checked at its fifth
		}
		if n == mostPages || n < 30 {
			t.Errorf("%s is stopped by one gateway after %d pages: a tenth of that says nothing", kind, n)
		}
		if slack := n/10 + onTheWay; got[kind] > n+slack || got[kind] < n-slack {
			t.Errorf("%s: stopped after %d pages by three gateways, want %d ± %d", kind, got[kind], n, slack)
		}
	}
	stoppedBy(t, 1, one)
	stoppedBy(t, 2, s.gateways...)
	for i, g := range s.gateways {
		if g.metric("antirobot_stream_judged_alone_total") > 0 || g.metric("antirobot_processor_bans_total") > 0 {
			t.Errorf("gateway %d has judged by itself", i)
		}
		if g.metric("antirobot_stream_offered_total") == 0 {
			t.Errorf("gateway %d has seen nothing", i)
		}
	}
	s.bansEverywhere(t)
	s.killsAJudge(t, want)
}

// stoppedBy reads in what the gateways wrote why they stopped each robot: its kind says it.
func stoppedBy(t *testing.T, net int, gateways ...*gateway) {
	t.Helper()
	for _, r := range robots(net) {
		if strings.HasPrefix(r.kind, "network") {
			continue // four pages from each address: it need not be stopped
		}
		why := `"cause":"quota"`
		switch {
		case strings.HasSuffix(r.kind, "rule"):
			why = `"verdict":"robot"` // the quota may come first
		case strings.HasSuffix(r.kind, "pace"):
			why = `"reason":"pace: `
		}
		var addresses []string
		for i := range mostPages {
			addresses = append(addresses, fmt.Sprintf(`"client":%q`, r.address(i)))
		}
		eventually(t, r.kind+" is written down as stopped with "+why, func() bool {
			return slices.ContainsFunc(gateways, func(g *gateway) bool {
				for line := range strings.Lines(g.logs.String()) {
					if strings.Contains(line, `"message":"decision"`) && strings.Contains(line, why) &&
						slices.ContainsFunc(addresses, func(a string) bool { return strings.Contains(line, a) }) {
						return true
					}
				}
				return false
			})
		})
	}
}

// fewPages is how many pages may be read under /few.
const fewPages = 10

// bansEverywhere lets robots read as much as they may at one gateway, and measures how soon all gateways stop them.
func (s *site3) bansEverywhere(t *testing.T) {
	var took []time.Duration
	r := robots(0)[1]
	for i := range 40 {
		r.address = func(int) string { return fmt.Sprintf("198.51.%d.2", 50+i) }
		v := visitor(t)
		v.Client.Jar = nil
		asks := func(g *gateway, page int) int {
			return r.ask(v, fmt.Sprintf("%s/few/%d", g.url, page), page).StatusCode
		}
		for page := range fewPages + 1 {
			asks(s.gateways[0], page)
		}
		began := time.Now()
		polls := 0
		for _, g := range s.gateways {
			for asks(g, 1000+polls) == http.StatusOK && polls < mostPages {
				polls++
				time.Sleep(2 * time.Millisecond)
			}
			if polls == mostPages {
				t.Fatal("a ban does not reach all gateways")
			}
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("from the answer to the page that is one too many until all gateways stop: p50 %v, p99 %v of %d", took[len(took)/2], took[len(took)-1], len(took))
}

// killsAJudge kills a processor when each robot has read half of what it may. Those that are stopped by their score are left out: they
// wait meanwhile, and look more like people for it.
func (s *site3) killsAJudge(t *testing.T, want map[string]int) {
	var half, judged sync.WaitGroup
	list := slices.DeleteFunc(robots(3), func(r robot) bool { return r.under == "/articles" })
	half.Add(len(list))
	judged.Add(1)
	var mu sync.Mutex
	got := map[string]int{}
	var done sync.WaitGroup
	for _, r := range list {
		done.Go(func() {
			n := r.reads(t, s.url, func(i int) {
				r.pause()
				if i == want[r.kind]/2 {
					half.Done()
					judged.Wait()
				}
			})
			mu.Lock()
			defer mu.Unlock()
			got[r.kind] = n
		})
	}
	half.Wait()
	s.judges[0].kill(syscall.SIGKILL)
	took := eventually(t, "the other processor has all partitions", func() bool { return s.judges[1].metric("antirobot_stream_partitions ") == 16 })
	eventually(t, "it has read what was waiting", func() bool { return s.judges[1].metric("antirobot_stream_lag_seconds ") == 0 })
	t.Logf("the other processor has taken over within %v; it has read %.0f events once more", took, s.judges[1].metric("antirobot_stream_replayed_total "))
	judged.Done()
	done.Wait()
	for _, r := range list {
		kind, n := r.kind, want[r.kind]
		if slack := n / 10; got[kind] > n+slack { // earlier by time, because it has waited
			t.Errorf("%s: stopped after %d pages because a processor was killed, want at most %d + %d", kind, got[kind], n, slack)
		}
	}
	for i, g := range s.gateways {
		if g.metric("antirobot_stream_judged_alone_total") > 0 {
			t.Errorf("gateway %d has judged by itself, although there was a processor", i)
		}
	}
}

func startConfigured(t *testing.T, text string) *gateway {
	t.Helper()
	return start(t, "serve", "--config", configFile(t, "%s", text))
}

// roleVariable selects the role of this test binary when it runs again as a process next to the gateway.
const roleVariable = "ANTIROBOT_BENCH_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "service":
		runService()
	case "bare":
		runBareProxy()
	default:
		code := m.Run()
		endRested()
		os.Exit(code)
	}
}

// runService answers everything with 1 KB.
func runService() {
	body := bytes.Repeat([]byte("x"), 1024)
	serveRole(func(ctx *fasthttp.RequestCtx) { ctx.SetBody(body) })
}

// runBareProxy is the reference: fasthttp's server and client with streaming on, and nothing else.
func runBareProxy() {
	client := &fasthttp.HostClient{Addr: os.Getenv("ANTIROBOT_BENCH_UPSTREAM"), MaxConns: 4096, DisablePathNormalizing: true, DisableHeaderNamesNormalizing: true}
	serveRole(func(ctx *fasthttp.RequestCtx) {
		if err := client.Do(&ctx.Request, &ctx.Response); err != nil {
			ctx.Error(err.Error(), fasthttp.StatusBadGateway)
		}
	})
}

func serveRole(h fasthttp.RequestHandler) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	s := &fasthttp.Server{Handler: h, StreamRequestBody: true, DisableHeaderNamesNormalizing: true, NoDefaultServerHeader: true}
	if err := s.Serve(l); err != nil {
		panic(err)
	}
}

// process is something whose CPU time is compared.
type process struct {
	name, addr string
	admin      string // of a gateway
	pids       []int
}

func startRole(b *testing.B, role, upstream string) process {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role, "ANTIROBOT_BENCH_UPSTREAM="+upstream, "GOMAXPROCS=2")
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return process{name: role, addr: strings.TrimSpace(line), pids: []int{cmd.Process.Pid}}
}

func startNginx(b *testing.B, upstream string) (process, bool) {
	b.Helper()
	path, err := exec.LookPath("nginx")
	if err != nil {
		if path = "/usr/sbin/nginx"; !isFile(path) {
			return process{}, false
		}
	}
	addr := freePort(b)
	dir := b.TempDir()
	conf := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf(`worker_processes 1; daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/error.log;
events { worker_connections 4096; }
http {
  access_log off; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  keepalive_requests 100000000;
  upstream u { server %[2]s; keepalive 512; keepalive_requests 100000000; }
  server { listen %[3]s; location / { proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host; } }
}`, dir, upstream, addr)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(path, "-c", conf, "-p", dir, "-e", filepath.Join(dir, "error.log"))
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for range 100 {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return process{name: "nginx", addr: addr, pids: []int{cmd.Process.Pid}}, true
		}
		time.Sleep(20 * time.Millisecond)
	}
	b.Fatal("nginx does not listen")
	return process{}, false
}

func isFile(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// cpu returns the user and system time of p in seconds.
func (p process) cpu(b *testing.B) float64 {
	b.Helper()
	total := 0.0
	for _, pid := range p.pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			b.Fatal(err)
		}
		f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		for _, i := range []int{11, 12} {
			ticks, err := strconv.ParseFloat(f[i], 64)
			if err != nil {
				b.Fatal(err)
			}
			total += ticks / 100
		}
	}
	return total
}

const browserRequest = "GET /articles/42?page=2 HTTP/1.1\r\nHost: bench.test\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0\r\n" +
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-US,en;q=0.5\r\n" +
	"Accept-Encoding: gzip, deflate, br\r\nSec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Site: none\r\n%s\r\n"

// load sends n requests over conns kept-alive connections and returns how long it took.
func load(b *testing.B, addr string, conns, n int, extra string) time.Duration {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	began := time.Now()
	for range conns {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c, err := net.Dial("tcp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			request := []byte(fmt.Sprintf(browserRequest, extra))
			r := bufio.NewReaderSize(c, 8192)
			var res fasthttp.Response
			for left.Add(-1) >= 0 {
				if _, err := c.Write(request); err != nil {
					b.Error(err)
					return
				}
				if err := res.Read(r); err != nil {
					b.Error(err)
					return
				}
				if res.StatusCode() != 200 || len(res.Body()) != 1024 {
					b.Errorf("%s: status %d, %d bytes", addr, res.StatusCode(), len(res.Body()))
					return
				}
			}
		}()
	}
	wg.Wait()
	return time.Since(began)
}

// browserCookie is the i cookie that a first visit earns; if there is none, something of the same size.
func browserCookie(b *testing.B, addr string) string {
	b.Helper()
	req, err := http.NewRequest("GET", "http://"+addr+"/", nil)
	if err != nil {
		b.Fatal(err)
	}
	req.Host = "bench.test" // whose the cookie is
	req.Header.Set("Accept", "text/html")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	res.Body.Close()
	for _, c := range res.Cookies() {
		if c.Name == "i" {
			return "i=" + c.Value
		}
	}
	return "i=" + strings.Repeat("x", 120)
}

func startGateway(b *testing.B, name, upstream, settings string) process {
	b.Helper()
	return startGatewayWith(b, name, upstream, settings, "")
}

// startGatewayWith runs a gateway with further settings of its service.
func startGatewayWith(b *testing.B, name, upstream, settings, service string) process {
	b.Helper()
	bin, err := binary()
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	file := filepath.Join(dir, "bench.yaml")
	// the load comes from one address: no limit may stop it
	text := settings + fmt.Sprintf("defaults:\n  upstream: {urls: [\"http://%s\"]}\n  verdict: {mode: observe}\n%s", upstream, service)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		b.Fatal(err)
	}
	addr, admin := freePort(b), freePort(b)
	cmd := exec.Command(bin, "serve", "--config", file, "--listen", addr, "--admin", admin, "--data-dir", dir)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait(); log.Close() })
	for range 250 {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return process{name: name, addr: addr, admin: admin, pids: []int{cmd.Process.Pid}}
		}
		time.Sleep(20 * time.Millisecond)
	}
	text2, _ := os.ReadFile(log.Name())
	b.Fatalf("the gateway does not listen: %s", text2)
	return process{}
}

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
