package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"antirobot/request"
	"antirobot/servertest"
)

// TestCommands does with commands what an operator does in a day: who was stopped and why, from the log and from the journal, set it
// right, block, let through, and be told that nobody is stopped yet.
func TestCommands(t *testing.T) {
	t.Parallel()
	g := start(t, "serve", "--config", configFile(t, `
identity: {trusted_proxies: [127.0.0.1]}
services:
  - {name: shop, hosts: [127.0.0.1], upstream: {urls: [%q]}}
  - {name: blog, hosts: [blog.example], upstream: {urls: [%q]}, verdict: {mode: observe}}
`, site(t).URL, site(t).URL))
	f := func(code int, args []string, want ...string) string {
		t.Helper()
		got, out := command(t, append(args, "--admin", g.admin, "--data-dir", g.dir)...)
		if got != code {
			t.Errorf("%s: status %d\n%s", strings.Join(args, " "), got, out)
		}
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%s does not say %q:\n%s", strings.Join(args, " "), w, out)
			}
		}
		if strings.Contains(out, "\x1b[") {
			t.Errorf("%s has colours where there is no terminal", args[0])
		}
		return out
	}
	f(0, []string{"ban", "203.0.113.7", "--for", "1h", "--reason", "copies prices"}, "ip:203.0.113.7 is banned until", "service blog is in mode observe: it stops nobody yet")
	person := from(t, "203.0.113.7")
	stopped := person.get(g.url+"/goods?secret=1", "Accept", "text/html", "User-Agent", "Mozilla/5.0 (test) Firefox/140.0", "Referer", "https://search.example/?q=x").must(t, 302, "")
	number := stopped.Header.Get("X-Request-Id")
	line := g.logs.find(func(s string) bool { return strings.Contains(s, `"message":"decision"`) && strings.Contains(s, number) })
	for _, want := range []string{`"client":"203.0.113.7"`, `"path":"/goods"`, `"user_agent":"Mozilla/5.0 (test) Firefox/140.0"`, `"referer":"https://search.example/"`, `"reason":"copies prices"`} {
		if !strings.Contains(line, want) {
			t.Errorf("the decision's line has no %s: %s", want, line)
		}
	}
	f(0, []string{"why", number}, "copies prices", "set right", "antirobot unban "+number)
	f(0, []string{"subject", "203.0.113.7"}, "ip:203.0.113.7", "copies prices", "antirobot unban ip:203.0.113.7")
	var known struct{ Subject string }
	if err := json.Unmarshal([]byte(f(0, []string{"subject", number, "--json"})), &known); err != nil || known.Subject != "ip:203.0.113.7" {
		t.Errorf("subject --json: %v %+v", err, known)
	}
	eventually(t, "the journal has the request", func() bool {
		_, out := command(t, "top", "--by", "path", "--admin", g.admin, "--data-dir", g.dir)
		return strings.Contains(out, "/goods")
	})
	f(0, []string{"top", "--by", "ip"}, "203.0.113.7")
	f(0, []string{"unban", number}, "ip:203.0.113.7 is not banned any more")
	person.get(g.url+"/goods").must(t, 200, "site got")
	g.ban("ip:203.0.113.7", "1h")
	f(0, []string{"allow", "203.0.113.7", "--for", "1d"}, "203.0.113.7 passes until")
	person.get(g.url+"/goods").must(t, 200, "site got")
	f(0, []string{"block", "203.0.113.0/24", "--for", "1h"}, "203.0.113.0/24 is blocked until", "it stops nobody yet")
	person.get(g.url+"/goods").must(t, 403, "")
	f(0, []string{"allow", "203.0.113.7", "--for", "1d"}, "your own block of 203.0.113.0/24 stands above it; antirobot unblock 203.0.113.0/24 removes that")
	f(1, []string{"unblock", "203.0.113.7"}, "the list has 203.0.113.0/24")
	f(0, []string{"unblock", "203.0.113.0/24"}, "is not blocked any more")
	person.get(g.url+"/goods").must(t, 200, "site got")
	f(0, []string{"unallow", "203.0.113.7"}, "203.0.113.7 is judged again")
	f(0, []string{"unban", "203.0.113.7"})
	f(0, []string{"ban", "203.0.113.0/24", "--for", "1h", "--reason", "a farm"}, "203.0.113.0/24 is challenged until", "it stops nobody yet")
	person.get(g.url+"/goods", "Accept", "text/html").must(t, 302, "")
	f(1, []string{"unban", "203.0.113.0/25"}, "the list has 203.0.113.0/24")
	f(0, []string{"unban", "203.0.113.0/24"}, "203.0.113.0/24 is not challenged any more")
	person.get(g.url+"/goods").must(t, 200, "site got")
	f(0, []string{"allow", "203.0.113.7", "--for", "1d"}, "203.0.113.7 passes until")
	f(0, []string{"unallow", "203.0.113.7", "--json"}, `"removed":"203.0.113.7"`)
	f(0, []string{"label", "203.0.113.7", "human"}, "is labelled human")
	f(0, []string{"label", "list", "--json"}, `{"items":[{"subject":"ip:203.0.113.7"`)
	f(0, []string{"label", "remove", "203.0.113.7", "--json"}, `{"removed":"ip:203.0.113.7"}`)
	f(0, []string{"label", "203.0.113.99", "human"}, "is labelled human", "ip:203.0.113.99 was not seen of late")
	f(0, []string{"status"}, "gateway  ready", "service  shop, mode enforce", "service  blog, mode observe: it stops nobody yet", "hour     human")
	f(0, []string{"status", "--json"}, `"ready"`)
	f(2, []string{"ban", "nobody"}, "kind")
	for _, wrong := range [][]string{{"ban"}, {"top", "--bye", "ip"}, {"block", "a", "b"}, {"frobnicate"}, {"why", "x"}, {"allow", "1.2.3.4", "--for"}} {
		if code, out := command(t, wrong...); code != 2 {
			t.Errorf("%v: status %d\n%s", wrong, code, out)
		}
	}
}

// TestDoctor: of a good gateway nothing is bad; then all visitors have one address, the keys lie open, the service is away and the
// private listener is for all, and the doctor says what to do of each.
func TestDoctor(t *testing.T) {
	t.Parallel()
	text := "lists: {crawlers: {enabled: false}}\nservices: [{name: shop, upstream: {urls: [%q]}}]\n"
	file := configFile(t, text, site(t).URL)
	g := start(t, "serve", "--config", file)
	f := func(code int, file string, want ...string) {
		t.Helper()
		got, out := command(t, "doctor", "--config", file, "--admin", strings.TrimPrefix(g.admin, "http://"), "--data-dir", g.dir)
		if got != code {
			t.Errorf("status %d\n%s", got, out)
		}
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("it does not say %q:\n%s", w, out)
			}
		}
	}
	f(0, file, "ok    configuration", "ok    keys", "ok    disk", "shop at http://127.0.0.1", "ok    gateway        it runs and is ready")
	g.ban("ip:127.0.0.1", "10m")
	for range 60 {
		visitor(t).browse().get(g.url + "/")
	}
	eventually(t, "the journal has the requests", func() bool {
		_, out := command(t, "top", "--by", "ip", "--admin", g.admin, "--data-dir", g.dir)
		return strings.Contains(out, "60")
	})
	f(1, file, "all your visitors have one address, 127.0.0.1: is a balancer before you?", "do: name the balancer in identity.trusted_proxies", "1 finding bad",
		"none of 60 visitors who were sent to it came there: does a proxy before the gateway take a prefix off, or change Host?")
	v := visitor(t).browse()
	v.get(v.get(g.url+"/").must(t, 302, "").Header.Get("Location")).must(t, 200, "")
	f(1, file, "ok    captcha page   visitors come to it")
	if err := os.Chmod(filepath.Join(g.dir, "keys.json"), 0o644); err != nil {
		t.Fatal(err)
	}
	f(1, configFile(t, text, "http://127.0.0.1:1"), "keys.json can be read by others", "do: chmod 600", "shop at http://127.0.0.1:1 does not answer", "3 findings bad")
	code, out := command(t, "doctor", "--json", "--config", file, "--admin", "0.0.0.0:1", "--data-dir", g.dir)
	var told struct {
		Findings []struct{ State, What, Says, Do string }
	}
	line, _, _ := strings.Cut(out, "\n")
	if err := json.Unmarshal([]byte(line), &told); err != nil || code != 1 || !strings.Contains(out, "can be reached from other machines") {
		t.Errorf("--json: %d %v %s", code, err, out)
	}
	all := configFile(t, text+"admin: {listen: %q}\ndata_dir: %q\n", site(t).URL, strings.TrimPrefix(g.admin, "http://"), g.dir)
	if _, out := command(t, "doctor", "--config", all); !strings.Contains(out, "it runs and is ready") || strings.Contains(out, "the gateway's user") {
		t.Errorf("the file alone says where the gateway is: %s", out)
	}
	if code, out := command(t, "doctor", "--config", configFile(t, "colour: blue\n")); code != 1 || !strings.Contains(out, "colour: unknown key") {
		t.Errorf("a bad file: %d %s", code, out)
	}
}

// TestUnitIsHardened: the unit of the packages has the exposure that docs/operating.md promises, and its configuration is good.
func TestUnitIsHardened(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(servertest.Need(t, "systemd-analyze"), "security", "--offline=true", "../deploy/package/antirobot.service").CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`Overall exposure level for antirobot\.service: ([0-9.]+)`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("no level in\n%s", out)
	}
	if level, err := strconv.ParseFloat(string(m[1]), 64); err != nil || level > 2 {
		t.Errorf("exposure level %s\n%s", m[1], out)
	}
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	check := exec.Command(bin, "check-config", "../deploy/package/antirobot.yaml")
	check.Env = []string{"HOME=/"}
	if said, err := check.CombinedOutput(); err != nil || strings.Contains(string(said), "warning") {
		t.Errorf("of the packages' configuration it says %s", said)
	}
}

// TestPrometheusRules: what is shipped for Prometheus means what it says, and what a gateway shows is in its format.
func TestPrometheusRules(t *testing.T) {
	t.Parallel()
	tool := servertest.Need(t, "promtool", "../.bin/promtool")
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "rules_test.yaml"}} {
		cmd := exec.Command(tool, args...)
		cmd.Dir = "../deploy/prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	g := serve(t, site(t).URL)
	visitor(t).get(g.url + "/")
	check := exec.Command(tool, "check", "metrics")
	check.Stdin = bytes.NewReader(g.api("GET", "/metrics", nil))
	out, err := check.CombinedOutput()
	if bytes.Contains(out, []byte("no help text")) || bytes.Contains(out, []byte("error while linting")) { // it has more to say of style
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// TestCompose checks what the files of deploy/compose set in the gateways' environment, and the balancer's file.
func TestCompose(t *testing.T) {
	t.Parallel()
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	secret := writeFile(t, "secret", strings.Repeat("x", 32))
	for file, gateways := range map[string][]string{
		"compose.yaml": {"antirobot"}, "fleet.yaml": {"gateway-a", "gateway-b", "gateway-c"}, "roles.yaml": {"gateway-a", "gateway-b", "gateway-c", "processor-a", "processor-b"},
	} {
		doc := document(t, deployed(t, "compose/"+file))
		for _, name := range gateways {
			cmd := exec.Command(bin, "check-config")
			cmd.Dir = t.TempDir()
			variables := at(t, doc, "services", name, "environment").(map[string]any)
			for k, v := range variables {
				value := strings.NewReplacer("${MODE:-observe}", "observe", "/run/secrets/antirobot", secret).Replace(fmt.Sprint(v))
				cmd.Env = append(cmd.Env, k+"="+value)
			}
			out, err := cmd.CombinedOutput()
			if err != nil || strings.Contains(string(out), "belongs to no key") || strings.Count(string(out), " is set by ANTIROBOT_") != len(variables) {
				t.Errorf("%s of %s: %v\n%s", name, file, err, out)
			}
			if role, _, named := strings.Cut(name, "-"); file == "roles.yaml" && (!named || variables["ANTIROBOT_ROLE"] != role) {
				t.Errorf("%s of %s has the role %v", name, file, variables["ANTIROBOT_ROLE"])
			}
			if at(t, doc, "services", name, "read_only") != true {
				t.Errorf("%s of %s may write", name, file)
			}
		}
	}
	conf, err := filepath.Abs("../deploy/compose/haproxy.cfg")
	if err != nil {
		t.Fatal(err)
	}
	check := exec.Command(servertest.Need(t, "haproxy"), "-c", "-f", conf)
	check.Env = os.Environ()
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("haproxy.cfg: %v\n%s", err, out)
	}
}

// TestAlarms: a service that is away is told to a webhook, by the command, in the metrics and on the console's first page; a test
// arrives, and one that fails says so.
func TestAlarms(t *testing.T) {
	t.Parallel()
	told := make(chan string, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		told <- string(text)
		if strings.Contains(string(text), "this is a test") && r.URL.Path == "/strict" {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer hook.Close()
	g := start(t, "serve", "--config", configFile(t, `
alarms: {webhooks: [{url: %q}]}
services: [{name: shop, upstream: {urls: ["http://127.0.0.1:1"]}}]
`, hook.URL+"/strict"))
	for range 3 { // until the gateway leaves the address out
		visitor(t).get(g.url + "/")
	}
	if text := <-told; !strings.Contains(text, "service-away") || !strings.Contains(text, `"state":"on"`) || !strings.Contains(text, "shop 127.0.0.1:1 does not answer") {
		t.Errorf("the webhook was told %s", text)
	}
	at := []string{"--admin", g.admin, "--data-dir", g.dir}
	if code, out := command(t, append([]string{"alarms"}, at...)...); code != 0 || !strings.Contains(out, "shop 127.0.0.1:1 does not answer") || !strings.Contains(out, "webhook  127.0.0.1:") {
		t.Errorf("alarms: %d %s", code, out)
	}
	if n := g.metric(`antirobot_alarms{alarm="service-away"}`); n != 1 {
		t.Errorf("the metric is %v", n)
	}
	if code, out := command(t, append([]string{"alarms", "test"}, at...)...); code != 1 || !strings.Contains(out, "answers 403") || !strings.Contains(out, "1 of 1 webhook failed") {
		t.Errorf("alarms test: %d %s", code, out)
	}
	if text := <-told; !strings.Contains(text, "this is a test") {
		t.Errorf("the test was %s", text)
	}
	if line := g.logs.find(func(s string) bool { return strings.Contains(s, `"message":"hosts that the gateway calls"`) }); !strings.Contains(line, strings.TrimPrefix(hook.URL, "http://")) {
		t.Errorf("the webhook is not among the hosts that are called: %s", line)
	}
}

// logBuffer keeps what the process wrote, and wakes tests that wait for a line.
type logBuffer struct {
	mu   sync.Mutex
	cond *sync.Cond
	all  []string
	end  bool
}

func newLogBuffer() *logBuffer {
	l := new(logBuffer)
	l.cond = sync.NewCond(&l.mu)
	return l
}

func (l *logBuffer) follow(r io.Reader) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		l.mu.Lock()
		l.all = append(l.all, s.Text())
		l.cond.Broadcast()
		l.mu.Unlock()
	}
	l.mu.Lock()
	l.end = true
	l.cond.Broadcast()
	l.mu.Unlock()
}

// find waits until a line satisfies ok and returns it; "" after the time is over or the process has ended.
func (l *logBuffer) find(ok func(string) bool) string {
	timer := time.AfterFunc(patience, func() { l.mu.Lock(); l.cond.Broadcast(); l.mu.Unlock() })
	defer timer.Stop()
	deadline := time.Now().Add(patience)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := 0; ; {
		for ; i < len(l.all); i++ {
			if ok(l.all[i]) {
				return l.all[i]
			}
		}
		if l.end || !time.Now().Before(deadline) {
			return ""
		}
		l.cond.Wait()
	}
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}

// TestTraces sends a request of a trusted proxy that traces it, one that it does not trace, and one of a banned client: the service
// is told of the trace, and an OpenTelemetry receiver of the request, its decision and the service's answer.
func TestTraces(t *testing.T) {
	t.Parallel()
	heard := make(chan http.Header, 8)
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { heard <- r.Header }))
	t.Cleanup(upstream.Close)
	spans := make(chan *v1.Span, 64)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		data := new(v1.TracesData)
		if err != nil || proto.Unmarshal(body, data) != nil {
			t.Errorf("%v: %x", err, body)
		}
		for _, of := range data.GetResourceSpans() {
			for _, s := range of.GetScopeSpans()[0].GetSpans() {
				spans <- s
			}
		}
	}))
	t.Cleanup(receiver.Close)
	file := filepath.Join(t.TempDir(), "antirobot.yaml")
	text := fmt.Sprintf("log: {access: true}\nidentity: {trusted_proxies: [127.0.0.1]}\ntraces: {endpoint: %q, share: 0, page: 'http://traces.example/trace/{trace}'}\n", receiver.URL+"/v1/traces")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g := serve(t, upstream.URL, "--config", file)
	const trace, rest = "0af7651916cd43dd8448eb211c80319c", "vendor=a"
	ask := func(flags string, fields ...string) *response {
		fields = append(fields, "Traceparent", "00-"+trace+"-b7ad6b7169203331-"+flags, "Tracestate", rest)
		return visitor(t).get(g.url+"/traced", fields...)
	}
	ask("00").must(t, 200, "")
	if h := <-heard; h.Get("Traceparent") != "00-"+trace+"-b7ad6b7169203331-00" || h.Get("Tracestate") != rest {
		t.Errorf("what is not traced reaches the service as %v", h)
	}
	ask("01").must(t, 200, "")
	h := <-heard
	whole, decision, service := <-spans, <-spans, <-spans
	if got, want := h.Get("Traceparent"), fmt.Sprintf("00-%s-%x-01", trace, service.GetSpanId()); got != want || h.Get("Tracestate") != rest || len(h.Values("Traceparent")) != 1 {
		t.Errorf("the service is told %q, want %q", got, want)
	}
	if fmt.Sprintf("%x", whole.GetTraceId()) != trace || decision.GetName() != "decision" || service.GetName() != "service default" {
		t.Errorf("%v\n%v\n%v", whole, decision, service)
	}
	g.logs.find(func(s string) bool {
		return strings.Contains(s, `"trace_id":"`+trace+`"`) && strings.Contains(s, `"request"`)
	})

	g.ban("ip:203.0.113.5", "10m")
	ask("01", "X-Forwarded-For", "203.0.113.5").must(t, 302, "")
	whole, decision = <-spans, <-spans
	if s := fmt.Sprint(whole.GetAttributes(), decision.GetAttributes()); !strings.Contains(s, "robot") || !strings.Contains(s, "ban") {
		t.Errorf("of the banned client: %s", s)
	}
	eventually(t, "the journal finds the request by its trace", func() bool {
		out, err := g.command("tail", "trace:"+trace+" verdict:robot", "--follow=false")
		return err == nil && strings.Contains(out, " /traced ")
	})
	number := ""
	for _, a := range whole.GetAttributes() {
		if a.GetKey() == "antirobot.request_id" {
			number = a.GetValue().GetStringValue()
		}
	}
	if out, err := g.command("why", number); err != nil || !strings.Contains(out, "http://traces.example/trace/"+trace+"\n") {
		t.Errorf("why of the number that the span names: %v %s", err, out)
	}
	if out := g.api("GET", "/api/journal/"+number, nil); !strings.Contains(string(out), `"trace_page":"http://traces.example/trace/`+trace+`"`) {
		t.Errorf("the journal says of it %s", out)
	}
	eventually(t, "both are counted", func() bool { return g.metric("antirobot_traces_sent_total") == 2 })
}

// TestPitfall15NothingSecretOnDisk: of what visitors send, the data directory keeps addresses and paths, and neither queries, forms,
// cookies nor passwords. Files of its own have mode 0600, or lie where nobody else can look.
func TestPitfall15NothingSecretOnDisk(t *testing.T) {
	t.Parallel()
	g := start(t, "serve", "--captcha-test-answer", testAnswer, "--config", configFile(t, `
identity: {trusted_proxies: [127.0.0.1]}
journal: {humans: 1}
processor: {training: {sample: 1}}
services: [{name: site, upstream: {urls: [%q]}}]
`, site(t).URL))
	const addr = "203.0.113.1"
	secrets := []string{"queryqmnt", "cookieqmnt", "formqmnt", "basicqmnt", "refererqmnt", "fragmentqmnt", "wrongqmnt", "agentless-key-qmnt"}
	fields := []string{
		"Cookie", "session=cookieqmnt; spravka=cookieqmnt; i=cookieqmnt; fuid01=cookieqmnt", "Authorization", "Basic basicqmnt", "X-Api-Key", "agentless-key-qmnt",
		"Referer", "https://elsewhere.example/from?refererqmnt#fragmentqmnt",
	}
	v := from(t, addr)
	v.get(g.url+"/diskpath?q=queryqmnt", fields...).must(t, 200, "")
	g.ban("ip:"+addr, "10m")
	stopped := v.get(g.url+"/diskpath?q=queryqmnt", fields...).must(t, 302, "")
	page := v.do("POST", g.url+"/post?q=queryqmnt", "text=formqmnt", append(fields, "Content-Type", form)...).must(t, 200, `name="rep"`)
	answer := formOf(t, page.body)
	answer.Set("rep", "wrongqmnt")
	v.do("POST", g.url+"/checkcaptcha", answer.Encode(), append(fields, "Content-Type", form)...)
	v.get(stopped.Header.Get("Location"))
	g.earn(v, "/diskpath?q=queryqmnt")
	secrets = append(secrets, v.pass(t, g.url))
	v.get(g.url + "/diskpath?q=queryqmnt")
	g.kill(syscall.SIGTERM) // writes everything out

	query := []byte("q=queryqmnt")
	for _, known := range []uint64{request.Hash(query), new(request.HashKey).Sum(query)} {
		if log := g.logs.String(); !strings.Contains(log, "query_hash") || strings.Contains(log, fmt.Sprintf(`"query_hash":"%08x"`, uint32(known))) {
			t.Error("the log has no hash of the query, or one that anybody can make of what it may have been")
		}
	}
	seen := false
	err := filepath.WalkDir(g.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if d.IsDir() && name != g.dir && info.Mode().Perm() != 0o700 || filepath.Dir(name) == g.dir && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
		if d.IsDir() {
			return nil
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		seen = seen || strings.Contains(name, "journal") && bytes.Contains(b, []byte("/diskpath"))
		for _, s := range secrets {
			if bytes.Contains(b, []byte(s)) {
				t.Errorf("%s has %s", name, s)
			}
		}
		return nil
	})
	if err != nil || !seen {
		t.Errorf("the journal has no path, so this test sees nothing: %v", err)
	}
}

// TestErasedIsNowhere: one call erases what is remembered of a visitor (docs/privacy.md), the last decisions too.
func TestErasedIsNowhere(t *testing.T) {
	t.Parallel()
	g := start(t, "serve", "--config", configFile(t, `
identity: {trusted_proxies: [127.0.0.1]}
services: [{name: site, upstream: {urls: [%q]}}]
`, site(t).URL))
	const addr, other = "203.0.113.1", "203.0.113.2"
	known := func(id string) bool {
		status, _ := g.tryAPI("GET", "/api/decisions/"+id, nil)
		return status == 200
	}
	remembered := func(addr string) bool {
		return strings.Contains(string(g.api("GET", "/api/journal?subject=ip:"+addr, nil)), "/erasedpath")
	}
	ids := map[string]string{}
	for _, a := range []string{addr, other} {
		g.ban("ip:"+a, "10m")
		ids[a] = from(t, a).get(g.url+"/erasedpath").must(t, 302, "").Header.Get("X-Request-Id")
		if !known(ids[a]) {
			t.Fatal("the decision is not remembered: this test sees nothing")
		}
		eventually(t, "the journal has it", func() bool { return remembered(a) })
	}
	g.api("POST", "/api/labels", map[string]string{"subject": "ip:" + addr, "label": "robot"})

	g.api("DELETE", "/api/subjects/ip:"+addr, nil)
	if known(ids[addr]) || remembered(addr) {
		t.Errorf("known of who was erased: the decision %t, the journal %t", known(ids[addr]), remembered(addr))
	}
	if what := string(g.api("GET", "/api/subjects/ip:"+addr, nil)); strings.Contains(what, "session") || strings.Contains(what, "203.0.113.1\",\"until") {
		t.Errorf("still known: %s", what)
	}
	if all := string(g.api("GET", "/api/labels", nil)) + string(g.api("GET", "/api/bans", nil)); strings.Contains(all, addr) {
		t.Errorf("still labelled or banned: %s", all)
	}
	if !known(ids[other]) || !remembered(other) {
		t.Error("somebody else was erased, too")
	}
}

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
