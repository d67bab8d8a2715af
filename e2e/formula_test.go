package e2e

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
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
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"antirobot/servertest"
)

// card is a formula that bans after a number of pages.
func card(version string, pages int) string {
	return fmt.Sprintf("version: %s\nbias: -4\nfactors:\n  - {name: session_pages, why: many pages, bins: [{from: %d, weight: 8}]}\n", version, pages)
}

// banned requests pages until it is stopped, and returns after how many; 0 if it never was.
func banned(t *testing.T, g *gateway, addr string, most int) int {
	t.Helper()
	v := from(t, addr)
	v.Jar = nil
	for n := range most {
		if r := v.get(fmt.Sprintf("%s/page/%d", g.url, n)); r.StatusCode == 302 {
			return n
		}
		time.Sleep(5 * time.Millisecond)
	}
	return 0
}

// TestFormulaIsReloaded: a model is replaced while the gateway runs; one that does not fit changes nothing and is reported,
// and a candidate next to it only counts.
func TestFormulaIsReloaded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	live, shadow := filepath.Join(dir, "live.yaml"), filepath.Join(dir, "shadow.yaml")
	write(t, live, card("one", 8))
	write(t, shadow, card("candidate", 1000))
	g := configured(t, `
identity: {trusted_proxies: [127.0.0.1]}
formula: {model: %q, shadow: %q}
services: [{name: shop, upstream: {urls: [%q]}}]
`, live, shadow, site(t).URL)

	if n := banned(t, g, "203.0.113.1", 64); n < 8 {
		t.Fatalf("banned after %d pages", n)
	}
	var story struct {
		Bans []struct {
			Score   float64            `json:"score"`
			Model   string             `json:"model"`
			Factors map[string]float64 `json:"factors"`
		} `json:"items"`
	}
	if err := json.Unmarshal(g.api("GET", "/api/bans", nil), &story); err != nil || len(story.Bans) == 0 {
		t.Fatalf("%v, %+v", err, story)
	}
	if b := story.Bans[0]; !strings.HasPrefix(b.Model, "one-") || b.Score < 0.9 || b.Factors["session_pages"] < 8 {
		t.Errorf("the ban says %+v", b)
	}
	if n := g.metric(`antirobot_formula_shadow_total{would="free"}`); n < 1 {
		t.Errorf("the candidate would have freed nobody: %v", n)
	}
	if n := g.metric("antirobot_formula_shadow_difference_count"); n < 1 {
		t.Errorf("no difference was measured: %v", n)
	}

	// A model that does not fit is refused, with the line, and the one in use stays.
	write(t, live, strings.Replace(card("two", 8), "session_pages", "session_page", 1))
	status, body := g.tryAPI("POST", "/api/reload", nil)
	if status != 422 || !strings.Contains(string(body), "formula.model") || !strings.Contains(string(body), `did you mean \"session_pages\"?`) || !strings.Contains(string(body), "line 4") {
		t.Errorf("a bad model: %d %s", status, body)
	}
	_ = g.cmd.Process.Signal(syscall.SIGHUP)
	if g.logs.find(func(s string) bool {
		return strings.Contains(s, "reload refused") && strings.Contains(s, "session_page")
	}) == "" {
		t.Errorf("the log says nothing of it:\n%s", tail(g.logs.String(), 2000))
	}
	if n := g.metric(`antirobot_formula_info{role="live",version="one-`); n != 1 {
		t.Errorf("the model in use: %v", n)
	}
	if n := banned(t, g, "203.0.113.2", 64); n < 8 {
		t.Errorf("after a refused reload banned after %d pages", n)
	}

	write(t, live, card("three", 1000))
	g.api("POST", "/api/reload", nil)
	if n := banned(t, g, "203.0.113.3", 40); n != 0 {
		t.Errorf("by the new model banned after %d pages", n)
	}
	if one, three := g.metric(`role="live",version="one-`), g.metric(`role="live",version="three-`); one != 0 || three != 1 {
		t.Errorf("models in use: one %v, three %v", one, three)
	}
	if code, out := command(t, "check-config", configFile(t, "formula: {model: %q}\nservices: [{name: a, upstream: {urls: [\"http://127.0.0.1:1\"]}}]\n", filepath.Join(dir, "absent.json"))); code == 0 || !strings.Contains(out, "formula.model") {
		t.Errorf("check-config of an absent model: %d %s", code, out)
	}
}

// TestEventsExport: visitors' actions are exported as factors with labels, from the running gateway and from its directory,
// without a trace of who they were; and a model can be trained with them.
func TestEventsExport(t *testing.T) {
	t.Parallel()
	ranges := listFile(t, `{"prefixes":[{"ipv4Prefix":"192.0.2.0/24"}]}`)
	g := configured(t, `
identity: {trusted_proxies: [127.0.0.1]}
processor: {training: {sample: 1}}
lists:
  ban: ["198.51.100.128/25 known"]
  crawlers: {own: [{name: findbot, user_agent: [findbot/], range_files: [%q]}]}
services: [{name: shop, verdict: {mode: observe}, upstream: {urls: [%q]}}]
`, ranges, site(t).URL)
	for n := range 12 {
		crawler, listed, person := from(t, fmt.Sprintf("192.0.2.%d", n)), from(t, fmt.Sprintf("198.51.100.%d", 130+n)), from(t, fmt.Sprintf("203.0.113.%d", n))
		for k := range 5 {
			crawler.get(fmt.Sprintf("%s/c/%d", g.url, k), "User-Agent", "FindBot/2.1")
			listed.get(fmt.Sprintf("%s/l/%d", g.url, k), "User-Agent", "curl/8.1")
			person.get(fmt.Sprintf("%s/p/%d", g.url, k))
		}
	}
	file := filepath.Join(t.TempDir(), "labelled.csv")
	counts := func(what string, args ...string) map[string]int {
		t.Helper()
		if code, out := command(t, append([]string{"events", "export", "--out", file}, args...)...); code != 0 {
			t.Fatalf("%s: %d %s", what, code, out)
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		rows, err := csv.NewReader(f).ReadAll()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		n := map[string]int{}
		for _, r := range rows[1:] {
			n[r[0]+" "+r[1]]++
		}
		return n
	}
	eventually(t, "factors", func() bool { return g.metric("antirobot_training_vectors_total") >= 70 })
	want := func(what string, got map[string]int, unlabelled bool) {
		t.Helper()
		if got["1 crawler"] < 24 || got["1 list"] < 24 || (got[" "] >= 24) != unlabelled {
			t.Errorf("%s: %v", what, got)
		}
	}
	running := []string{"--running", "--admin", g.admin, "--data-dir", g.dir}
	want("of the running gateway", counts("running", running...), false)
	want("all of it", counts("running", append(running, "--unlabelled")...), true)
	g.kill(syscall.SIGTERM)
	want("of the directory", counts("stopped", "--data-dir", g.dir), false)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"192.0.2.", "198.51.100.", "findbot", "curl"} {
		if strings.Contains(strings.ToLower(string(text)), secret) {
			t.Errorf("%q is in the export", secret)
		}
	}
	eight := filepath.Join(t.TempDir(), "card.yaml")
	write(t, eight, card("eight", 8))
	if code, out := command(t, "formula", "eval", "--model", eight, "--data", file); code == 0 || !strings.Contains(out, "both are needed") {
		t.Errorf("eval with robots alone: %d %s", code, out)
	}

	// Let those without label be people, for the training's sake.
	counts("stopped", "--data-dir", g.dir, "--unlabelled")
	text, err = os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, strings.ReplaceAll(string(text), "\n,,ip,", "\n0,told,ip,"))
	model := filepath.Join(t.TempDir(), "model.json")
	python := servertest.Python(t, "xgboost")
	if out, err := exec.Command(python, "../tools/train.py", "--data", file, "--out", model, "--trees", "10").CombinedOutput(); err != nil {
		t.Fatalf("train: %v\n%s", err, out)
	}
	code, out := command(t, "formula", "eval", "--model", model, "--data", file)
	if code != 0 || !strings.Contains(out, "ROC AUC 1.0000") || !strings.Contains(out, "Suggested threshold") {
		t.Errorf("eval: %d %s", code, out)
	}
	served := configured(t, "formula: {model: %q}\nservices: [{name: shop, upstream: {urls: [%q]}}]\n", model, site(t).URL)
	if served.metric(`antirobot_formula_info{role="live",version="xgboost-`) != 1 {
		t.Error("the trained model is not in use")
	}
}

// TestRulesBanADriver: a browser without a window that goes from page to page is stopped after a few requests, and the operator is told how it
// was recognised; a browser at the same pace is not stopped.
func TestRulesBanADriver(t *testing.T) {
	t.Parallel()
	g := configured(t, `
identity: {trusted_proxies: [127.0.0.1]}
services: [{name: shop, upstream: {urls: [%q]}}]
`, site(t).URL)
	const tool, person = "198.51.100.20", "198.51.100.30"
	v, b := from(t, tool), from(t, person)
	v.Jar = nil
	v.header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/140.0.0.0 Safari/537.36")
	b.header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0")
	b.header.Set("Accept", "text/html,application/xhtml+xml")
	b.header.Set("Accept-Language", "en")
	stopped := 0
	for i := range 30 {
		if b.get(fmt.Sprintf("%s/page/%d", g.url, i)).StatusCode != 200 {
			t.Fatalf("the person is stopped with page %d", i)
		}
		if r := v.get(fmt.Sprintf("%s/page/%d", g.url, i)); stopped == 0 && r.StatusCode != 200 {
			stopped = i
		}
		time.Sleep(100 * time.Millisecond)
	}
	if stopped < 2 || stopped > 16 {
		t.Fatalf("stopped with request %d", stopped+1)
	}
	var a struct {
		Bans []struct {
			Reason string
			Score  float64
			Model  string
		}
		Session session
	}
	if err := json.Unmarshal(g.api("GET", "/api/subjects/ip:"+tool, nil), &a); err != nil {
		t.Fatal(err)
	}
	if len(a.Bans) != 1 || a.Bans[0].Reason != "proof: headless" || a.Bans[0].Score != 1 || a.Bans[0].Model != "" {
		t.Errorf("bans: %+v", a.Bans)
	}
	if a.Session.Pages < 20 || a.Session.Claims != "headless" || len(a.Session.Factors) < 40 {
		t.Errorf("session: %d pages of a %s, %d factors", a.Session.Pages, a.Session.Claims, len(a.Session.Factors))
	}
}

// tenCommands are the commands of docs/detection.md that lead from nothing to a trained shadow.
func tenCommands(t *testing.T) []string {
	t.Helper()
	doc, err := os.ReadFile("../docs/detection.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)### From nothing to a shadow.*?```sh\n(.*?)```").FindSubmatch(doc)
	if m == nil {
		t.Fatal("docs/detection.md has no commands")
	}
	lines := strings.Split(strings.TrimSpace(string(m[1])), "\n")
	if len(lines) != 10 {
		t.Fatalf("%d commands", len(lines))
	}
	return lines
}

// customersSite is a shop that knows its customers, by the cookie that they are given.
func customersSite(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/account" {
			w.Header().Set("X-Antirobot-Label", "customer")
		}
		fmt.Fprintf(w, "<p>%s", r.URL.Path)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestTenCommands: an operator goes from nothing to a shadow as docs/detection.md says, with labels of every origin.
func TestTenCommands(t *testing.T) {
	t.Parallel()
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	tools, err := filepath.Abs("../tools/train.py")
	if err != nil {
		t.Fatal(err)
	}
	python := servertest.Python(t, "xgboost")
	commands, dir := tenCommands(t), t.TempDir()
	var g *gateway
	run := func(line string) string {
		t.Helper()
		line = strings.NewReplacer("http://127.0.0.1:3000", customersSite(t), "tools/train.py", python+" "+tools).Replace(line)
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(bin)+":"+os.Getenv("PATH"))
		if g != nil {
			cmd.Args[2] = strings.ReplaceAll(line, "http://127.0.0.1:8079", g.admin)
			cmd.Env = append(cmd.Env, "ANTIROBOT_ADMIN_LISTEN="+strings.TrimPrefix(g.admin, "http://"), "ANTIROBOT_DATA_DIR="+g.dir, "no_proxy=*")
		}
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out.String())
		}
		return out.String()
	}
	run(commands[0])
	file := filepath.Join(dir, "antirobot.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// Strangers have addresses of their own here, and a customer's cookie counts at once.
	write(t, file, "identity: {trusted_proxies: [127.0.0.1]}\ndefaults: {cookies: {i_min_age: 0s}}\n"+string(text))
	run(commands[1])
	if commands[2] != "antirobot serve --config antirobot.yaml &" {
		t.Fatal(commands[2])
	}
	g = start(t, "serve", "--config", file)
	people := trainingVisitors(t, g)
	write(t, filepath.Join(dir, "customers.csv"), "subject,label\nip:203.0.113.99,human\n")
	eventually(t, "labels of the service", func() bool { // a cookie of this second is too young
		for _, p := range people {
			p.get(g.url + "/account")
		}
		return strings.Count(run("antirobot label list"), "customer") == len(people)
	})
	run(commands[3])
	if list := run("antirobot label list"); !strings.Contains(list, "ip:198.51.100.7") || !strings.Contains(list, "copies prices") {
		t.Errorf("the labels: %s", list)
	}
	eventually(t, "labelled rows", func() bool { // the log is written every few seconds
		for _, p := range people {
			p.get(g.url + "/account")
		}
		run(commands[4])
		rows, err := os.ReadFile(filepath.Join(dir, "labelled.csv"))
		return err == nil && strings.Count(string(rows), ",honeypot,") >= 8 && strings.Count(string(rows), ",customer,") >= len(people) && strings.Contains(string(rows), ",own,")
	})
	if out := run(commands[5]); !strings.Contains(out, "ROC AUC") || !strings.Contains(out, "average precision") {
		t.Errorf("train: %s", out)
	}
	if out := run(commands[6]); !strings.Contains(out, "honeypot") || !strings.Contains(out, "own") {
		t.Errorf("eval: %s", out)
	}
	if out := run("antirobot learn show"); !strings.Contains(out, "not yet") {
		t.Errorf("learn show: %s", out)
	}
	run(commands[7])
	_ = g.cmd.Process.Signal(syscall.SIGHUP)
	eventually(t, "the shadow", func() bool {
		return strings.Contains(run(commands[9]), `antirobot_formula_info{role="shadow",version="xgboost-`)
	})
	if out := run("antirobot label remove ip:198.51.100.7"); !strings.Contains(out, "has no label any more") {
		t.Errorf("remove: %s", out)
	}
}

// trainingVisitors sends people whom the service knows, robots that run into a honeypot, and a person without cookies;
// it returns the people whom the service knows.
func trainingVisitors(t *testing.T, g *gateway) (people []*client) {
	t.Helper()
	const each = 8
	for n := range each {
		robot, person := from(t, fmt.Sprintf("198.51.100.%d", n)), from(t, fmt.Sprintf("203.0.113.%d", n))
		for k := range 4 {
			robot.get(fmt.Sprintf("%s/item/%d?page=%d", g.url, k, k), "User-Agent", "curl/8.1")
			if r := person.get(fmt.Sprintf("%s/p/%d", g.url, k%2)); r.StatusCode != 200 {
				t.Fatalf("%d in mode observe", r.StatusCode)
			}
		}
		robot.get(g.url+"/trap/prices", "User-Agent", "curl/8.1").must(t, 200, "/trap/prices")
		if r := person.get(g.url + "/account"); r.Header.Get("X-Antirobot-Label") != "" {
			t.Error("a visitor sees what the service says of it")
		}
		people = append(people, person)
	}
	for k := range 4 {
		v := from(t, "203.0.113.99")
		v.get(fmt.Sprintf("%s/p/%d", g.url, k%2))
	}
	eventually(t, "factors", func() bool { return g.metric("antirobot_training_vectors_total") >= 4*each })
	return people
}

// configured runs the gateway with a configuration file of the given text. Challenges ask for testAnswer.
func configured(t *testing.T, format string, args ...any) *gateway {
	t.Helper()
	return start(t, "serve", "--config", configFile(t, format, args...), "--captcha-test-answer", testAnswer)
}

func configFile(t *testing.T, format string, args ...any) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "antirobot.yaml")
	write(t, file, fmt.Sprintf(format, args...))
	return file
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// wire sends text unchanged over its own connection, and returns the answer with its body read.
func (g *gateway) wire(text string) *response {
	g.t.Helper()
	if head, rest, ok := strings.Cut(text, "\r\n"); ok && !strings.Contains(text, "User-Agent:") { // a browser's, unless it says what it is
		text = head + "\r\n" + browserLines + rest
	}
	r, err := http.ReadResponse(g.dial(text), &http.Request{Method: strings.Fields(text)[0], URL: &url.URL{Path: "/(raw)"}})
	if err != nil {
		g.t.Fatalf("%q: %v", text, err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		g.t.Fatalf("%q: %v", text, err)
	}
	return &response{r, string(b)}
}

// dial opens a connection that is closed at the end of the test, writes text, and returns a reader of what comes back.
func (g *gateway) dial(text string) *bufio.Reader {
	g.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, text); err != nil {
		g.t.Fatal(err)
	}
	return bufio.NewReader(c)
}

// from makes a visitor whose address a trusted balancer announces.
func from(t *testing.T, addr string) *client {
	v := visitor(t)
	v.header.Set("X-Forwarded-For", addr)
	return v
}

// speaks makes c a browser of another language than the other visitors. For a minute after an answer the gateway takes who
// brings no cookies, and is alike in all else, for the one that answered.
func (c *client) speaks(lang string) *client {
	c.header.Set("Accept-Language", lang)
	return c
}

// mirror is a service that answers each request with its head as JSON, so that a test sees exactly what a service sees.
func mirror(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		r.Header.Set("Host", r.Host)
		_ = json.NewEncoder(w).Encode(map[string]any{"header": r.Header, "uri": r.RequestURI})
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func (r *response) mirrored(t *testing.T) (header http.Header, uri string) {
	t.Helper()
	var m struct {
		Header http.Header
		URI    string
	}
	if err := json.Unmarshal([]byte(r.body), &m); err != nil || r.StatusCode != 200 {
		t.Fatalf("not served: %d %v\n%s", r.StatusCode, err, r.body)
	}
	return m.Header, m.URI
}

// story is the part of a decision in the API that the tests read.
type story struct {
	Verdict, Cause, Mode, Service, Subject, Path, Excused string
	Rule, Required                                        string
	Rules, Message                                        storyRules
	Considered                                            []string
	Refused                                               []struct{ Kind, Reason string }
	Entry                                                 struct{ List, Text, Reason string }
	Ban                                                   struct{ Subject, Source, Reason, Service string }
	Pass                                                  *struct {
		ID         string
		Cost, Left int
	}
}

// storyRules is the part about rules in a decision that the tests read.
type storyRules struct {
	Opinions []string

	Route, Action, Decision, Rule, Error, Trace string
	Line                                        int
	Score                                       float64
	Tags                                        []string
	Fired                                       []struct {
		Line int
		Rule string
	}
}

// why asks for the decision about a request.
func (g *gateway) why(r *response) (s story) {
	g.t.Helper()
	return g.whyID(r.Header.Get("X-Request-Id"))
}

func (g *gateway) whyID(id string) (s story) {
	g.t.Helper()
	if err := json.Unmarshal(g.api("GET", "/api/decisions/"+id, nil), &s); err != nil {
		g.t.Fatal(err)
	}
	return s
}

func (g *gateway) list(which, entry, ttl string) {
	g.t.Helper()
	g.api("POST", "/api/lists/"+which, map[string]string{"entry": entry, "ttl": ttl, "reason": "test"})
}

// earn gives v a pass: v is banned until it has solved a captcha, and banned again afterwards.
func (g *gateway) earn(v *client, path string) {
	g.t.Helper()
	if r := g.solve(v, path); r.StatusCode != http.StatusSeeOther {
		g.t.Fatalf("solve: %d %s", r.StatusCode, r.body)
	}
}

// setsCookie reports whether the answer sets or clears the cookie.
func (r *response) setsCookie(name string) bool {
	return slices.ContainsFunc(r.Header.Values("Set-Cookie"), func(c string) bool { return strings.HasPrefix(c, name+"=") })
}

// TestBusyService: a service whose connections are all in use is not down: visitors get 503, and when to try again, in
// what they can read.
func TestBusyService(t *testing.T) {
	t.Parallel()
	hold, held := make(chan struct{}), make(chan struct{}, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		held <- struct{}{}
		<-hold
		fmt.Fprint(w, "at last")
	}))
	t.Cleanup(s.Close)
	g := configured(t, "defaults:\n  upstream: {urls: [%q], max_conns: 1, max_wait: 50ms}\n", s.URL)
	first := make(chan *response, 1)
	slow := visitor(t)
	go func() { first <- slow.get(g.url + "/slow") }()
	<-held
	for _, accept := range []string{"text/html", "application/json"} {
		r := visitor(t).get(g.url+"/", "Accept", accept)
		if r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") != "2" {
			t.Errorf("%s: %d, Retry-After %q", accept, r.StatusCode, r.Header.Get("Retry-After"))
		}
		if want := map[string]string{"text/html": "busy", "application/json": `{"type":"unavailable","request-id":"`}[accept]; !strings.Contains(r.body, want) || r.Header.Get("X-Antirobot-Verdict") != "" {
			t.Errorf("%s: %v\n%s", accept, r.Header, tail(r.body, 500))
		}
	}
	close(hold)
	(<-first).must(t, 200, "at last")
}

// obeyed returns the first character of a text that a terminal, or a program that reads lines, would not merely show.
func obeyed(text string) string {
	for _, c := range text {
		if c < ' ' && c != '\n' && c != '\t' || 0x7f <= c && c < 0xa0 || 0x2028 <= c && c <= 0x202e {
			return fmt.Sprintf("%U", c)
		}
	}
	return ""
}

// TestWhatStrangersWriteIsOnlyShown: characters by which a visitor could change a terminal's colours, title or direction, begin a line of
// the log, or a formula in a spreadsheet, reach the log, the commands, the API and the export as text.
func TestWhatStrangersWriteIsOnlyShown(t *testing.T) {
	t.Parallel()
	g := start(t, "serve", "--upstream", site(t).URL)
	g.ban("ip:127.0.0.1", "1h")
	const odd = "\u009b31m\u009d0;title\u009c\u0085\u2028\u202e"
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = fmt.Fprintf(conn, "GET /%s<script>;=cmd HTTP/1.1\r\nHost: a.example\r\nUser-Agent: %s\"\\<b>; =cmd|'/c calc'!A1;=cmd\r\nReferer: http://a.example/%s\r\n\r\n", odd, odd, odd)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	id := answer.Header.Get("X-Request-Id")
	if answer.StatusCode != http.StatusForbidden || id == "" {
		t.Fatalf("%d, number %q", answer.StatusCode, id)
	}
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	shown := func(args ...string) string {
		out, err := exec.Command(bin, append(args, "--admin", strings.TrimPrefix(g.admin, "http://"), "--data-dir", g.dir)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	eventually(t, "the journal has the request", func() bool { return strings.Contains(shown("tail", "--follow=false"), id) })
	for what, text := range map[string]string{
		"the log":  g.logs.find(func(line string) bool { return strings.Contains(line, id) && strings.Contains(line, "decision") }),
		"the line": g.logs.find(func(line string) bool { return strings.Contains(line, id) && strings.Contains(line, `"access"`) }),
		"tail":     shown("tail", "--follow=false"), "why": shown("why", id), "why --json": shown("why", id, "--json"),
		"top": shown("top", "--by", "agent"), "paths": shown("top", "--by", "path"), "API": string(g.api("GET", "/api/journal?limit=5", nil)),
	} {
		if c := obeyed(text); c != "" || !utf8.ValidString(text) {
			t.Errorf("%s has %s: %q", what, c, text)
		}
		if !strings.Contains(text, `\u009b31m`) {
			t.Errorf("%s does not show what was sent: %q", what, text)
		}
	}
	var line struct{ Path, Referer string }
	if err := json.Unmarshal([]byte(g.logs.find(func(s string) bool { return strings.Contains(s, id) })), &line); err != nil ||
		!strings.HasPrefix(line.Path, "/"+odd) || line.Referer != "http://a.example/"+odd {
		t.Errorf("the log's line says %q, %v", line, err)
	}
	console := visitor(t)
	console.do("POST", g.admin+"/console/signin", "secret="+g.token, "Content-Type", "application/x-www-form-urlencoded").must(t, http.StatusSeeOther, "")
	rows, err := csv.NewReader(strings.NewReader(console.get(g.admin+"/console/requests.csv").must(t, http.StatusOK, id).body)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		for _, cell := range row {
			for _, begin := range strings.Split(cell, ";") { // as spreadsheets do in many countries
				if begin = strings.TrimLeft(begin, ` "`); begin != "" && strings.ContainsAny(begin[:1], "=+-@") {
					t.Errorf("a cell begins with a formula: %q", cell)
				}
			}
		}
	}
	console.get(g.admin+"/console/requests").must(t, http.StatusOK, "&lt;script&gt;")
}
