package console

import (
	"strings"
	"testing"
)

// TestChallengesPage: the page shows each step of the challenges, in their order, and the devices.
func TestChallengesPage(t *testing.T) {
	c, err := New(Deps{API: new(gate)})
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := open(t, c).signIn(viewerToken).ask("/console/challenges", "")
	for _, want := range []string{"Shown 4 → Loaded 3 → Tried 2 → Solved 1 (25 %) → Came back 1,", "<caption>By device</caption>", "<td>phone</td><td>4</td><td>3</td>"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in %s", want, body)
		}
	}
}

// TestLabBeside: the lab shows whom the settings that are looked at would newly stop on live traffic, and what they can't judge.
func TestLabBeside(t *testing.T) {
	c, err := New(Deps{API: new(gate)})
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := open(t, c).signIn(viewerToken).ask("/console/lab", "")
	for _, want := range []string{`id="beside-stopped">3 visitors<`, `id="beside-free">0 visitors<`, "judged twice, 700 times in all", "solved a challenge: 1.", ">ip:203.0.113.9</a>", "Rules and doubts are not judged beside"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in %s", want, body)
		}
	}
}

// labAnswer is a shop with two lines of limits, a card of two weights, and something to be taken back.
const labAnswer = `{"model":"default-6","named":"default","models":["default","none"],"weights":[{"why":"bias","value":-4},{"factor":"x","why":"<b>x","when":"x = 1","value":2}],
 "services":[{"name":"shop","mode":"enforce","threshold":0.5,"unsure":0.3,"limits":[{"window":"10s","requests":80,"ban":"10m0s"},{"window":"1m0s","requests":300,"ban":"10m0s"}],"rules":"stop as OK"}],
 "applied":{"by":"olga","at":"2026-01-02T15:04:05Z","changes":["shop: rules.text"]},"before":[{"changes":[]}],"shadow":{"by":"olga","at":"2026-01-02T15:04:05Z","changes":["x"],"settings":{"model":"none"}},
 "beside":{"since":"2026-01-02T15:04:05Z","model":"none-1","judged":700,"stopped_by_both":5,"newly_stopped":{"subjects":3,"about":3,"people":1,"grounds":{"solved":1},"pages":12,
  "examples":[{"subject":"ip:203.0.113.9","kind":"ip","ground":"solved","person":true,"before":0.4,"after":0.7,"pages":9}]},"newly_free":{},"notes":["beside-rules"]}}`

// TestRequestLeadsToItsTrace: the page of a traced request leads to the trace, and to the other requests of it.
func TestRequestLeadsToItsTrace(t *testing.T) {
	c, err := New(Deps{API: new(gate)})
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := open(t, c).signIn(viewerToken).ask("/console/requests/"+number, "")
	const id = "0af7651916cd43dd8448eb211c80319c"
	for _, want := range []string{`<a href="http://127.0.0.1:16686/trace/` + id + `?a=b">` + id + "</a>", `/console/requests?q=trace:` + id} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in %s", want, body)
		}
	}
}
