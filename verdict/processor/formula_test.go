package processor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/client"
	"antirobot/verdict/formula"
)

const (
	liar    = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
	firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0"
)

// TestRequestsOneAndTwoPass: whatever a new subject is, it is stopped with its third request at the earliest.
func TestRequestsOneAndTwoPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, nil)
		defer g.end()
		var got []verdict.Verdict
		for range 3 {
			got = append(got, g.send(visitor{addr: "192.0.2.1", agent: liar}, nil))
			synctest.Wait()
			time.Sleep(time.Second)
		}
		if got[0] != verdict.Human || got[1] != verdict.Human || got[2] != verdict.Robot {
			t.Errorf("%v", got)
		}
	})
}

// TestScoredBanTellsWhy: a ban by the formula has score, threshold, model, and the factors that contributed to it with
// what each added; it belongs to no service, and holds where its score exceeds the threshold.
func TestScoredBanTellsWhy(t *testing.T) {
	p, k := newProcessor(t, nil)
	p.formula = live(t, card(t, "bias: -4\nfactors: [{name: agent_browser, bins: [{is: 1, weight: 6}]}]\n"), metrics.NewSet())
	for n := range 4 {
		p.Process(event(time.Unix(1.8e9+int64(4*n), 0), 1))
	}
	if len(k.bans) != 1 {
		t.Fatalf("%v", k.bans)
	}
	b := k.bans[0]
	if b.Service != "" || b.Threshold != 0.5 || b.Model != p.formula.Model().Version() || b.Until.Sub(b.Made) != 10*time.Minute || b.Reason != "formula: agent_browser" {
		t.Errorf("%+v", b)
	}
	if f := b.Factors[0]; f.Name != "agent_browser" || f.Value != 1 || f.Amount != 6 {
		t.Errorf("%+v", b.Factors)
	}
	for threshold, want := range map[float32]bool{0.5: true, b.Score: false, 0.99: false} {
		if got := b.Holds("other", threshold); got != want {
			t.Errorf("score %v holds at %v: %v", b.Score, threshold, got)
		}
	}
}

// TestFormulaBansAboveItsThreshold: a score above the threshold bans, each time for twice as long, and one below it does not.
func TestFormulaBansAboveItsThreshold(t *testing.T) {
	model := func(score string) *formula.Model { return card(t, "bias: "+score+"\nfactors: []\n") }
	p, b := newProcessor(t, nil)
	inUse := live(t, model("-0.1"), metrics.NewSet()) // a score of 0.475
	p.formula = inUse
	at := time.Unix(1.8e9, 0)
	visit := func(want int) {
		t.Helper()
		for range 4 {
			at = at.Add(16 * time.Second)
			p.Process(event(at, 1))
		}
		if len(b.bans) != want {
			t.Fatalf("%d bans, want %d", len(b.bans), want)
		}
	}
	visit(0)
	inUse.Use(formula.Models{Model: model("0.1")})
	visit(1)
	at = at.Add(11 * time.Minute)
	visit(2)
	if first, second := b.bans[0], b.bans[1]; second.Until.Sub(second.Made) != 2*first.Until.Sub(first.Made) {
		t.Errorf("the second ban is not twice the first: %v, %v", first, second)
	}
	inUse.Use(formula.Models{})
	at = at.Add(21 * time.Minute)
	visit(2)
}

// TestThresholdsOfServices: a ban that holds at one service is made again for another whose threshold is higher, once
// the score exceeds that.
func TestThresholdsOfServices(t *testing.T) {
	m, err := formula.Load([]byte("version: t\nbias: -2\nfactors: [{name: session_pages, bins: [{from: 2, below: 6, weight: 2.5}, {from: 6, weight: 6}]}]\n"), FactorNames())
	if err != nil {
		t.Fatal(err)
	}
	p, b := newProcessor(t, nil)
	p.formula = live(t, m, metrics.NewSet())
	know(t, p, []*verdict.Settings{{Name: "low", Index: 0, Threshold: 0.5}, {Name: "high", Index: 1, Threshold: 0.9}})
	at := time.Unix(1.8e9, 0)
	for n := range 8 {
		e := event(at.Add(time.Duration(4*n)*time.Second), 1)
		if n > 2 {
			e.Service = 1
		}
		p.Process(e)
	}
	if len(b.bans) != 2 || b.bans[0].Score > 0.9 || !(b.bans[1].Score > 0.9) || b.bans[1].Threshold != 0.9 {
		t.Errorf("%v", b.bans)
	}
	if d := b.bans[1].Until.Sub(b.bans[0].Until); d < -5*time.Second || d > 5*time.Second {
		t.Errorf("the second ban ends %v after the first: it is about the same deed", d)
	}
}

// TestSyncJudgesTheFirstRequest: with verdict.sync, what is known before the answer is enough to stop the first
// request; a browser passes.
func TestSyncJudgesTheFirstRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, func(c *verdict.ServiceConfig) { c.Sync = true })
		defer g.end()
		if v := g.send(visitor{addr: "192.0.2.1", agent: liar}, nil); v != verdict.Robot {
			t.Errorf("who claims to be a crawler: %v", v)
		}
		if v := g.send(visitor{addr: "192.0.2.2", agent: firefox}, nil); v != verdict.Human {
			t.Errorf("a browser: %v", v)
		}
	})
}

// TestCheapFactorsNeedNoAnswer: the inline judge sees no factor that only the answer or the store knows.
func TestCheapFactorsNeedNoAnswer(t *testing.T) {
	p, _ := newProcessor(t, nil)
	for n := range 20 {
		p.Process(event(time.Unix(1.8e9+int64(n), 0), 1))
	}
	var v vector
	s := event(time.Unix(1.8e9+20, 0), 1)
	v.scene = evidence{e: s}
	for i, x := range v.measure(true) {
		if known := x == x; known && !factors[i].Cheap {
			t.Errorf("%s is %v", factors[i].Name, x)
		}
	}
}

// TestSolvedCaptchaIsChargedToTheAddress: the pass is a subject with its own session; the answer counts for the
// address, its network and the session of the subject that solved it.
func TestSolvedCaptchaIsChargedToTheAddress(t *testing.T) {
	p, _ := newProcessor(t, nil)
	at := time.Unix(1.8e9, 0)
	for _, kind := range []verdict.EventKind{verdict.EventShown, verdict.EventSolved} {
		e := event(at, 1)
		e.Kind = kind
		p.Process(e)
		at = at.Add(9 * time.Second)
	}
	who := event(at, 1).Subjects[0]
	view, ok := p.Session(who, at)
	if !ok || view.Challenges != (Challenges{Shown: 1, Solved: 1}) {
		t.Errorf("%+v", view.Challenges)
	}
	pass := identity.Subject{Kind: identity.KindSpravka, ID: [16]byte{1}}
	p.Process(event(at, 1, pass))
	view, ok = p.Session(pass, at)
	if !ok || view.Pages != 1 || view.Challenges != (Challenges{}) {
		t.Errorf("the session of the pass: %+v", view)
	}
}

// TestIgnoredChallenges: a visitor who ignores challenges is distinguished from one who answers.
func TestIgnoredChallenges(t *testing.T) {
	var s session
	e := event(time.Unix(1.8e9, 0), 1)
	for range 3 {
		e.Kind = verdict.EventShown
		s.captcha(e)
	}
	e.Kind = verdict.EventFailed
	s.captcha(e)
	if s.shown != 3 || s.ignored != 2 || s.failed != 1 {
		t.Errorf("shown %d, ignored %d, failed %d", s.shown, s.ignored, s.failed)
	}
}

// TestWhatAProxyTakesOutIsNobodysFault: where nobody sends Sec-Fetch fields or hints, a browser without them has no
// misfit.
func TestWhatAProxyTakesOutIsNobodysFault(t *testing.T) {
	p, _ := newProcessor(t, nil)
	var lacks float32
	for i, name := range FactorNames() {
		if name == "fetch_missing" {
			p.observer = func(_ identity.Subject, _ uint16, _ time.Time, x []float32, _ float32) { lacks = x[i] }
		}
	}
	at := time.Unix(1.8e9, 0)
	browser := func(n int, has client.Headers, misfits client.Misfits) {
		for range 2 {
			at = at.Add(time.Second)
			e := event(at, n)
			e.Claim = client.ParseClaim([]byte(firefox))
			e.Headers, e.Misfits, e.Facts.Page = has, misfits, true
			p.Process(e)
		}
	}
	browser(1, client.HasAcceptLanguage, client.NoFetch)
	if lacks == lacks {
		t.Errorf("nobody sends it, and its lack is %v", lacks)
	}
	browser(2, client.HasAcceptLanguage|client.HasFetchMode, 0)
	browser(1, client.HasAcceptLanguage, client.NoFetch)
	if lacks != 1 {
		t.Errorf("others send it, and its lack is %v", lacks)
	}
}

// TestExemptIsNotScored: this machine's addresses are not banned for anything.
func TestExemptIsNotScored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, nil)
		defer g.end()
		for range 20 {
			if g.send(visitor{addr: "127.0.0.1", agent: liar}, nil) != verdict.Human {
				t.Fatal("stopped")
			}
			synctest.Wait()
			time.Sleep(time.Second)
		}
		if g.p.spared.Get() == 0 {
			t.Error("it was not counted that somebody was spared")
		}
	})
}

// TestSessionView: the view of a session says what the subject did, and what that adds to its score.
func TestSessionView(t *testing.T) {
	p, _ := newProcessor(t, nil)
	p.formula = live(t, card(t, "bias: -4\nfactors: [{name: agent_headless, bins: [{is: 1, weight: 3}]}]\n"), metrics.NewSet())
	at := time.Unix(1.8e9, 0)
	for range 8 {
		at = at.Add(2 * time.Second)
		e := event(at, 1)
		e.Claim, e.Agent = client.ParseClaim([]byte("Mozilla/5.0 HeadlessChrome/140.0.0.0")), 77
		e.Facts.Page = true
		p.Process(e)
	}
	view, ok := p.Session(event(at, 1).Subjects[0], at)
	if !ok || view.Pages != 8 || view.Claim != "headless" || view.Evaluated == nil || !(view.Score > 0) {
		t.Fatalf("%+v", view)
	}
	for _, f := range view.Factors {
		if f.Name == "agent_headless" && (f.Value != 1 || f.Amount <= 0) {
			t.Errorf("%+v", f)
		}
		if f.Value != f.Value {
			t.Errorf("%s is unknown and shown", f.Name)
		}
	}
	if _, ok := p.Session(identity.Subject{Kind: identity.KindI, ID: [16]byte{9}}, at); ok {
		t.Error("nobody has a session")
	}
}

// TestPartnersServerIsNotItsUser: what an XML partner's server sends says nothing about the user on whose behalf it
// asks; only the user's pace counts.
func TestPartnersServerIsNotItsUser(t *testing.T) {
	p, b := newProcessor(t, nil)
	p.formula = live(t, card(t, "bias: 4\nfactors: []\n"), metrics.NewSet())
	v, id, s := aPageLoad(p)
	v.Fields = []request.Field{{Name: []byte("User-Agent"), Value: []byte(liar)}}
	id.Partner = true
	for range 40 {
		v.At = v.At.Add(5 * time.Second)
		var d verdict.Decision
		if score := p.Score(&d, v, id, s); score != 0 {
			t.Fatalf("the inline judge says %v", score)
		}
		var e verdict.Event
		d.Event(&e, v, id, s)
		p.Process(&e)
	}
	if len(b.bans) != 0 {
		t.Errorf("%v", b.bans)
	}
}
