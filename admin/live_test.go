package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/message"
	"antirobot/request"
	"antirobot/rules"
	"antirobot/store"
	"antirobot/verdict"
	"antirobot/verdict/counter"
	"antirobot/verdict/processor"
)

// gateway is the real parts behind a live listener.
type gateway struct {
	*live
	cacher *verdict.Cacher
	lists  *cbb.Lists
	shop   *verdict.Settings
	reload []error // what the next reloads return
}

const listText = "192.0.2.0/24 # abuse\n198.51.100.128/25\n"

func startGateway(t *testing.T) *gateway {
	t.Helper()
	ctx := context.Background()
	st := store.NewMemory(nil)
	set := metrics.NewSet()
	file := filepath.Join(t.TempDir(), "abuse.txt")
	if err := os.WriteFile(file, []byte(listText), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := cbb.DefaultConfig()
	cfg.Crawlers.Enabled = false
	cfg.Lists = []cbb.ListConfig{{Name: "abuse", Flag: "block", File: file}}
	lists, err := cbb.New(cfg, cbb.Deps{KV: st, Feed: st, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	if err := lists.Start(ctx); err != nil {
		t.Fatal(err)
	}
	cacher, err := verdict.New(verdict.DefaultConfig(), verdict.Deps{Store: st, Lists: lists, Log: zerolog.Nop(), Metrics: set})
	if err != nil {
		t.Fatal(err)
	}
	if err := cacher.Start(ctx); err != nil {
		t.Fatal(err)
	}
	sc := verdict.DefaultServiceConfig()
	shop, err := sc.Settings("shop", 0)
	if err != nil {
		t.Fatal(err)
	}
	counts, err := counter.New(counter.DefaultConfig(), counter.Deps{Store: store.NewMemoryCounters(), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	messages, err := message.Open(ctx, message.DefaultConfig(), message.Deps{Store: st, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{cacher: cacher, lists: lists, shop: shop}
	t.Cleanup(func() {
		if err := errors.Join(cacher.Close(), lists.Close(), counts.Close(), messages.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	g.live = start(t, DefaultConfig(), Deps{
		Version: "0.1.0", Started: time.Now().Add(-time.Hour), Metrics: set,
		Bans: cacher, Passes: cacher, Decisions: cacher.Decisions(), Lists: lists, Counters: counts,
		Messages: has{withAPI(messages)}, MessagesOpen: true, MaxMessage: 2 << 20,
		Training: exports(func(w io.Writer, _ bool, _ time.Time) error {
			_, err := io.WriteString(w, "label,source,kind,subject,at,score,pages_1s,pages_10s\n1,ignored,ip,54cf30c6c2a10be1,2026-01-02T15:04:05.000Z,0.12,2.5,\n")
			return err
		}),
		Sessions: knows(func(s identity.Subject) (v processor.SessionView, ok bool) {
			if s != identity.AddrSubject(netip.MustParseAddr("198.51.100.4")) {
				return v, false
			}
			at := time.Now().UTC()
			return processor.SessionView{
				First: at.Add(-time.Minute), Last: at, Pages: 34, Claim: "library", Evaluated: &at, Score: 0.73, Model: "default-2-8f31c0aa",
				Bans: 1, LastBan: &at, Repeated: 1, Counters: &processor.CountsView{PagesDay: 34, PagesFortnight: 34}, Factors: []processor.FactorView{
					{Name: "client_loads_1m", Group: processor.Pace, Value: 33, Amount: 1},
					{Name: "agent_library", Group: processor.Client, Value: 1, Amount: 2.5},
				},
			}, true
		}),
		Gateway: says{
			reload: func() ([]string, error) {
				if len(g.reload) == 0 {
					return nil, nil
				}
				err := g.reload[0]
				g.reload = g.reload[1:]
				return nil, err
			},
			services: func() []ServiceStatus {
				return []ServiceStatus{{
					Name: "shop", Hosts: []string{"shop.example"}, Mode: shop.Mode.String(),
					Upstreams: []Upstream{{Address: "10.0.0.5:8000", Healthy: true, Active: 3}},
				}}
			},
			store: func() StoreHealth {
				return StoreHealth{Backend: "memory", Shared: st.Shared(), Healthy: st.Healthy() == nil}
			},
			ready: func() []Check { return []Check{{Name: "listeners", OK: true}} },
		},
	})
	return g
}

// ask lets the real verdict decide about a request of an address.
func (g *gateway) ask(rid request.ID, from, path string) verdict.Decision {
	addr := netip.MustParseAddr(from)
	view := request.View{At: time.Now(), Method: []byte("GET"), Host: []byte("shop.example"), Target: []byte(path), Path: []byte(path), Peer: addr}
	id := identity.Identity{Addr: addr, Net: identity.NetOf(addr), Proto: "http", N: 1}
	id.Subjects[0] = identity.AddrSubject(addr)
	var d verdict.Decision
	g.cacher.Decide(&d, &view, &id, g.shop)
	g.cacher.Decisions().Record(rid, &d, &view, &id, g.shop)
	return d
}

// post lets rules decide about a message that comes on a route.
func (g *gateway) post(from, text, message string) {
	addr := netip.MustParseAddr(from)
	view := request.View{At: time.Now(), Method: []byte("POST"), Host: []byte("shop.example"), Target: []byte("/comments"), Path: []byte("/comments"), Peer: addr}
	id := identity.Identity{Addr: addr, Net: identity.NetOf(addr), Proto: "http", N: 1}
	id.Subjects[0] = identity.AddrSubject(addr)
	p, err := rules.Compile(text, rules.DefaultOptions())
	if err != nil {
		panic(err)
	}
	run := rules.Run{Trace: true}
	if err := p.Run(context.Background(), &rules.Env{Attributes: oneText(message)}, &run); err != nil {
		panic(err)
	}
	var d verdict.Decision
	g.cacher.Decide(&d, &view, &id, g.shop)
	r := d.RuleMessage()
	r.Take(p, &run)
	r.Route, r.Action = "POST /comments", verdict.RuleRobot
	d.Settle()
	g.cacher.Decisions().Record(request.NewID(view.At), &d, &view, &id, g.shop)
}

// oneText is a message that has a text.
type oneText string

func (t oneText) Attribute(name string) (rules.Value, bool) {
	return rules.Value{Kind: rules.Text, Text: string(t)}, name == "text"
}

func (g *gateway) verdict(from string) verdict.Verdict {
	return g.ask(request.NewID(time.Now()), from, "/").Verdict
}

// An operator's ban and list entries change what the gateway decides, at once and only as long as they stand.
func TestAPIChangesTheVerdict(t *testing.T) {
	g := startGateway(t)
	expect := func(from string, want verdict.Verdict) {
		t.Helper()
		if got := g.verdict(from); got != want {
			t.Errorf("%s is %v, want %v", from, got, want)
		}
	}
	var any map[string]any
	expect("203.0.113.7", verdict.Human)
	g.ok(&any, "POST", "/api/bans", `{"subject":"ip:203.0.113.7","ttl":"10m","reason":"x"}`)
	expect("203.0.113.7", verdict.Robot)
	expect("203.0.113.8", verdict.Human)
	g.ok(&any, "POST", "/api/lists/white", `{"entry":"203.0.113.0/29","ttl":"1h"}`)
	expect("203.0.113.7", verdict.Human)
	g.ok(&any, "POST", "/api/lists/block", `{"entry":"203.0.113.0/24","ttl":"1h","reason":"flood"}`)
	expect("203.0.113.7", verdict.Blocked) // the operator's own block stands first
	expect("203.0.113.200", verdict.Blocked)
	g.ok(&any, "DELETE", "/api/lists/block?entry=203.0.113.0/24", "")
	expect("203.0.113.200", verdict.Human)
	g.ok(&any, "DELETE", "/api/lists/white?entry=203.0.113.0%2F29", "")
	expect("203.0.113.7", verdict.Robot)
	g.ok(&any, "DELETE", "/api/bans?subject=ip:203.0.113.7", "")
	expect("203.0.113.7", verdict.Human)
	g.ok(&any, "POST", "/api/lists/ban", `{"entry":"2001:db8::/32"}`)
	expect("2001:db8::1", verdict.Robot)
	expect("192.0.2.1", verdict.Blocked) // from the file
	g.refused(404, "not_found", "", "DELETE", "/api/lists/block?entry=192.0.2.0/24", "")

	g.ok(&any, "POST", "/api/bans", `{"subject":"ip:198.51.100.1","ttl":"10m","service":"shop"}`)
	expect("198.51.100.1", verdict.Robot)
	g.refused(404, "not_found", "", "DELETE", "/api/bans?subject=ip:198.51.100.1", "")
	g.ok(&any, "DELETE", "/api/bans?subject=ip:198.51.100.1&service=shop", "")
	expect("198.51.100.1", verdict.Human)
}

func TestRevocation(t *testing.T) {
	g := startGateway(t)
	id := [16]byte{0x9f, 15: 1}
	now := time.Now()
	if g.cacher.Revoked(id, now.Unix()) {
		t.Fatal("revoked already")
	}
	var any map[string]any
	g.ok(&any, "POST", "/api/revoke", fmt.Sprintf(`{"pass":"%X"}`, id))
	if !g.cacher.Revoked(id, now.Unix()) || g.cacher.Revoked([16]byte{1}, now.Unix()) {
		t.Error("revocation by ID")
	}
	g.ok(&any, "POST", "/api/revoke", fmt.Sprintf(`{"before":"%s"}`, now.Add(-time.Hour).Format(time.RFC3339)))
	if !g.cacher.Revoked([16]byte{1}, now.Add(-2*time.Hour).Unix()) || g.cacher.Revoked([16]byte{1}, now.Unix()) {
		t.Error("revocation by birth")
	}
	const path = "/api/revoke"
	g.refused(400, "invalid_field", "pass", "POST", path, `{}`)
	g.refused(400, "invalid_field", "pass", "POST", path, `{"pass":"9f","before":"2026-01-02T00:00:00Z"}`)
	for _, id := range []string{"9f", strings.Repeat("g", 32), strings.Repeat("0", 33)} {
		g.refused(400, "invalid_field", "pass", "POST", path, `{"pass":"`+id+`"}`)
	}
	for _, at := range []string{"yesterday", "2026-01-02", "2026-13-02T00:00:00Z", now.Add(time.Hour).Format(time.RFC3339)} {
		g.refused(400, "invalid_field", "before", "POST", path, `{"before":"`+at+`"}`)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	g := startGateway(t)
	const ban = `{"subject":"ip:203.0.113.7","ttl":"10m"`
	for _, c := range []struct{ path, body, code, field string }{
		{"/api/bans", ban + `,"reson":"x"}`, "unknown_field", "reson"},
		{"/api/bans", ban, "invalid_json", ""},
		{"/api/bans", ban + `}{}`, "invalid_json", ""},
		{"/api/bans", `[]`, "invalid_field", ""},
		{"/api/bans", `{"subject":7}`, "invalid_field", "subject"},
		{"/api/bans", `{"ttl":"10m"}`, "invalid_field", "subject"},
		{"/api/bans", `{"subject":"203.0.113.7","ttl":"10m"}`, "invalid_field", "subject"},
		{"/api/bans", `{"subject":"ip:203.0.113.0/24","ttl":"10m"}`, "invalid_field", "subject"},
		{"/api/bans", `{"subject":"cat:7","ttl":"10m"}`, "invalid_field", "subject"},
		{"/api/bans", `{"subject":"ip:203.0.113.7"}`, "invalid_field", "ttl"},
		{"/api/bans", `{"subject":"ip:203.0.113.7","ttl":"100ms"}`, "invalid_field", "ttl"},
		{"/api/bans", `{"subject":"ip:203.0.113.7","ttl":"367d"}`, "invalid_field", "ttl"},
		{"/api/bans", `{"subject":"ip:203.0.113.7","ttl":"-1h"}`, "invalid_field", "ttl"},
		{"/api/bans", ban + `,"service":"none"}`, "invalid_field", "service"},
		{"/api/bans", ban + `,"reason":"` + strings.Repeat("x", 501) + `"}`, "invalid_field", "reason"},
		{"/api/bans", ban + `,"reason":"two\nlines"}`, "invalid_field", "reason"},
		{"/api/lists/block", `{}`, "invalid_field", "entry"},
		{"/api/lists/block", `{"entry":"everything"}`, "invalid_field", "entry"},
		{"/api/lists/block", `{"entry":"10.0.0.0/4"}`, "invalid_field", "entry"},
		{"/api/lists/block", `{"entry":"10.0.0.0/8","ttl":"x"}`, "invalid_field", "ttl"},
		{"/api/lists/block", `{"entry":"10.0.0.0/8","service":"none"}`, "invalid_field", "service"},
		{"/api/lists/block", `{"entry":"` + strings.Repeat("1", 5000) + `"}`, "invalid_field", "entry"},
	} {
		g.refused(400, c.code, c.field, "POST", c.path, c.body)
	}
	g.refused(400, "invalid_json", "", "POST", "/api/bans", "", "Content-Type", "application/json")
	g.refused(404, "not_found", "", "POST", "/api/lists/grey", `{"entry":"10.0.0.0/8"}`)
	g.refused(400, "invalid_field", "subject", "DELETE", "/api/bans", "")
	g.refused(400, "invalid_field", "entry", "DELETE", "/api/lists/ban", "")
	g.refused(400, "invalid_field", "entry", "DELETE", "/api/lists/ban?entry=x", "")
	g.refused(400, "invalid_field", "limit", "GET", "/api/bans?limit=0", "")
	g.refused(400, "invalid_field", "limit", "GET", "/api/bans?limit=1001", "")
	g.refused(400, "invalid_field", "after", "GET", "/api/bans?after=!", "")
	g.refused(400, "invalid_field", "request-id", "GET", "/api/decisions/none", "")
	g.refused(404, "not_found", "", "GET", "/api/decisions/"+request.NewID(time.Now()).String(), "")
	g.refused(400, "invalid_field", "subject", "GET", "/api/subjects/nobody", "")
	if n := len(g.cacher.Bans(verdict.BanFilter{})) + len(g.lists.List(cbb.Block)); n != 0 {
		t.Errorf("%d refused requests changed something", n)
	}
}

func TestBansArePaged(t *testing.T) {
	g := startGateway(t)
	var want []string
	for i := range 25 {
		subject := fmt.Sprintf("ip:203.0.113.%d", i+1)
		want = append(want, subject)
		var any map[string]any
		g.ok(&any, "POST", "/api/bans", `{"subject":"`+subject+`","ttl":"10m"}`)
	}
	sort.Strings(want)
	var got []string
	path := "/api/bans?limit=10"
	for pages := 0; path != ""; pages++ {
		if pages == 5 {
			t.Fatal("the pages do not end")
		}
		var a struct {
			Items []struct{ Subject string }
			Next  string
		}
		g.ok(&a, "GET", path, "")
		for _, b := range a.Items {
			got = append(got, b.Subject)
		}
		path = ""
		if a.Next != "" {
			path = "/api/bans?limit=10&after=" + a.Next
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v", got)
	}
	var one struct{ Items []any }
	g.ok(&one, "GET", "/api/bans?subject=ip:203.0.113.9", "")
	if len(one.Items) != 1 {
		t.Errorf("%d bans of one subject", len(one.Items))
	}
}

func TestSubjectOfAPass(t *testing.T) {
	id := [16]byte{1, 15: 2}
	l := start(t, DefaultConfig(), Deps{
		Passes:   pays{id: id},
		Sessions: knows(func(identity.Subject) (processor.SessionView, bool) { return processor.SessionView{Pages: 7}, true }),
	})
	if _, body, _ := l.do("GET", fmt.Sprintf("/api/subjects/spravka:%x", id), ""); !strings.HasPrefix(body,
		fmt.Sprintf(`{"subject":"spravka:%x","bans":[],"allowance":{"limit":100,"spent":7,"left":93},"session":{"`, id)) || !strings.Contains(body, `"pages":7`) {
		t.Errorf("got %s", body)
	}
	if _, body, _ := l.do("GET", "/api/subjects/ip%3A2001%3Adb8%3A%3A%2F64", ""); !strings.HasPrefix(body, `{"subject":"ip:2001:db8::/64","bans":[],"session"`) {
		t.Errorf("got %s", body)
	}
}

// What the log says of changes names no token and no more than the subject.
func TestChangesAreLogged(t *testing.T) {
	g := startGateway(t)
	var any map[string]any
	g.ok(&any, "POST", "/api/bans", `{"subject":"L:alice","ttl":"10m","reason":"why"}`)
	log := g.log.String()
	if !strings.Contains(log, `"reason":"why"`) || !strings.Contains(log, `"subject":"L:#`) {
		t.Errorf("log: %s", log)
	}
	if strings.Contains(log, "alice") || strings.Contains(log, testToken) {
		t.Errorf("the log says too much: %s", log)
	}
}

var block = regexp.MustCompile("(?ms)^```(sh|json|text) ?(\\d*)\n(.*?)^```\n")

// Every example of docs/api.md is run as it stands there, and its answer has the documented shape.
func TestDocumentedExamples(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("curl is needed to run the examples of docs/api.md: install it")
	}
	doc, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	g := startGateway(t)
	g.reload = []error{errors.Join(errors.New("services[0].upstreams: none is given"), errors.New("admin.listen: bad"))}
	addr := netip.MustParseAddr("198.51.100.4")
	ban := verdict.Ban{
		Subject: identity.AddrSubject(addr), Until: time.Now().Add(10 * time.Minute), Source: verdict.SourceProcessor,
		Score: 0.73, Threshold: 0.5, Reason: "formula: agent_library, client_loads_1m, session_pages", Model: "default-2-8f31c0aa",
		Factors: [verdict.MaxFactors]verdict.Factor{
			{Name: "agent_library", Value: 1, Amount: 2.5},
			{Name: "client_loads_1m", Value: 33, Amount: 1},
			{Name: "session_pages", Value: 34, Amount: 0.67},
		},
	}
	if err := g.cacher.Ban(context.Background(), ban); err != nil {
		t.Fatal(err)
	}
	rid, ok := request.ParseID("01KDZ6JQ4GF3V5N8X2C7B9W0TA")
	if !ok {
		t.Fatal("the documented request id does not parse")
	}
	g.ask(rid, addr.String(), "/prices")
	g.post("198.51.100.9", "do regexpCheck(regexp=\"(?s).*pills\") mark nopills score 1\nif not nopills stop as SPAM", "buy pills")

	blocks := block.FindAllStringSubmatch(string(doc), -1)
	ran := 0
	for i, b := range blocks {
		if b[1] != "sh" {
			continue
		}
		if i+1 == len(blocks) || blocks[i+1][1] == "sh" {
			t.Fatalf("no answer is documented for\n%s", b[3])
		}
		ran++
		runExample(t, g, b[3], blocks[i+1])
	}
	if ran < 20 {
		t.Errorf("only %d examples were found", ran)
	}
	// Every endpoint has an example.
	for _, r := range g.srv.routes {
		path, _, _ := strings.Cut(r.path, "{}")
		_, end, _ := strings.Cut(r.path, "{}")
		found := false
		for _, b := range blocks {
			cmd := b[3]
			method := "GET"
			if m := regexp.MustCompile(`-X (\w+)`).FindStringSubmatch(cmd); m != nil {
				method = m[1]
			}
			found = found || b[1] == "sh" && method == r.method && strings.Contains(cmd, "$ADMIN"+path) && strings.Contains(cmd, end)
		}
		if !found {
			t.Errorf("no example of %s %s", r.method, r.path)
		}
	}
}

func runExample(t *testing.T, g *gateway, script string, want []string) {
	t.Helper()
	const mark = "\nstatus "
	cmd := exec.Command("sh", "-c", strings.Replace(script, "curl -s", `curl -s -w '`+mark+`%{stderr}%{http_code}'`, 1))
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "ADMIN=http://"+g.addr, "TOKEN="+testToken, "no_proxy=*")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, script, stderr.String())
	}
	body, _, _ := strings.Cut(string(out), mark)
	if want[1] == "text" {
		if strings.TrimSpace(body) != strings.TrimSpace(want[3]) && !strings.HasPrefix(string(out), want[3]) {
			t.Errorf("got %q, want %q from\n%s", out, want[3], script)
		}
		return
	}
	status := want[2]
	if status == "" {
		status = "200"
	}
	if got := strings.TrimSpace(stderr.String()); got != status {
		t.Errorf("status %s, want %s from\n%s%s", got, status, script, body)
	}
	var a, b any
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatalf("%v in %q from\n%s", err, body, script)
	}
	if err := json.Unmarshal([]byte(want[3]), &b); err != nil {
		t.Fatalf("the documented answer is no JSON: %v\n%s", err, want[3])
	}
	for _, d := range shapeDiffs("", a, b) {
		t.Errorf("%s\nfrom %s%s", d, script, body)
	}
}

// shapeDiffs compares the keys and kinds of two JSON values, element by element in arrays that have any.
func shapeDiffs(at string, got, want any) (out []string) {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s: got %T, an object is documented", at, got)}
		}
		for k := range w {
			if _, ok := g[k]; !ok {
				out = append(out, fmt.Sprintf("%s.%s is documented and was not answered", at, k))
			}
		}
		for k, v := range g {
			if _, ok := w[k]; !ok {
				out = append(out, fmt.Sprintf("%s.%s was answered and is not documented", at, k))
				continue
			}
			out = append(out, shapeDiffs(at+"."+k, v, w[k])...)
		}
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return []string{fmt.Sprintf("%s: got %v, %d elements are documented", at, got, len(w))}
		}
		for i := range g {
			out = append(out, shapeDiffs(fmt.Sprintf("%s[%d]", at, i), g[i], w[i])...)
		}
	default:
		if fmt.Sprintf("%T", got) != fmt.Sprintf("%T", want) {
			return []string{fmt.Sprintf("%s: got %T, %T is documented", at, got, want)}
		}
		_, err := time.Parse(time.RFC3339, fmt.Sprint(want))
		if _, goterr := time.Parse(time.RFC3339, fmt.Sprint(got)); err == nil && goterr != nil {
			out = append(out, fmt.Sprintf("%s: %v is no time", at, got))
		}
	}
	return out
}

// has is the message firewall, or its absence.
type has struct{ m Messages }

func (h has) Messages() (Messages, error) {
	if h.m == nil {
		return nil, message.ErrAway
	}
	return h.m, nil
}

// knows is what a test has the slow half know.
type knows func(s identity.Subject) (processor.SessionView, bool)

func (k knows) Session(s identity.Subject, _ time.Time) (processor.SessionView, bool) { return k(s) }

// pays knows one pass.
type pays struct {
	Passes
	id [16]byte
}

func (p pays) Allowance(id [16]byte) (verdict.Allowance, bool) {
	return verdict.Allowance{Limit: 100, Spent: 7, Left: 93}, id == p.id
}
