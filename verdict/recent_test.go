package verdict

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict/bans"
	"antirobot/verdict/ledger"
)

// TestPitfall26WhyWasIStopped: a decision can be read by its request ID, and holds no secret.
func TestPitfall26WhyWasIStopped(t *testing.T) {
	w := newWorld(t)
	s := service(t)
	record := func(d *Decision, v *request.View, id *identity.Identity) request.ID {
		rid := request.NewID(v.At)
		w.Decide(d, v, id, s)
		w.Decisions().Record(rid, d, v, id, s)
		return rid
	}
	var d Decision
	w.ban(ip("192.0.2.1"), func(b *bans.Ban) {
		b.Source, b.Score, b.Threshold, b.Reason = bans.SourceProcessor, 0.9, 0.5, "pace"
		b.Factors[0] = bans.Factor{Name: "pages", Value: 81}
	})
	v, id := newRequest(w.now(), "192.0.2.1", sub(identity.KindI, 1))
	id.Refused[0], id.NRefused = identity.Refusal{Kind: identity.KindFuid, Reason: identity.RefusedYoung}, 1
	robot := record(&d, v, id)

	p := pass(w.now(), 1, 5, "192.0.2.1")
	id.Passes[0], id.NPasses = p, 1
	paid := record(&d, v, id)

	w.lists.OwnBlock = &cbb.Entry{List: "api", Text: "192.0.2.0/24", Reason: "abuse", Own: true, Until: day0.Add(time.Hour)}
	blocked := record(&d, v, id)
	w.lists.OwnBlock = nil

	v, id = newRequest(w.now(), "192.0.2.2")
	v.Path = []byte("/" + strings.Repeat("x", 100))
	human := record(&d, v, id)

	get := func(rid request.ID) string {
		t.Helper()
		story, ok := w.Decisions().Get(rid)
		if !ok {
			t.Fatal("not kept")
		}
		b, err := json.Marshal(story)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "secret") {
			t.Errorf("the query is in %s", b)
		}
		return string(b)
	}
	f := func(story string, want ...string) {
		t.Helper()
		for _, s := range want {
			if !strings.Contains(story, s) {
				t.Errorf("%s\nis not in %s", s, story)
			}
		}
	}
	f(get(robot), `"verdict":"robot"`, `"cause":"ban"`, `"service":"shop"`, `"path":"/a"`, `"considered":["i:`, `"ip:192.0.2.1"]`,
		`{"kind":"fuid","reason":"young"}`, `"ban":{"subject":"ip:192.0.2.1"`, `"score":0.9,"threshold":0.5,"reason":"pace","factors":{"pages":81}`)
	f(get(paid), `"verdict":"human"`, `"cause":"ban"`, `"pass":{"id":"spravka:`, `"cost":1,"left":4}`)
	f(get(blocked), `"verdict":"blocked"`, `"entry":{"list":"api","text":"192.0.2.0/24","reason":"abuse","flag":"block"`)
	f(get(human), `"verdict":"human"`, `"cause":"none"`, `xxx…"`)

	for range 2000 {
		record(&d, v, id)
	}
	if _, ok := w.Decisions().Get(robot); !ok {
		t.Error("humans pushed the robot out")
	}
	if _, ok := w.Decisions().Get(human); ok {
		t.Error("more humans are kept than asked for")
	}
	if _, ok := w.Decisions().Get(request.ID{}); ok {
		t.Error("an ID that was never given is found")
	}
}

func TestRequestID(t *testing.T) {
	a, b := request.NewID(day0), request.NewID(day0.Add(time.Millisecond))
	if a == request.NewID(day0) || a.String() >= b.String() || len(a.String()) != 26 {
		t.Errorf("%v, %v: not distinct, or not in order of time", a, b)
	}
	rapid.Check(t, func(t *rapid.T) {
		id := request.ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		for _, s := range []string{id.String(), strings.ToLower(id.String()), strings.NewReplacer("0", "O", "1", "l").Replace(id.String())} {
			if got, ok := request.ParseID(s); !ok || got != id {
				t.Fatalf("%s is read as %v, %v", s, got, ok)
			}
		}
	})
}

func FuzzParseRequestID(f *testing.F) {
	f.Add("01ARZ3NDEKTSV4RRFFQ69G5FAV")
	f.Add("8ZZZZZZZZZZZZZZZZZZZZZZZZZ")
	f.Add("01arz3ndektsv4rrffq69g5fa!")
	f.Fuzz(func(t *testing.T, s string) {
		id, ok := request.ParseID(s)
		if !ok {
			return
		}
		if again, ok := request.ParseID([]byte(id.String())); !ok || again != id {
			t.Fatalf("%q: %v, %v", s, id, again)
		}
	})
}

func TestConfigSaysAllErrors(t *testing.T) {
	c := Config{Pass: ledger.Tariff{Parts: -1}}
	err := c.Validate()
	for _, path := range []string{"keep", "pass.parts", "pass.browser", "attack.for", "attack.then"} {
		if err == nil || !strings.Contains(err.Error(), path+": ") {
			t.Errorf("%s is not in %v", path, err)
		}
	}
	s := ServiceConfig{Mode: "on", Threshold: 1, OnStoreFailure: "maybe", Limits: make([]Limit, 5)}
	err = s.Validate()
	for _, path := range []string{"mode", "threshold", "on_store_failure", "limits", "limits[4].window", "limits[4].requests", "limits[4].ban"} {
		if err == nil || !strings.Contains(err.Error(), path+": ") {
			t.Errorf("%s is not in %v", path, err)
		}
	}
	d, ds := DefaultConfig(), DefaultServiceConfig()
	if d.Validate() != nil || ds.Validate() != nil {
		t.Error("a default is invalid")
	}
}
