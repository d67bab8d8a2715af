package requestrules

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/rules"
	"antirobot/rules/sources"
	"antirobot/store"
	"antirobot/verdict"
	"antirobot/verdict/counter"
)

// TestWhatServicesReadIsSeen: a field whose name has an underscore, which many services take for the one with a hyphen, and a cookie behind
// hundreds of others are seen by rules.
func TestWhatServicesReadIsSeen(t *testing.T) {
	w := newWorld(t)
	f := func(rule string, fields ...string) {
		t.Helper()
		s := w.service("do regexpCheck(" + rule + ") mark no if no stop as OK stop as NO")
		if r := w.judge(s, verdict.Human, "192.0.2.7", append([]string{"GET /"}, fields...)...); r.Decision != "NO" {
			t.Errorf("%s of %.40s: %s %s", rule, fields, r.Decision, r.Failed)
		}
	}
	f(`regexp=".*evil", attribute="header.x-key"`, "X_Key: evil")
	f(`regexp=".*evil", attribute="header.x-key"`, "X-Key: good", "x_keY: evil")
	f(`regexp=".*evil", attribute="header.x_key"`, "X-Key: evil")
	f(`regexp="admin$", attribute="cookie.role"`, "Cookie: "+strings.Repeat("a=;", 2000)+"role=admin")
	f(`regexp="admin$", attribute="cookie.role"`, "Cookie: "+strings.Repeat("a=;", 300), "Cookie: role=admin")
}

// TestAttributes asks for each attribute of a request.
func TestAttributes(t *testing.T) {
	w := newWorld(t)
	cases := []struct{ attribute, regexp string }{
		{"method", "POST$"},
		{"path", "/a/c$"},
		{"rawpath", `/a/b/%2e%2e//c$`},
		{"query", "x=1&y=2$"},
		{"host", `example\.com$`},
		{"ua", "curl/8$"},
		{"subject", `ip:192\.0\.2\.7$`},
		{"service", "shop$"},
		{"verdict", "robot$"},
		{"header.accept-language", "ru, en$"},
		{"header.X-One", "1$"},
		{"cookie.sid", "abc$"},
		{"cookie.quoted", "d$"},
	}
	for _, c := range cases {
		s := w.service(`do regexpCheck(regexp="` + c.regexp + `", attribute="` + c.attribute + `") mark no if no stop as NO stop as OK`)
		r := w.judge(s, verdict.Robot, "192.0.2.7", "POST /a/b/%2e%2e//c?x=1&y=2", "User-Agent: curl/8", "Accept-Language: ru",
			"X-One: 1", "accept-language: en", "Cookie: a=b; sid=abc", "Cookie: quoted=\"d\"")
		if r.Decision != "OK" {
			t.Errorf("%s: %s %s", c.attribute, r.Decision, r.Failed)
		}
	}
	v, id := newRequest("192.0.2.7", "GET /")
	v.JA4, v.Frames = []byte("t13d1516h2_8daaf6152771_e5627efa2ab1"), []byte("1:65536|00|0|m,a,s,p")
	var hello verdict.Ruling
	w.service(`do regexpCheck(regexp="t13d.*8daaf6152771", attribute="ja4") mark no
do regexpCheck(regexp=".*m,a,s,p$", attribute="h2") mark no
if no stop as NO
stop as OK`).Judge(&hello, v, id, shop, verdict.Human)
	if hello.Decision != "OK" {
		t.Errorf("ja4 and h2: %s %s", hello.Decision, hello.Failed)
	}
	for _, absent := range []string{"header.referer", "cookie.no", "text", "ua", "header.", "ja4", "h2"} {
		s := w.service(`do hasAttribute(attribute="` + absent + `") mark no if no stop as NO stop as OK`)
		if r := w.judge(s, verdict.Human, "192.0.2.7", "GET /"); r.Decision != "NO" {
			t.Errorf("%s: %s", absent, r.Decision)
		}
	}
	s := w.service(`do attributeCheck(attribute="ip", value="192.0.2.7") mark no if no stop as NO stop as OK`)
	if r := w.judge(s, verdict.Human, "192.0.2.7", "GET /"); r.Decision != "OK" {
		t.Errorf("ip: %s %s", r.Decision, r.Failed)
	}
}

// TestCounters adds, pairs and marks, reads the shares, and finds the same counters that the API names by text.
func TestCounters(t *testing.T) {
	w := newWorld(t)
	s := w.service(`do counterAdd(type=102, attribute="path")
do counterAddPair(type=300, attribute="subject", unique="ua", prefix="agents")
do counterMark(type=15, attribute="ip")
do counterCheck(type=102, attribute="path", limit=3, period="10m") mark busy
do counterCheck(type=300, attribute="ua", limit=1, prefix="agents") mark shared
do counterShareCheck(type=15, attribute="ip", minimum=3, share=0.9) mark bad score 1.5
if bad stop as BLOCK
if busy stop as FREQUENT
if shared stop as MARK
stop as OK`)
	ask := func(addr, path, want string) {
		t.Helper()
		if r := w.judge(s, verdict.Human, addr, "GET "+path, "User-Agent: one"); r.Decision != want {
			t.Errorf("%s %s: %s %s, want %s", addr, path, r.Decision, r.Failed, want)
		}
	}
	ask("192.0.2.1", "/a", "OK")
	ask("192.0.2.1", "/a?q", "OK") // the pair was seen, and the path has no query
	ask("192.0.2.2", "/a", "MARK") // a second subject with this agent
	ask("192.0.2.2", "/a", "FREQUENT")
	ask("192.0.2.2", "/b", "BLOCK")
	w.pass(15 * 24 * time.Hour)
	ask("192.0.2.2", "/a", "OK")

	sh, err := counter.Shingles(nil, []counter.Piece{{Type: 102, Text: "/b"}})
	if err != nil {
		t.Fatal(err)
	}
	w.pass(-15 * 24 * time.Hour)
	slot := store.TenMinutes.Number(w.now())
	q := store.Query{Counter: store.Counter{Prefix: "rules", Shingle: sh[0].Hash, Type: 102}, From: slot, To: slot}
	var n [1]uint64
	if err := w.shingler.Read(t.Context(), n[:], []store.Query{q}); err != nil || n[0] != 1 {
		t.Errorf("the counter of the API has %d, %v", n[0], err)
	}
}

// TestPeriods: a period is its whole ten minutes or days, and the one that has just begun.
func TestPeriods(t *testing.T) {
	w := newWorld(t)
	add := w.service(`do counterAdd(type=102, attribute="path")`)
	w.judge(add, verdict.Human, "192.0.2.1", "GET /a")
	f := func(after time.Duration, period string, want bool) {
		t.Helper()
		w.pass(after)
		s := w.service(`do counterCheck(type=102, attribute="path", limit=0, period="` + period + `") mark seen if seen stop as SEEN`)
		if r := w.judge(s, verdict.Human, "192.0.2.1", "GET /a"); r.Failed != "" || (r.Decision == "SEEN") != want {
			t.Errorf("%s after %v: %s %s", period, after, r.Decision, r.Failed)
		}
		w.pass(-after)
	}
	f(0, "10m", true)
	f(14*time.Minute, "10m", true) // 12:05 is in the ten minutes before 12:19
	f(15*time.Minute, "10m", false)
	f(24*time.Hour-16*time.Minute, "23h50m", true)
	f(30*time.Hour, "1d", true)
	f(48*time.Hour, "1d", false)
	f(13*24*time.Hour, "14d", true)
}

// TestLists asks lists for the address, the subject, and for entries of a service.
func TestLists(t *testing.T) {
	w := newWorld(t)
	s := w.service(`do listCheck(list="tor") mark tor do listCheck(list="ban", attribute="subject") mark ban
do listCheck(list="own", attribute="subject") mark own do listCheck(list="tor", attribute="ua") mark ua stop as OK`)
	v, id := newRequest("198.51.100.7", "GET /", "User-Agent: x")
	login, err := identity.ParseSubject("L:mallory")
	if err != nil {
		t.Fatal(err)
	}
	id.Subjects[1], id.Subjects[0], id.N = id.Subjects[0], login, 2
	var r verdict.Ruling
	s.Judge(&r, v, id, shop, verdict.Human)
	if got := strings.Join(r.AppendTags(nil), ","); r.Failed != "" || got != "tor,own" {
		t.Errorf("%s %s", got, r.Failed)
	}
}

// TestFrequencyPerService: a service counts alone, a second look counts nothing, and the storage in the store works.
func TestFrequencyPerService(t *testing.T) {
	for _, storage := range []string{"storage", "store"} {
		w := newWorld(t)
		text := `do userFrequencyCheck(attribute="subject", count=2, storage="` + storage + `") mark often if often stop as FREQUENT stop as OK`
		s := w.service(text)
		v, id := newRequest("192.0.2.1", "GET /")
		ask := func(vs *verdict.Settings, want string) {
			t.Helper()
			var r verdict.Ruling
			s.Judge(&r, v, id, vs, verdict.Human)
			if r.Decision != want {
				t.Errorf("%s: %s %s, want %s", storage, r.Decision, r.Failed, want)
			}
		}
		watch := &verdict.Settings{Name: "shop", Watch: true}
		ask(watch, "OK")
		ask(shop, "OK")
		for range 5 {
			ask(watch, "OK")
		}
		ask(shop, "OK")
		ask(shop, "FREQUENT")
		ask(watch, "FREQUENT")
		ask(&verdict.Settings{Name: "blog"}, "OK")
	}
}

// TestFailures: rules that fail answer as on_error says, and are counted.
func TestFailures(t *testing.T) {
	w := newWorld(t)
	f := func(text, onError string, want verdict.RuleAction) {
		t.Helper()
		s := w.service(text, func(c *ServiceConfig) { c.OnError = onError })
		if r := w.judge(s, verdict.Human, "192.0.2.1", "GET /"); r.Action != want || r.Failed == "" || r.Decision != "" {
			t.Errorf("%s: %v %q %q", text, r.Action, r.Failed, r.Decision)
		}
	}
	f(`do lengthCheck(minLength=1, attribute="ua")`, "block", verdict.RuleBlock)
	f(`do counterCheck(type=15, limit=1, attribute="method")`, "pass", verdict.RuleNone)
	f(`do userFrequencyCheck(attribute="ip", storage="no")`, "captcha", verdict.RuleRobot)

	slow := newWorld(t, func(d *Deps) { d.Counters = stuck{d.Counters} })
	s := slow.service(`do counterCheck(type=15, limit=1, attribute="ip")`, func(c *ServiceConfig) { c.OnError, c.Time = "captcha", 5*time.Millisecond })
	began := time.Now()
	if r := slow.judge(s, verdict.Human, "192.0.2.1", "GET /"); r.Action != verdict.RuleRobot || !strings.Contains(r.Failed, "deadline") {
		t.Errorf("%v %q", r.Action, r.Failed)
	}
	long := w.service(`do regexpCheck(attribute="ua", regexp="Mozilla")`, func(c *ServiceConfig) { c.MaxInput = 1000 })
	if r := w.judge(long, verdict.Human, "192.0.2.1", "GET /", "User-Agent: Mozilla"+strings.Repeat("a", 993)); r.Failed != "" {
		t.Errorf("as long as allowed: %s", r.Failed)
	}
	if r := w.judge(long, verdict.Human, "192.0.2.1", "GET /", "User-Agent: Mozilla"+strings.Repeat("a", 994)); r.Action != verdict.RuleRobot ||
		!strings.Contains(r.Failed, "the attribute ua has 1001 bytes") {
		t.Errorf("longer than allowed: %v %q", r.Action, r.Failed)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %v", took)
	}
	var b strings.Builder
	slow.set.WritePrometheus(&b)
	for _, want := range []string{`antirobot_rules_slow_total{service="shop",line="1",rule="counterCheck"} 1`, `antirobot_rules_failures_total{service="shop"} 1`, `antirobot_rules_total{service="shop",action="captcha"} 1`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
}

// TestStory names the line, the rules that were FALSE, and what each statement did.
func TestStory(t *testing.T) {
	w := newWorld(t)
	s := w.service("do hasAttribute(attribute=\"ua\") mark headless score 2\ndo ruleTrue() mark b\nif headless stop as SPAM")
	v, id := newRequest("192.0.2.1", "GET /")
	r := s.Trace(v, id, shop, verdict.Human)
	got := r.Story()
	if got.Action != "captcha" || got.Decision != "SPAM" || got.Line != 3 || got.Rule != "if headless stop as SPAM" || got.Score != 2 ||
		!slices.Equal(got.Tags, []string{"headless"}) || len(got.Fired) != 1 || got.Fired[0].Line != 1 {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(got.Trace, "line 1: do hasAttribute(attribute=\"ua\") mark headless score 2: FALSE, marked, score 2\n") {
		t.Error(got.Trace)
	}
}

// TestConfig: errors have a path, a line and a column, wherever the rules stand.
func TestConfig(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.rules")
	if err := os.WriteFile(file, []byte("stop as OK\ndo listChek(list=\"x\")"), 0o600); err != nil {
		t.Fatal(err)
	}
	names := &Names{Lists: []rules.List{{Name: "tor"}}, Formulas: &sources.Formulas{}}
	f := func(want string, edit func(*ServiceConfig)) {
		t.Helper()
		c := DefaultServiceConfig()
		edit(&c)
		err := c.Validate()
		if err == nil {
			err = c.Check(names)
		}
		if err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	f("", func(*ServiceConfig) {})
	f("text: line 2, column 9: there is no rule modelClasify; did you mean modelClassify?", func(c *ServiceConfig) { c.Text = "# a\nif a do modelClasify()" })
	f("text: line 1, column 4: modelClassify can't be used here: there are no models", func(c *ServiceConfig) { c.Text = "do modelClassify()" })
	f("text: line 1, column 19: there is no list torr; did you mean tor?", func(c *ServiceConfig) { c.Text = `do listCheck(list="torr")` })
	f("file: "+file+": line 2, column 4: there is no rule listChek; did you mean listCheck?", func(c *ServiceConfig) { c.File = file })
	f("file: give one of text and file", func(c *ServiceConfig) { c.File, c.Text = file, "stop as OK" })
	f(`otherwise: "captch" is none of pass, mark, captcha, queue, throttle, quarantine, block`, func(c *ServiceConfig) { c.Otherwise = "captch" })
	f(`answers[1].decision: "A" occurs twice`, func(c *ServiceConfig) {
		c.Answers = []verdict.AnswerConfig{{Decision: "A", Action: "pass"}, {Decision: "A", Action: "pass"}}
	})
	c := DefaultServiceConfig()
	c.File = filepath.Join(dir, "no")
	if err := c.Check(names); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	c.File, c.Text = "", "skip to 7"
	if w := c.Warnings(names); len(w) != 1 || !strings.Contains(w[0], "label 7") {
		t.Errorf("warnings %q", w)
	}
}

// TestNothingIsAllocated by rules that ask memory alone.
func TestNothingIsAllocated(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	w := newWorld(t)
	s := w.service(budgetRules)
	v, id := newRequest("192.0.2.1", "GET /a/./b", "User-Agent: Mozilla/5.0", "Accept-Language: en", "Cookie: a=b")
	var r verdict.Ruling
	if n := testing.AllocsPerRun(1000, func() { s.Judge(&r, v, id, shop, verdict.Human) }); n != 0 || r.Decision != "OK" {
		t.Errorf("%v allocations, %s %s", n, r.Decision, r.Failed)
	}
}

func BenchmarkJudge(b *testing.B) {
	w := newWorld(b)
	v, id := newRequest("192.0.2.1", "GET /a/./b", "User-Agent: Mozilla/5.0", "Accept-Language: en", "Cookie: a=b")
	for name, text := range map[string]string{
		"memory":   budgetRules,
		"counters": "do counterAdd(type=15, attribute=\"ip\") do counterCheck(type=15, attribute=\"ip\", limit=1000000000) mark a stop as OK",
	} {
		s := w.service(text)
		b.Run(name, func(b *testing.B) {
			var r verdict.Ruling
			b.ReportAllocs()
			for b.Loop() {
				s.Judge(&r, v, id, shop, verdict.Human)
			}
		})
	}
}
