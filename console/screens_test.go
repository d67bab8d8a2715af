package console

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"antirobot/verdict/bans"
)

// TestChallengesPage: the page shows each step of the challenges, in their order, and the devices.
func TestChallengesPage(t *testing.T) {
	c := New(Deps{API: new(gate)})
	_, body, _ := open(t, c).signIn(viewerToken).ask("/console/challenges", "")
	for _, want := range []string{"Shown 4 → Loaded 3 → Tried 2 → Solved 1 (25 %) → Came back 1,", "<caption>By device</caption>", "<td>phone</td><td>4</td><td>3</td>", "<td>0 %</td><td>0</td><td>0</td><td>–</td><td>–</td>"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in %s", want, body)
		}
	}
}

// TestSubjectCompany: the page of a subject says how large the groups are that it belongs to, of now, and of its last ban what is not
// known now, and leads to their requests.
func TestSubjectCompany(t *testing.T) {
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	var s standing
	if err := json.Unmarshal([]byte(`{"subject":"ip:203.0.113.7","session":{"factors":[{"name":"address_established","value":16.6},{"name":"pages_1m","value":9}],"evaluated":"2026-01-02T15:10:05Z"}}`), &s); err != nil {
		t.Fatal(err)
	}
	s.Bans = []*bans.Story{
		{Made: at, Factors: map[string]float32{"clients": 40, "address_established": 3, "agent_library": 1}},
		{Made: at.Add(-time.Hour), Factors: map[string]float32{"clients": 7}},
	}
	g := &gate{standing: &s}
	b := open(t, newConsole(t, g, nil)).signIn(viewerToken)
	f := func(lang string, want ...string) {
		t.Helper()
		b.lang = lang
		_, body, _ := b.ask("/console/subjects/ip:203.0.113.7", "")
		for _, w := range want {
			if !strings.Contains(body, w) {
				t.Errorf("%s: no %q in %s", lang, w, body)
			}
		}
		if strings.Count(body, "<td>"+want[0]) != 1 {
			t.Errorf("%s: groups that there are not, or twice: %s", lang, body)
		}
	}
	f("en", `<a href="/console/requests?q=ip%3a203.0.113.7">its address</a></td><td>17 `, "Who else is like it", "</td><td>now</td>",
		`40 clients behind it <span class="soft">clients</span></td><td>its ban, 2026-01-02 15:04:05 UTC</td>`)
	f("ru", `<a href="/console/requests?q=ip%3a203.0.113.7">его адрес</a></td><td>17 `, "Кто ещё на него похож", "</td><td>сейчас</td>", "<td>40 клиент", `class="axis">робот</text>`)
	s = standing{Subject: "spravka:01"}
	if _, body, _ := b.ask("/console/subjects/ip:203.0.113.7", ""); strings.Contains(body, "похож") {
		t.Errorf("a table of nothing: %s", body)
	}
}

// TestRequestLeadsToItsTrace: the page of a traced request leads to the trace, and to the other requests of it.
func TestRequestLeadsToItsTrace(t *testing.T) {
	c := New(Deps{API: new(gate)})
	_, body, _ := open(t, c).signIn(viewerToken).ask("/console/requests/"+number, "")
	const id = "0af7651916cd43dd8448eb211c80319c"
	for _, want := range []string{`<a href="http://127.0.0.1:16686/trace/` + id + `?a=b">` + id + "</a>", `/console/requests?q=trace:` + id} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in %s", want, body)
		}
	}
}
