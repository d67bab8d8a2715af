package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"antirobot/admin/peers"
	"antirobot/journal"
	"antirobot/request"
)

// pageOf is a journal that has some entries, the newest first, and pages through them; the rest of a Journal is not there.
type pageOf struct {
	Journal
	entries []journal.Entry
}

func (p *pageOf) Find(_ context.Context, _ *journal.Query, limit int, before, _ string) (f journal.Found, _ error) {
	f.Entries = []journal.Entry{}
	for i := range p.entries {
		if before != "" && p.entries[i].ID >= before {
			continue
		}
		if len(f.Entries) == limit {
			f.Next, f.Reached = f.Entries[limit-1].ID, f.Entries[limit-1].At
			return f, nil
		}
		f.Entries = append(f.Entries, p.entries[i])
		f.Scanned++
	}
	return f, nil
}

// around are other gateways, each a server.
type around struct {
	others []*Server
	asked  int
}

func (*around) Here() peers.Peer { return peers.Peer{Name: "here", Config: 7} }

func (a *around) Ask(_ context.Context, target string) (all []peers.Answer, _ error) {
	a.asked++
	for i, s := range a.others {
		status, body := s.Ask(Caller{Name: "gateway", Role: Viewer, gateway: true}, "GET", target, nil)
		all = append(all, peers.Answer{Peer: peers.Peer{Name: fmt.Sprint("other ", i)}, Status: status, Body: body})
	}
	return append(all, peers.Answer{Peer: peers.Peer{Name: "silent"}, Err: errors.New("no answer within 3s")}), nil
}

// Asked implements Peers: a field is what is allowed.
func (*around) Asked(field []byte, target string) (string, bool) {
	return "berta", string(field) == "Gateway "+target
}

// TestEverywhere: the pages of several journals, one after the other, have every entry once and in order, with the gateway that has
// it; each page names who did not answer.
func TestEverywhere(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	journals := make([]*pageOf, 3)
	for i := range journals {
		journals[i] = new(pageOf)
	}
	const entries = 50
	for i := entries - 1; i >= 0; i-- {
		j := journals[i*i%3] // the last of them is empty, the others uneven
		at := began.Add(time.Duration(i) * time.Second)
		j.entries = append(j.entries, journal.Entry{ID: request.NewID(at).String(), At: at, Kind: "request", Path: fmt.Sprint("/", i)})
	}
	a := new(around)
	for _, j := range journals[1:] {
		a.others = append(a.others, start(t, DefaultConfig(), Deps{Journal: j}).srv)
	}
	l := start(t, DefaultConfig(), Deps{Journal: journals[0], Peers: a})
	before, next := "", entries-1
	for pages := 0; ; pages++ {
		var page journalPage
		l.ok(&page, "GET", "/api/journal?gateways=all&limit=7&before="+before, "")
		for _, e := range page.Entries {
			if want := []string{"here", "other 0"}[next*next%3]; e.Path != fmt.Sprint("/", next) || e.Gateway != want {
				t.Errorf("%s of %s where /%d of %s should be", e.Path, e.Gateway, next, want)
			}
			next--
		}
		if len(page.Gateways) != 4 || page.Gateways[0].Config != 7 || page.Gateways[3].Error == "" || page.Gateways[2].Error != "" {
			t.Errorf("%+v", page.Gateways)
		}
		if before = page.Next; before == "" || pages > entries {
			break
		}
	}
	if next != -1 {
		t.Errorf("it ended before /%d", next)
	}
	asked := a.asked
	l.refused(400, "invalid_field", "q", "GET", "/api/journal?gateways=all&q=colour:red", "")
	l.refused(400, "invalid_field", "gateways", "GET", "/api/journal?gateways=some", "")
	l.ok(new(journalPage), "GET", "/api/journal", "")
	if a.asked != asked+1 {
		t.Errorf("asked %d times", a.asked-asked)
	}
}

// TestAsker: a gateway's seal lets it read what only one gateway knows, and nothing else.
func TestAsker(t *testing.T) {
	l := start(t, DefaultConfig(), Deps{Journal: new(pageOf), Peers: new(around)})
	for target, want := range map[string]int{"/api/journal?limit=2": 200, "/api/status": 200, "/api/bans": 404, "/api/lists": 404, "/metrics": 200} {
		if got, text, _ := l.do("GET", target, "", "Authorization", "Gateway "+target); got != want {
			t.Errorf("%s: %d %s", target, got, text)
		}
		if got, _, _ := l.do("GET", target, "", "Authorization", "Gateway /other"); want == 200 && target != "/metrics" && got != 401 {
			t.Errorf("%s with the seal of another: %d", target, got)
		}
	}
	if got, _, _ := l.do("DELETE", "/api/journal?subject=ip:192.0.2.1", "", "Authorization", "Gateway /api/journal?subject=ip:192.0.2.1"); got != 401 {
		t.Errorf("a gateway erases: %d", got)
	}
}

// TestMerge: what gateways counted is added up.
func TestMerge(t *testing.T) {
	put := func(merge func(*call, *gathered) (any, error), bodies ...string) string {
		t.Helper()
		g := &gathered{}
		for i, b := range bodies {
			g.states, g.bodies = append(g.states, GatewayState{Name: fmt.Sprint(i)}), append(g.bodies, []byte(b))
		}
		got, err := merge(nil, g)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	has := func(text string, parts ...string) {
		t.Helper()
		for _, p := range parts {
			if !strings.Contains(text, p) {
				t.Errorf("%s lacks %s", text, p)
			}
		}
	}
	at := `"at":"2026-01-02T15:00:00Z","counts":`
	has(put(mergeFigures, `{"by":"hour","items":[{`+at+`{"a":1,"b":2}}]}`, `{"by":"hour","items":[{`+at+`{"b":3}},{"at":"2026-01-02T14:00:00Z","counts":{"c":1}}]}`, `[]`),
		`"items":[{"at":"2026-01-02T14:00:00Z","counts":{"c":1}},{`+at+`{"a":1,"b":5}}]`, `"name":"2","config":0,"error":"its answer can't be read`)
	has(put(mergeFigures, `{"by":"day","items":[],"stopped":{"agent":[{"name":"a","entries":3,"requests":3},{"name":"b","entries":2,"requests":2}]}}`,
		`{"by":"day","items":[],"stopped":{"agent":[{"name":"c","entries":3,"requests":3.5},{"name":"b","entries":2,"requests":2}]}}`),
		`"stopped":{"agent":[{"name":"b","entries":4,"requests":4},{"name":"c","entries":3,"requests":3.5}]}`)
	has(put(mergeChallenges, `{"since":"2026-01-02T15:00:00Z","total":{"shown":4,"solved":1},"ways":[{"name":"page","shown":1}],"devices":[{"name":"phone","shown":4,"loaded":3,"came-back":1}],"machines-solve":["a"]}`,
		`{"since":"2026-01-02T14:00:00Z","total":{"shown":6,"solved":3},"ways":[{"name":"form","shown":9},{"name":"page","shown":2}],"devices":[{"name":"phone","shown":1,"loaded":1,"came-back":1},{"name":"desk"}],"machines-solve":["a","b"]}`),
		`"since":"2026-01-02T14:00:00Z"`, `"shown":10,"tried":0,"solved":4,"gave-up":10`, `"ways":[{"name":"form","shown":9`, `{"name":"page","shown":3`, `["a","b"]`, `"devices":[{"name":"phone","shown":5`, `"loaded":4,"came-back":2`, `{"name":"desk"`)
	has(put(mergeChallenges, `{"since":"2026-01-02T15:00:00Z"}`), `"ways":[],"languages":[],"devices":[],"networks":[],"machines-solve":[],"campaigns":[]`)
	has(put(mergeStatus, `{"version":"2","ready":true}`, `{"version":"1","ready":false}`, `[]`),
		`{"gateway":"0","version":"2"`, `"others":[{"gateway":"1","version":"1"`, `"name":"2","config":0,"error":"its answer can't be read`)
	since := `"since":"2026-01-02T15:04:05Z"`
	has(put(mergeAlarms, `{"items":[{"name":"a","about":"x","value":"26h","since":"2026-01-02T16:00:00Z"}],"webhooks":[{"host":"h"}]}`,
		`{"items":[{"name":"a","about":"y","since":"2026-01-02T15:00:00Z"},{"name":"a","about":"x","value":"27h",`+since+`}],"webhooks":[{"host":"i"}]}`),
		`[{"name":"a","about":"y","text":"","action":"","since":"2026-01-02T15:00:00Z","gateways":[{"name":"1"}]},`,
		`{"name":"a","about":"x","value":"27h","text":"","action":"",`+since+`,"gateways":[{"name":"0","value":"26h"},{"name":"1","value":"27h"}]}],"webhooks":[{"host":"h"}]`)
	g := &gathered{states: []GatewayState{{Name: "a"}, {Name: "b"}}, bodies: [][]byte{[]byte("{}"), nil}}
	if told := g.told(); told[0].Error != "" || told[1].Error == "" {
		t.Errorf("who did not tell: %+v", told)
	}
	has(put(mergeSubject, `{"subject":"ip:192.0.2.1","bans":[],"session":{"last":"2026-01-02T14:00:00Z"}}`, `{"bans":[],"session":{"last":"2026-01-02T15:00:00Z","pages":3}}`),
		`"subject":"ip:192.0.2.1"`, `"pages":3`, `"gateway":"1"`)
}
