package proof_test

import (
	"testing"

	"antirobot/request"
	"antirobot/verdict/client"
	"antirobot/verdict/proof"
)

// chrome is a person with a browser that loads pages, their subresources and the cookie.
func chrome() proof.Facts {
	return proof.Facts{
		Claim: client.Claim{Family: client.FamilyChrome, System: client.SystemWindows, Major: 140},
		Loads: 12, Parts: 90, Whole: true, Agents: 1, Offered: 1, Kept: 11, Burst: 2,
	}
}

// fetcher is a client that calls itself a browser and takes pages only.
func fetcher() proof.Facts {
	f := chrome()
	f.Parts, f.Kept, f.Offered = 0, 0, 12
	return f
}

func with(f proof.Facts, edit func(f *proof.Facts)) proof.Facts {
	edit(&f)
	return f
}

// TestRules has the robot that each rule proves, and the person who comes closest to it.
func TestRules(t *testing.T) {
	met := map[string]bool{}
	f := func(rule string, robot, person proof.Facts) {
		t.Helper()
		met[rule] = true
		if got := robot.Of(); got == nil || got.Name != rule {
			t.Errorf("the robot of %s: %+v", rule, got)
		}
		if got := person.Of(); got != nil {
			t.Errorf("the person beside %s is proven a robot by %s", rule, got.Name)
		}
	}
	misfits := func(m client.Misfits) func(*proof.Facts) { return func(f *proof.Facts) { f.Misfits = m } }
	both := func(m client.Misfits, more func(*proof.Facts)) func(*proof.Facts) {
		return func(f *proof.Facts) { f.Misfits = m; more(f) }
	}
	old := func(f *proof.Facts) { f.Claim.Family = client.FamilyOld }
	forwarded := func(f *proof.Facts) { f.Forwarded = true }

	f("false_crawler", with(chrome(), func(f *proof.Facts) { f.Liar = true }), chrome())
	f("forged_cookie", with(chrome(), func(f *proof.Facts) { f.Forged = true }), chrome())
	f("decoy", with(chrome(), func(f *proof.Facts) { f.Decoy = true }), chrome())
	// A bookmark of a page that was written in PHP.
	f("scanner", with(chrome(), func(f *proof.Facts) { f.Probes = 5 }), with(chrome(), func(f *proof.Facts) { f.Probes = 2 }))
	f("headless", with(chrome(), func(f *proof.Facts) { f.Claim.Family = client.FamilyHeadless }), chrome())

	trace := func(p request.Probes, unclicked float32) proof.Facts {
		return with(chrome(), func(f *proof.Facts) { f.Traces, f.Unclicked = p, unclicked })
	}
	f("driver", trace(request.ProbeWebdriver, 0), trace(0, 0))
	f("driver_pointer", trace(request.ProbeAstray, 0), trace(0, 1))
	f("driver_events", trace(request.ProbeUnpressed|request.ProbeInspected, 0), trace(request.ProbeInspected, 0.1)) // the tools of a developer
	f("driver_events", trace(request.ProbeUnpressed, 0.9), trace(request.ProbeUnpressed, 0))                        // operated from elsewhere

	pace := func(burst float32, parts uint32) proof.Facts {
		return with(chrome(), func(f *proof.Facts) { f.Burst, f.Parts = burst, parts })
	}
	f("pace", pace(60, 0), pace(59, 0))
	f("pace", pace(60, 0), with(pace(60, 0), func(f *proof.Facts) { f.Remote = true })) // the site has its pictures elsewhere
	f("pace_whole", pace(200, 500), pace(120, 300))                                     // restores a hundred tabs
	calls := func(n float32) proof.Facts {
		return with(chrome(), func(f *proof.Facts) { f.Calls = n })
	}
	f("pace_whole", calls(400), calls(300))

	f("library_fields", with(chrome(), misfits(client.AcceptsAny|client.NoLanguage)), with(chrome(), both(client.AcceptsAny|client.NoLanguage, old)))
	f("library_handshake", with(chrome(), misfits(client.AcceptsAny|client.FalseHello)),
		with(chrome(), misfits(client.FalseHello|client.NoFetch|client.NoHints|client.NoLanguage))) // a company opens TLS and strips fields
	// An extension that changes the User-Agent.
	f("contradictions", with(chrome(), misfits(client.FalseFetch|client.FalseHints)), with(chrome(), misfits(client.FalseHints|client.FalseOrder)))
	f("library_reader", with(fetcher(), misfits(client.FalseHello)), with(chrome(), misfits(client.FalseHello)))
	f("library_reader", with(fetcher(), misfits(client.FalseHello)), with(fetcher(), both(client.FalseHello, forwarded)))
	f("false_fields", with(fetcher(), misfits(client.FalseHints)), with(chrome(), misfits(client.FalseHints)))
	f("missing_fields", with(fetcher(), misfits(client.NoFetch|client.NoHints)), with(chrome(), misfits(client.NoFetch|client.NoHints)))
	// A text browser without cookies lacks one field, and a page that its cache has needs no subresources.
	f("missing_fields", with(fetcher(), misfits(client.NoFetch|client.NoHints)), with(fetcher(), misfits(client.NoLanguage)))
	f("many_agents", with(fetcher(), func(f *proof.Facts) { f.Agents, f.Loads = 6, 20 }), with(chrome(), func(f *proof.Facts) { f.Agents, f.Loads = 40, 300 }))
	f("crawler_files", with(fetcher(), func(f *proof.Facts) { f.RobotsTxt = true }), with(chrome(), func(f *proof.Facts) { f.RobotsTxt = true }))

	for i := range proof.Rules {
		if !met[proof.Rules[i].Name] {
			t.Errorf("no robot meets %s", proof.Rules[i].Name)
		}
	}
	if n := len(proof.Rules); n > 30 {
		t.Errorf("%d rules are more than people read", n)
	}
}

// TestAbsenceProvesNothing: whoever takes pages only is no proven robot by that, and neither is one of whom nothing is known.
func TestAbsenceProvesNothing(t *testing.T) {
	for name, f := range map[string]proof.Facts{"nothing is known": {}, "a warm cache, and no cookies": fetcher()} {
		if rule := f.Of(); rule != nil {
			t.Errorf("%s: %s", name, rule.Name)
		}
	}
}

// TestOfAllocatesNothing, as each page is judged.
func TestOfAllocatesNothing(t *testing.T) {
	f := chrome()
	if n := testing.AllocsPerRun(100, func() { _ = f.Of() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkOf(b *testing.B) {
	f := fetcher()
	for b.Loop() {
		_ = f.Of()
	}
}
