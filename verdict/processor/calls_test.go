package processor

import (
	"slices"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/verdict"
	"antirobot/verdict/client"
)

// call makes a visitor's nth call of a script; each asks for something else.
func call(at time.Time, n int, id [16]byte) *verdict.Event {
	e := reading(at, n, id)
	e.Page = false
	e.Answered(200, []byte("application/json"), 300, 0)
	return e
}

// socket opens a visitor's nth WebSocket; each is another one.
func socket(at time.Time, n int, id [16]byte) *verdict.Event {
	e := reading(at, n, id)
	e.Page, e.Static = false, true
	e.Answered(101, nil, 300, 0)
	return e
}

// TestCallsHaveLimitsOfTheirOwn: a script may call far more often than pages are opened, but not without limit; calls
// do not count as pages, nor pages as calls.
func TestCallsHaveLimitsOfTheirOwn(t *testing.T) {
	until := func(every time.Duration, make func(at time.Time, n int, id [16]byte) *verdict.Event) int {
		p, b := newProcessor(t, nil)
		at := time.Unix(1.8e9, 0)
		for n := range 3000 {
			if p.Process(make(at.Add(time.Duration(n)*every), n, office)); len(b.bans) > 0 {
				return n
			}
		}
		return 3000
	}
	const pace = 40 * time.Millisecond // 25 a second
	if n := until(pace, reading); n > 90 {
		t.Errorf("banned after %d pages", n)
	}
	n := until(pace, call)
	if n < 500 || n > 1300 {
		t.Errorf("banned after %d calls, four times 300 in a minute", n)
	}
	if n := until(pace, socket); n < 500 || n > 1300 {
		t.Errorf("banned after %d WebSockets, four times 300 in a minute", n)
	}
	if n := until(pace, func(at time.Time, _ int, id [16]byte) *verdict.Event { return socket(at, 0, id) }); n < 3000 {
		t.Errorf("banned after opening one WebSocket again and again, %d times", n)
	}
	if mixed := until(pace, func(at time.Time, n int, id [16]byte) *verdict.Event {
		if n%8 == 0 {
			return reading(at, n, id)
		}
		return call(at, n, id)
	}); mixed < n {
		t.Errorf("a page beside seven calls is banned after %d requests, calls alone after %d", mixed, n)
	}
}

// TestToolsAreNoScripts: data that a library or an unknown app reads counts as pages; data that a script of a page reads counts
// as calls, which weigh a sixteenth.
func TestToolsAreNoScripts(t *testing.T) {
	until := func(family client.Family, page bool) int {
		p, b := newProcessor(t, nil)
		at := time.Unix(1.8e9, 0)
		for n := range 20_000 {
			e := call(at.Add(time.Duration(n)*250*time.Millisecond), n, office)
			e.Page, e.Claim.Family = page, family
			if p.Process(e); len(b.excesses) > 0 {
				return n
			}
		}
		return 20_000
	}
	tool, app, script := until(client.FamilyLibrary, true), until(client.FamilyApp, true), until(client.FamilyChrome, false)
	if tool > 100 {
		t.Errorf("curl at four a second is checked after %d requests", tool)
	}
	if app > 100 {
		t.Errorf("an app of which nothing is known, at four a second, is checked after %d calls", app)
	}
	if script < 4*tool || script > 1500 {
		t.Errorf("a script at four a second is checked after %d calls, curl after %d", script, tool)
	}
}

// TestBurstEndsPatience: a browser that opens its tabs at once is not scored, and a client that takes more than such a browser opens is.
func TestBurstEndsPatience(t *testing.T) {
	p, b := newProcessor(t, nil)
	p.formula = live(t, card(t, "bias: 3\nfactors: []\n"), metrics.NewSet())
	for n := range 40 {
		p.Process(reading(time.Unix(1.8e9, 0).Add(time.Duration(n)*time.Millisecond), n, office))
		if banned := len(b.bans) > 0; banned != (n >= 31) {
			t.Fatalf("banned with page %d at once: %v", n+1, banned)
		}
	}
}

// TestOwnProxyFieldsExcuseNothing: a client that says it comes through a proxy is judged like any other; what a trusted
// balancer removes from all requests is held against nobody, and nor is what an untrusted client adds behind it.
func TestOwnProxyFieldsExcuseNothing(t *testing.T) {
	score := func(direct, stripped bool, headers client.Headers) float32 {
		var misfits float32
		p, _ := newProcessor(t, nil)
		r := p.service(0)
		at := time.Unix(1.8e9, 0)
		for n := range 30 { // people through the same way
			e := reading(at, n, [16]byte{10: 0xff, 11: 0xff, 12: 77, 13: byte(n), 15: 9})
			e.Claim, e.Secure, e.Direct = client.Claim{Family: client.FamilyChrome, Major: 150}, true, direct
			e.Headers = client.HasForwarded
			if !stripped {
				e.Headers |= client.HasAcceptLanguage | client.HasAcceptEncoding | client.HasFetchMode | client.HasHints
			}
			p.Process(e)
		}
		e := reading(at, 1000, office)
		e.Claim, e.Secure, e.Direct = client.Claim{Family: client.FamilyChrome, Major: 150}, true, direct
		e.Misfits = client.NoLanguage | client.NoEncoding | client.NoFetch | client.NoHints
		e.Headers = headers
		v := &vector{scene: evidence{e: e}}
		p.fill(&v.scene, r)
		x := v.measure(false)
		for i := range factors {
			if factors[i].Name == "misfits" {
				misfits = x[i]
			}
		}
		return misfits
	}
	const own = client.HasForwarded
	if a, b := score(true, false, own), score(true, false, 0); a != b || a != 4 {
		t.Errorf("with a Via of its own %v contradictions count, without %v", a, b)
	}
	if n := score(false, false, own); n != 4 {
		t.Errorf("behind a trusted proxy that passes all on %v contradictions count", n)
	}
	if n := score(false, true, own); n != 0 {
		t.Errorf("behind a trusted proxy that takes them out of all requests %v contradictions count", n)
	}
}

// TestVolumeMakesNothingUnknown: asking for more and more does not make a client's factors unknown.
func TestVolumeMakesNothingUnknown(t *testing.T) {
	p, _ := newProcessor(t, nil)
	at := time.Unix(1.8e9, 0)
	for n := range 2000 {
		e := reading(at.Add(time.Duration(n)*time.Second), n, office)
		p.Process(e)
		if n%100 != 99 {
			continue
		}
		v, _ := p.Session(e.Subjects[0], e.At)
		i := slices.IndexFunc(v.Factors, func(f FactorView) bool { return f.Name == "target_share" })
		if i < 0 || !(v.Factors[i].Value > 0.8) {
			t.Fatalf("after %d different pages target_share is unknown or low: %+v", n+1, v.Factors)
		}
	}
	if _, has := p.service(0).people.usual(); !has {
		t.Error("one address has shown that pages have no parts")
	}
	var all people
	for n := range uint64(noneVotes + 4) {
		all.vote(vote{network: n*2 + 1, at: at.Add(time.Duration(n) * time.Hour).Unix()})
	}
	if _, has := all.usual(); has {
		t.Error("where nobody of many networks loads parts there are none")
	}
}

// TestNamesDivideNoLoads: a client that sends forty User-Agents and loads no parts of pages is one client, not forty.
func TestNamesDivideNoLoads(t *testing.T) {
	clients := func(parts int) float32 {
		p, _ := newProcessor(t, nil)
		at := time.Unix(1.8e9, 0)
		var e *verdict.Event
		for n := range 200 {
			e = reading(at.Add(time.Duration(n)*time.Second), n, office)
			e.Agent = uint64(1 + n%40)
			p.Process(e)
			for k := range parts {
				p.Process(picture(reading(e.At, 1_000_000+n*parts+k, office)))
			}
		}
		sh, h := p.sessions.Lock(e.Subjects[0])
		c := &evidence{e: e, s: *sh.Find(h, e.Subjects[0]), usual: 3}
		sh.Unlock()
		return c.clients()
	}
	if n := clients(0); n != 1 {
		t.Errorf("forty names without a part of a page are %v clients", n)
	}
	if n := clients(3); n < 20 {
		t.Errorf("forty browsers that load their pages are %v clients", n)
	}
}

// TestStampsHideNothing: a page's script that defeats caches by the time repeats one call; who adds a time to different calls makes
// different ones.
func TestStampsHideNothing(t *testing.T) {
	until := func(series uint32) int {
		p, b := newProcessor(t, nil)
		for n := range 3000 {
			e := call(time.Unix(1.8e9, 0).Add(time.Duration(n)*40*time.Millisecond), n, office)
			e.Path, e.Number, e.Series = 7, client.StampFrom+uint32(n), 1+series*uint32(n)
			if p.Process(e); len(b.bans) > 0 {
				return n
			}
		}
		return 3000
	}
	if n := until(0); n < 3000 {
		t.Errorf("a page that polls is banned after %d calls", n)
	}
	if n := until(1); n > 1300 {
		t.Errorf("who reads items is banned after %d", n)
	}
}

// TestScriptsThatNobodyElseLoads: data that comes as a script (JSONP) counts as the call that it is; the scripts of a site, which
// everybody loads, are parts of its pages.
func TestScriptsThatNobodyElseLoads(t *testing.T) {
	p, b := newProcessor(t, nil)
	at := time.Unix(1.8e9, 0)
	load := func(n int, id [16]byte) {
		e := picture(reading(at, n, id))
		e.Answered(200, []byte("application/javascript"), 300, 0)
		at = at.Add(10 * time.Millisecond)
		p.Process(e)
	}
	for visitor := range 100 { // of the site with its 150 scripts
		for n := range 150 {
			load(n, [16]byte{10: 0xff, 11: 0xff, 12: 198, 13: byte(visitor), 15: 7})
		}
	}
	if len(b.bans) > 0 {
		t.Fatalf("a visitor is banned: %+v", b.bans[0])
	}
	for n := range 2000 {
		if load(1000+n, office); len(b.bans) > 0 {
			break
		}
	}
	if len(b.bans) != 1 {
		t.Error("who reads two thousand items as scripts is not banned")
	}
}

// TestBodiesOfGETs: who asks a service by a body that comes with GET, as Elasticsearch may be, makes as many calls as by POST; one that is answered alike
// each time is a poll.
func TestBodiesOfGETs(t *testing.T) {
	until := func(answer func(n int) uint64) int {
		p, b := newProcessor(t, nil)
		for n := range 3000 {
			e := call(time.Unix(1.8e9, 0).Add(time.Duration(n)*40*time.Millisecond), 0, office)
			e.Method, e.Headers, e.BytesOut = 'G', e.Headers|client.HasBody, answer(n)
			if p.Process(e); len(b.bans) > 0 {
				return n
			}
		}
		return 3000
	}
	if n := until(func(n int) uint64 { return uint64(300 + n) }); n > 1300 {
		t.Errorf("who reads a table by the bodies of GETs is banned after %d calls", n)
	}
	if n := until(func(int) uint64 { return 300 }); n < 3000 {
		t.Errorf("one that is answered alike is banned after %d calls", n)
	}
}
