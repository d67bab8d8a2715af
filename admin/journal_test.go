package admin

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"antirobot/identity"
	"antirobot/journal"
	"antirobot/request"
	"antirobot/servertest"
	"antirobot/verdict"
)

// newJournal opens a journal that has the figures of an earlier life.
func newJournal(t *testing.T, cacher *verdict.Cacher, set *metrics.Set) *journal.Journal {
	t.Helper()
	cfg := journal.DefaultConfig()
	cfg.MaxAge = 399 * 24 * time.Hour
	d := journal.Deps{
		Dir: t.TempDir(), Stories: cacher.Decisions(), Log: zerolog.Nop(), Metrics: set,
		Counts: func() map[string]float64 { return map[string]float64{"requests/robot/ban": 12, "shown/page": 4} },
	}
	j, err := journal.New(cfg, d)
	if err == nil {
		err = j.Close() // writes them
	}
	if err != nil {
		t.Fatal(err)
	}
	d.Counts = nil
	if j, err = journal.New(cfg, d); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// note lets the journal remember a request, and waits until it does.
func (g *gateway) note(rid request.ID, d *verdict.Decision, addr netip.Addr, path string) {
	g.t.Helper()
	view := request.View{
		At: time.Now(), Method: []byte("GET"), Path: []byte(path), Peer: addr,
		Fields: []request.Field{{Name: []byte("User-Agent"), Value: []byte("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/143.0.0.0 Safari/537.36")}},
	}
	id := identity.Identity{Addr: addr, N: 1}
	id.Subjects[0] = identity.AddrSubject(addr)
	var n verdict.Note
	d.Note(&n, rid, &view, &id, g.shop)
	n.Status, n.Took, n.Share = 302, 400*time.Microsecond, 1
	g.journal.Note(&n)
	servertest.Eventually(g.t, "the journal remembers the request", func() bool {
		_, ok, err := g.journal.Get(rid)
		return ok || err != nil
	})
}

// TestRoles asks every route with a token of each role: each may do what its role says, and nothing more; what a viewer may
// call changes nothing.
func TestRoles(t *testing.T) {
	cfg := DefaultConfig()
	tokens := map[Role]string{}
	for role := Viewer; role <= Admin; role++ {
		token, hash := MakeToken()
		tokens[role] = token
		cfg.Tokens = append(cfg.Tokens, TokenConfig{Name: role.String(), Role: role.String(), Hash: hash})
	}
	old, hash := MakeToken()
	cfg.Tokens = append(cfg.Tokens, TokenConfig{Name: "old", Role: "admin", Hash: hash, Expires: "2020-01-01"})
	var calls atomic.Int64 // wrong tokens are limited by the minute
	l := start(t, cfg, Deps{Now: func() time.Time { return time.Now().Add(time.Duration(calls.Add(1)) * time.Minute) }})
	needs := map[string]Role{
		"POST /api/bans": Operator, "DELETE /api/bans": Operator, "POST /api/lists/{}": Operator, "DELETE /api/lists/{}": Operator,
		"POST /api/labels": Operator, "DELETE /api/labels": Operator, "POST /api/learn/rollback": Operator, "DELETE /api/journal": Operator, "POST /api/messages/{}/mark": Operator,
		"POST /api/queue/{}/approve": Operator, "POST /api/queue/{}/refuse": Operator, "POST /api/queue/{}/teach": Operator,
		"DELETE /api/queue/{}": Operator, "DELETE /api/queue": Operator, "POST /api/attack": Operator, "DELETE /api/attack": Operator, "POST /api/alarms/test": Operator, "POST /api/reload": Admin, "POST /api/push": Admin, "POST /api/push/rollback": Admin, "POST /api/backup": Admin, "POST /api/revoke": Admin, "POST /api/counters/update": Admin,
		"DELETE /api/messages/{}/mark": Operator,
		"DELETE /api/subjects/{}":      Operator,
		"GET /api/events":              Admin,
		"POST /api/counters/read":      Viewer, // reads, with a body
	}
	for _, r := range l.srv.routes {
		need, ok := needs[r.method+" "+r.path]
		if !ok {
			need = Viewer
			if r.method != "GET" {
				t.Errorf("%s %s changes something, and no role is said here", r.method, r.path)
			}
		}
		body := ""
		if r.body {
			body = "{}"
		}
		for role, token := range tokens {
			status, text, _ := l.do(r.method, strings.Replace(r.path, "{}", "1", 1), body, "Authorization", "Bearer "+token)
			if refused := status == 403 && strings.Contains(text, "role_refused"); refused != (role < need) {
				t.Errorf("%s %s by a %s: %d %s", r.method, r.path, role, status, text)
			}
		}
		l.refused(401, "unauthorized", "", r.method, strings.Replace(r.path, "{}", "1", 1), body, "Authorization", "Bearer "+old)
	}
	for _, path := range []string{"/api/events", "/debug/pprof/"} {
		l.refused(403, "role_refused", "", "GET", path, "", "Authorization", "Bearer "+tokens[Operator])
	}
	var me struct{ Name, Role string }
	if _, text, _ := l.do("GET", "/api/whoami", "", "Authorization", "Bearer "+tokens[Operator]); json.Unmarshal([]byte(text), &me) != nil || me.Name != "operator" {
		t.Errorf("whoami: %s", text)
	}
}

// actsAre waits until the journal has so many acts of the token, and compares whom and why.
func (g *gateway) actsAre(want map[string]string) {
	g.t.Helper()
	var found journal.Found
	servertest.Eventually(g.t, fmt.Sprintf("%d acts in the journal", len(want)), func() bool {
		found = journal.Found{} // or entries keep what is left out of others
		g.ok(&found, "GET", "/api/journal?q=kind:act+by:admin.token", "")
		return len(found.Entries) >= len(want)
	})
	got := map[string]string{}
	for _, e := range found.Entries {
		got[e.Method] = e.Subject + " " + e.Reason
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		g.t.Errorf("%v, want %v", got, want)
	}
}

// TestActsAreRemembered: who did what is in the journal, under the name of the token.
func TestActsAreRemembered(t *testing.T) {
	g := startGateway(t)
	g.ok(&struct{}{}, "POST", "/api/bans", `{"subject":"ip:203.0.113.7","ttl":"1h","reason":"copies prices"}`)
	g.ok(&struct{}{}, "DELETE", "/api/bans?subject=ip:203.0.113.7", "")
	g.actsAre(map[string]string{"ban": "ip:203.0.113.7 copies prices", "unban": "ip:203.0.113.7 "})
	g.refused(400, "invalid_field", "q", "GET", "/api/journal?q=colour:red", "")
	g.refused(400, "invalid_field", "before", "GET", "/api/journal?before=x", "")
	g.refused(400, "invalid_field", "by", "GET", "/api/journal/top?by=colour", "")
	g.refused(400, "invalid_field", "by", "GET", "/api/journal/figures?by=year", "")
	g.refused(400, "invalid_field", "top", "GET", "/api/journal/figures?top=51", "")
	g.refused(400, "invalid_field", "subject", "DELETE", "/api/journal?subject=nobody", "")
}

// consolePage stands for the console.
type consolePage struct{}

func (consolePage) Serve(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("a page") }

func (consolePage) SignedIn(h *fasthttp.RequestHeader) bool {
	return string(h.Cookie("signed")) == "in"
}

// TestConsoleTakesItsOwnForms: a form of the console's own pages gets through, with the policy that lets browsers say where it
// comes from; one of another page does not, and neither does a page that calls the API.
func TestConsoleTakesItsOwnForms(t *testing.T) {
	l := start(t, DefaultConfig(), Deps{})
	l.srv.Mount(consolePage{})
	own := "http://" + l.addr
	status, body, header := l.do("POST", "/console/signin", "", "-Authorization", "", "Origin", own, "Sec-Fetch-Site", "same-origin")
	if status != 200 || body != "a page" || header.Get("Referrer-Policy") != "same-origin" {
		t.Errorf("its own form: %d %s %v", status, body, header)
	}
	for _, origin := range []string{"http://evil.example", "null", "http://" + l.addr + ".evil.example"} {
		l.refused(403, "origin_refused", "", "POST", "/console/signin", "", "Origin", origin)
	}
	l.refused(403, "origin_refused", "", "POST", "/console/signin", "", "Sec-Fetch-Site", "cross-site")
	l.refused(403, "origin_refused", "", "GET", "/api/status", "", "Origin", own)
	if status, _, _ := l.do("GET", "/console/", "", "Sec-Fetch-Site", "cross-site"); status != 200 {
		t.Errorf("a link that leads here: %d", status)
	}
	if status, _, _ := l.do("GET", "/console/", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "document"); status != 200 {
		t.Errorf("a link that leads here, of a browser that says so: %d", status)
	}
	for _, site := range []string{"cross-site", "same-site"} { // what a page loads, as often as it likes
		for _, dest := range []string{"image", "iframe", "empty", "script"} {
			l.refused(403, "origin_refused", "", "GET", "/console/signin?once=x", "", "Sec-Fetch-Site", site, "Sec-Fetch-Dest", dest)
		}
	}
}
