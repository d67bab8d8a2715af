package browsers

import (
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/client"
)

// TestFieldsThatAreLost: what only few send means nothing. Where enough networks of established visitors are known these alone show it, whatever
// masses of strangers send or leave out; of a service where nothing arrives nothing is known.
func TestFieldsThatAreLost(t *testing.T) {
	chrome := client.Claim{Family: client.FamilyChrome, Major: 156}
	at := time.Unix(1.8e9, 0)
	var f Fields
	see := func(networks byte, language, established bool) {
		for n := range networks {
			e := of(at, n, chrome)
			if e.Agent = 1; language {
				e.Headers = client.HasAcceptLanguage
			}
			f.See(e, established)
		}
	}
	lost := func(when string, want bool) {
		t.Helper()
		if l := f.Lost(at.Unix()); (l.Misfits&client.NoLanguage != 0) != want || l.Agent || !l.Referer || !l.OwnReferer || !l.Cookie {
			t.Errorf("%s: %+v", when, l)
		}
	}
	if l := f.Lost(at.Unix()); !l.Agent || !l.Cookie || l.Misfits&client.NoLanguage == 0 {
		t.Errorf("nobody was seen, and something is held against clients: %+v", l)
	}
	see(10, false, false)
	lost("no stranger sends it", true)
	see(2, true, false)
	lost("two strangers send it", true)
	see(5, true, false)
	lost("half of the strangers send it", false)
	see(12, true, true)
	at = at.Add(stretch * time.Second)
	see(200, false, false)
	lost("many strangers leave it out at a site that knows its people", false)
	at = at.Add((lasts + 1) * time.Second)
	if l := f.Lost(at.Unix()); !l.Agent || l.Misfits&client.NoLanguage == 0 {
		t.Errorf("long ago: %+v", l)
	}
	see(12, false, true)
	see(200, true, false)
	lost("many strangers send what no established visitor does", true)
}

// TestProbesThatMostFail: what most browsers of a service fail says nothing of one. Where few networks are known a probe counts, and so it does
// where strangers fail it and established visitors don't.
func TestProbesThatMostFail(t *testing.T) {
	chrome, firefox := client.Claim{Family: client.FamilyChrome, Major: 156}, client.Claim{Family: client.FamilyFirefox, Major: 153}
	at := time.Unix(1.8e9, 0)
	var f Fields
	hear := func(from, to byte, claim client.Claim, probes request.Probes, established bool) {
		for n := from; n < to; n++ {
			e := of(at, n, claim)
			f.See(e, established)
			e.Evidence = request.Evidence{Known: true, Probes: probes}
			f.Hear(e, established)
		}
	}
	lost := func(when string, want request.Probes) {
		t.Helper()
		if l := f.Lost(at.Unix()); l.Probes != want {
			t.Errorf("%s: %b means nothing, want %b", when, l.Probes, want)
		}
	}
	lost("nobody was seen", request.ProbeUnpressed|request.ProbeAstray|request.ProbeInspected)
	hear(0, 5, chrome, request.ProbesAll, false)
	lost("five strangers", 0)
	hear(5, 10, chrome, request.ProbesAll, false)
	lost("ten strangers", request.ProbeUnpressed|request.ProbeAstray|request.ProbeInspected)
	hear(10, 40, firefox, 0, false)
	lost("beside others who can't fail one of them", request.ProbeInspected)
	hear(40, 52, chrome, 0, true)
	lost("established ones pass", 0)
	hear(52, 80, chrome, request.ProbeAstray, true)
	lost("most of them fail another", request.ProbeAstray)
}

// of is a page by the address of a network that is numbered.
func of(at time.Time, network byte, c client.Claim) *verdict.Event {
	e := &verdict.Event{At: at, N: 1}
	e.Page, e.Claim = true, c
	e.Subjects[0] = identity.Subject{Kind: identity.KindIP, ID: [16]byte{10: 0xff, 11: 0xff, 12: 192, 13: 0, 14: network, 15: 1}}
	return e
}
