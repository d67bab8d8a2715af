package demo

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"antirobot/servertest"
)

func TestPretendVisitorPlaysEveryRole(t *testing.T) {
	f, s := newFront(t, nil)
	p := &player{t: t, site: s, ip: "198.51.100.77"}
	w := p.do("GET", "/play", nil)
	checkHTML(t, "play", w.Body.String())
	if n := strings.Count(w.Body.String(), `class="outcome human"`); n != 6 {
		t.Fatalf("a human passes %d of 6", n)
	}
	for _, want := range []string{"image/png", "&lt;yandexsearch", "204", "key=demo"} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %q among the answers", want)
		}
	}
	for _, c := range []struct {
		role, keeps    string
		captcha, block int
	}{
		{"listed", "ban 203.0.113.1", 5, 0},
		{"banned", "subject ip:203.0.113.1", 5, 0},
		{"blocked", "block 203.0.113.1", 0, 6},
		{"white", "white 203.0.113.1", 0, 0},
		{"human", "", 0, 0},
	} {
		if to := p.turn("pretend", c.role); to != "/play#answers" {
			t.Fatalf("%s: sent to %s", c.role, to)
		}
		kept := f.kept()
		if c.keeps == "" && len(kept) != 0 || c.keeps != "" && (len(kept) != 1 || kept[c.keeps] != "2m") {
			t.Errorf("%s: kept %v", c.role, kept)
		}
		body := p.do("GET", "/play", nil).Body.String()
		checkHTML(t, c.role, body)
		if got := strings.Count(body, `class="outcome captcha"`); got != c.captcha {
			t.Errorf("%s: %d captchas", c.role, got)
		}
		if got := strings.Count(body, `class="outcome blocked"`); got != c.block {
			t.Errorf("%s: %d blocked", c.role, got)
		}
		if strings.Contains(body, "<script>alert") || strings.Contains(body, "<b>because") || strings.Contains(body, "0123456789abcdef") {
			t.Errorf("%s: the page holds an answer unescaped, or a whole pass", c.role)
		}
		if strings.Contains(body, adminToken) {
			t.Fatal("the page holds the token of the admin API")
		}
		if !strings.Contains(body, "robot: ban (&lt;b&gt;because") {
			t.Errorf("%s: no reason shown", c.role)
		}
	}
	if book := p.do("GET", "/guestbook", nil).Body.String(); strings.Contains(book, "Pretend visitor") {
		t.Error("playing fills the guest book")
	}
	for _, r := range f.asked {
		if got := r.Header.Get("X-Forwarded-For"); got != "203.0.113.1" {
			t.Errorf("asked on behalf of %q", got)
		}
		if r.Header.Get("Authorization") != "" {
			t.Error("the token went to the public side")
		}
	}
}

func TestTurnMe(t *testing.T) {
	f, s := newFront(t, func() time.Time { return time.Unix(1.7e9, 0) })
	p := &player{t: t, site: s, ip: "192.168.7.7"}
	f.keeps["block 192.168.7.7"] = "operator's own"
	p.turn("me", "banned")
	if f.kept()["subject ip:192.168.7.7"] != "2m" {
		t.Errorf("kept %v", f.kept())
	}
	if body := p.do("GET", "/play", nil).Body.String(); !strings.Contains(body, "<code>ip:192.168.7.7</code>") || !strings.Contains(body, "120 seconds") {
		t.Error("the page does not say what I am, and for how long")
	}
	p.turn("me", "white")
	if k := f.kept(); k["white 192.168.7.7"] != "2m" || k["subject ip:192.168.7.7"] != "" {
		t.Errorf("kept %v", k)
	}
	p.turn("me", "human")
	if k := f.kept(); len(k) != 1 {
		t.Errorf("only what the visitor did is taken back, and all of it: %v", k)
	}
	p.turn("me", "human") // nothing to undo
	if k := f.kept(); len(k) != 1 {
		t.Errorf("kept %v", k)
	}
	// What the gateway has concluded is shown, whoever did it, and taken back where playing led to it.
	f.keeps["subject ip:192.168.7.7"] = "judged"
	if body := p.do("GET", "/play", nil).Body.String(); !strings.Contains(body, "<code>ip:192.168.7.7</code>") {
		t.Error("the page does not show what the gateway has")
	}
	f.keeps["white 203.0.113.1"], f.why["white 203.0.113.1"] = "2m", playReason
	p.turn("all", "")
	if k := f.kept(); len(k) != 1 || k["block 192.168.7.7"] == "" {
		t.Errorf("everything but the operator's is taken back: %v", k)
	}
	if body := p.do("GET", "/play", nil).Body.String(); !strings.Contains(body, "<code>203.0.113.2</code>") {
		t.Error("the pretend visitor is still the one that the gateway remembers")
	}
}

// TestPretendVisitorScrapes: the pretend visitor loads pages by itself, once at a time, and the page's script learns what the
// gateway thinks of it.
func TestPretendVisitorScrapes(t *testing.T) {
	f, s := newFront(t, nil)
	life, end := context.WithCancel(t.Context())
	defer end()
	s.life = life
	p := &player{t: t, site: s, ip: "198.51.100.77"}
	p.do("GET", "/play", nil)
	if to := p.turn("run", ""); to != "/play#score" {
		t.Fatalf("sent to %s", to)
	}
	if to := p.turn("run", ""); !strings.Contains(to, "busy") {
		t.Errorf("a second run at once: sent to %s", to)
	}
	var told struct {
		Running, Judged bool
		Pages           int
		Score           float64
	}
	if err := json.Unmarshal(p.do("GET", "/play/score", nil).Body.Bytes(), &told); err != nil || !told.Running || !told.Judged || told.Pages != 31 || told.Score != 0.75 {
		t.Errorf("%v %+v", err, told)
	}
	servertest.Eventually(t, "something is scraped", func() bool { return f.scraped() >= 2 })
	end()
	s.running.Wait()
}

// scraped is how many requests a scraper made.
func (f *front) scraped() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.asked {
		if strings.HasPrefix(r.URL.Path, "/shop/") && r.Header.Get("X-Forwarded-For") == "203.0.113.1" {
			n++
		}
	}
	return n
}

func TestTurnMyCookie(t *testing.T) {
	f, s := newFront(t, nil)
	p := &player{t: t, site: s, ip: "192.168.7.7"}
	w := p.do("POST", "/play", url.Values{"who": {"cookie"}})
	var signed *http.Cookie
	for _, c := range w.Result().Cookies() {
		if c.Name == "demo" {
			signed = c
		}
	}
	if signed == nil || !signed.HttpOnly || !strings.HasPrefix(signed.Value, "player-") {
		t.Fatalf("cookies %v", w.Result().Cookies())
	}
	name, _, _ := strings.Cut(signed.Value, ".")
	p.do("POST", "/play", url.Values{"who": {"me"}, "role": {"banned"}, "subject": {"cookie"}})
	if k := f.kept(); len(k) != 1 || k["subject service:demo="+name] != "2m" {
		t.Errorf("kept %v", k)
	}
	p.do("POST", "/play", url.Values{"who": {"me"}, "role": {"listed"}, "subject": {"cookie"}})
	if k := f.kept(); len(k) != 1 || k["ban service:demo="+name] != "2m" {
		t.Errorf("kept %v", k)
	}
	checkHTML(t, "with cookie", p.do("GET", "/play", nil).Body.String())
}

func TestPlayRefusesAndExplains(t *testing.T) {
	f, s := newFront(t, nil)
	p := &player{t: t, site: s}
	g := func(form url.Values, want string) {
		t.Helper()
		if got := p.do("POST", "/play", form).Header().Get("Location"); got != want {
			t.Errorf("%v: sent to %s", form, got)
		}
	}
	g(url.Values{"who": {"me"}, "role": {"banned"}}, "/play?problem=address#problem")
	g(url.Values{"who": {"pretend"}, "role": {"king"}}, "/play?problem=form#problem")
	g(url.Values{"who": {"x"}}, "/play?problem=form#problem")
	f.bad = 1
	g(url.Values{"who": {"pretend"}, "role": {"banned"}}, "/play?problem=admin#problem")
	if len(f.kept()) != 0 {
		t.Errorf("kept %v", f.kept())
	}
	for _, ip := range []string{"x", "1.2.3.4, 5.6.7.8", "fe80::1%eth0", "1.2.3.4/8"} {
		p.ip = ip
		g(url.Values{"who": {"me"}, "role": {"banned"}}, "/play?problem=address#problem")
	}
	p.ip = "192.168.7.7"
	if w := p.do("POST", "/play", url.Values{"who": {"me"}, "role": {"banned"}}, "Sec-Fetch-Site", "cross-site"); w.Code != 403 || len(f.kept()) != 0 {
		t.Errorf("a foreign page bans its visitor: %d", w.Code)
	}
	if body := get(t, newSite(Options{}), "/play").Body.String(); !strings.Contains(body, "started without a gateway") {
		t.Error("without a gateway nothing is explained")
	}
	gone := newSite(Options{GatewayURL: func() string { return "http://127.0.0.1:1" }})
	body := get(t, gone, "/play").Body.String()
	if n := strings.Count(body, "No answer"); n != 6 {
		t.Errorf("%d of 6 say that the gateway is away", n)
	}
}

func TestVisitorsAreBounded(t *testing.T) {
	var v visitors
	now := time.Unix(1e9, 0)
	docs := []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("192.0.2.0/24")}
	for i := range 2 * maxVisitors {
		now = now.Add(time.Second)
		p := v.of(httptest.NewRecorder(), httptest.NewRequest("GET", "/play", nil), now)
		inside := false
		for _, d := range docs {
			inside = inside || d.Contains(p.address)
		}
		if !inside {
			t.Fatalf("visitor %d plays %v", i, p.address)
		}
	}
	seen := map[netip.Addr]bool{}
	for _, p := range v.byID {
		seen[p.address] = true
	}
	if len(v.byID) != maxVisitors || len(seen) != maxVisitors || len(v.used) != maxVisitors {
		t.Errorf("%d visitors, %d addresses, %d used", len(v.byID), len(seen), len(v.used))
	}
}
