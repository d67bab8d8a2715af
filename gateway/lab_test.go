package gateway

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"antirobot/config"
	"antirobot/lab"
)

// newChangeable is a gateway whose configuration is read from a file, under what the lab has applied.
func newChangeable(t *testing.T) (*Server, *config.Sources) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "antirobot.yaml")
	text := strings.ReplaceAll(first, "%DIR%", dir)
	text = strings.Replace(text, "{name: shop, hosts: [shop.example]}",
		"{name: shop, hosts: [shop.example], verdict: {threshold: 0.4}, paths: [{prefix: /own, verdict: {threshold: 0.7}}, {prefix: /other}]}", 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &config.Sources{File: file}
	cfg, err := s.ReadOver(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(cfg, Deps{Version: "test", Reread: s.ReadOver})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a, s
}

func wish(t *testing.T, text string) *lab.Change {
	t.Helper()
	c := new(lab.Change)
	if err := json.Unmarshal([]byte(text), c); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestLabAppliesAndTakesBack: a change is in force at once and after a restart, over the file, paths with settings of their own keep
// them, a wrong one changes nothing, and each is taken back in turn.
func TestLabAppliesAndTakesBack(t *testing.T) {
	a, s := newChangeable(t)
	l := labOf{a}
	is := func(threshold float64, model string) {
		t.Helper()
		again, err := s.ReadOver(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, cfg := range []*config.Config{a.Config(), again} {
			shop := &cfg.Resolved[0]
			if shop.Verdict.Threshold != threshold || shop.Resolved[0].Verdict.Threshold != 0.7 || shop.Resolved[1].Verdict.Threshold != threshold {
				t.Errorf("the threshold is %v, of paths %v and %v; want %v", shop.Verdict.Threshold, shop.Resolved[0].Verdict.Threshold, shop.Resolved[1].Verdict.Threshold, threshold)
			}
		}
		if v := a.formula.Model().Version(); !strings.HasPrefix(v, model) {
			t.Errorf("the model is %s, want %s", v, model)
		}
	}
	is(0.4, "default-")
	if _, err := l.TakeBack(); err == nil {
		t.Error("something was taken back")
	}
	for _, wrong := range []string{
		`{}`, `{"services":{"shop":{"threshold":1}}}`, `{"services":{"blog":{"threshold":0.5}}}`, `{"model":"/etc/passwd"}`, `{"card":"bias: much"}`,
		`{"services":{"shop":{"rules":"if path is"}}}`, `{"services":{"shop":{"limits":[{"window":"1m","requests":1,"ban":"1m"}]}}}`, `{"weights":{"9999":1}}`,
	} {
		if _, err := l.Apply(wish(t, wrong), "olga"); err == nil {
			t.Errorf("%s was applied", wrong)
		}
		if _, err := l.Rehearse(t.Context(), wish(t, wrong), time.Now().Add(-time.Hour), time.Now()); err == nil {
			t.Errorf("%s was rehearsed", wrong)
		}
	}
	is(0.4, "default-")
	if _, err := l.Apply(wish(t, `{"services":{"shop":{"threshold":0.6,"limits":[]}}}`), "olga"); err != nil {
		t.Fatal(err)
	}
	is(0.6, "default-")
	if _, err := l.Apply(wish(t, `{"weights":{"0":-3}}`), "olga"); err != nil {
		t.Fatal(err)
	}
	v, err := l.View()
	if err != nil || v.Weights[0].Value != -3 || len(v.Before) != 2 || len(v.Applied.Changes) != 3 || v.Applied.By != "olga" {
		t.Errorf("the view: %+v %v", v, err)
	}
	is(0.6, "default-")
	if a.Config().Formula.Model == "default" {
		t.Error("the card is not in use")
	}
	for _, want := range []float64{0.6, 0.4} {
		if _, err := l.TakeBack(); err != nil {
			t.Fatal(err)
		}
		is(want, "default-")
	}
	if cards, _ := filepath.Glob(filepath.Join(lab.Dir(a.Config().DataDir), "card-*")); len(cards) != 0 || a.Config().Formula.Model != "default" {
		t.Errorf("left: %v, %s", cards, a.Config().Formula.Model)
	}
}

// TestLabLooks: what is looked at is in force for nobody, its model scores beside the one in use, and rehearsals of an empty memory
// find nobody.
func TestLabLooks(t *testing.T) {
	a, _ := newChangeable(t)
	l := labOf{a}
	if _, err := l.Shadow(wish(t, `{"model":"none","services":{"shop":{"threshold":0.9}}}`), "olga"); err != nil {
		t.Fatal(err)
	}
	if a.Config().Formula.Shadow != "none" || a.Config().Formula.Model != "default" || a.Config().Resolved[0].Verdict.Threshold != 0.4 {
		t.Errorf("%+v %v", a.Config().Formula, a.Config().Resolved[0].Verdict.Threshold)
	}
	v, err := l.View()
	if err != nil || v.Beside == nil || v.Beside.Since.IsZero() || v.Beside.Model == v.Model || len(v.Beside.Notes) != 0 {
		t.Errorf("%+v %v", v.Beside, err)
	}
	if bad := wish(t, `{"services":{"shop":{"threshold":2}}}`); bad != nil {
		if _, err := l.Shadow(bad, "olga"); err == nil {
			t.Error("a threshold of 2 is looked at")
		}
	}
	if s, err := a.shadowOf(a.Config()); err != nil || len(s.Places) != 3 || s.Places[0].Threshold != 0.9 || s.Places[1].Threshold != 0.7 || s.Places[2].Threshold != 0.9 || len(s.Places[0].Limits) == 0 {
		t.Errorf("%+v %v", s, err)
	}
	if _, err := a.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again, err := l.View(); err != nil || !again.Beside.Since.Equal(v.Beside.Since) {
		t.Errorf("%+v after a reload, %+v before", again.Beside, v.Beside)
	}
	out, err := l.Rehearse(t.Context(), wish(t, `{"model":"none","services":{"shop":{"rules":"do regexpCheck(attribute=\"path\", regexp=\"/x\") mark others\nif not others stop as BLOCK","threshold":0.9}}}`), time.Now().Add(-time.Hour), time.Now())
	if err != nil || out.Subjects != 0 || out.Stopped.Subjects+out.Free.Subjects != 0 {
		t.Errorf("%+v %v", out, err)
	}
	if _, err := l.Shadow(nil, "olga"); err != nil || a.Config().Formula.Shadow != "" {
		t.Errorf("%v %+v", err, a.Config().Formula)
	}
	if v, err := l.View(); err != nil || v.Beside != nil {
		t.Errorf("%+v %v", v.Beside, err)
	}
}
