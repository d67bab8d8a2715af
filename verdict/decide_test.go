package verdict

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/verdict/bans"
	"antirobot/verdict/ledger"
)

// TestDecisionOrder checks the order of decisions: each step with everything below it switched on.
func TestDecisionOrder(t *testing.T) {
	own, white := &cbb.Entry{List: "api", Own: true}, &cbb.Entry{List: "white", Flag: cbb.White}
	block, ban := &cbb.Entry{List: "drop"}, &cbb.Entry{List: "tor", Flag: cbb.Ban}
	type on struct {
		own, white, block, ruleBlock, demand, banList, ban, ruleRobot, judge, excess, recorded, attack, pass bool
	}
	tests := []struct {
		name    string
		on      on
		verdict Verdict
		cause   Cause
		entry   *cbb.Entry
		paid    bool
	}{
		{"own block beats all", on{own: true, white: true, block: true, ruleBlock: true, demand: true, banList: true, ban: true, judge: true, pass: true}, Blocked, CauseOwnBlock, own, false},
		{"a blocking rule beats the allow list", on{white: true, block: true, ruleBlock: true, ban: true, pass: true}, Blocked, CauseRule, nil, false},
		{"white beats a fetched block, bans, the judge, the quota, an attack", on{white: true, block: true, banList: true, ban: true, judge: true, excess: true, attack: true}, Human, CauseWhite, white, false},
		{"demand beats white", on{white: true, block: true, demand: true, banList: true, ban: true, judge: true, pass: true}, Robot, CauseDemand, nil, false},
		{"fetched block beats demand", on{block: true, demand: true, banList: true, ban: true, judge: true, pass: true}, Blocked, CauseBlockList, block, false},
		{"blocking rule beats demand", on{ruleBlock: true, demand: true, banList: true, ban: true, judge: true, pass: true}, Blocked, CauseRule, nil, false},
		{"demand spends no pass", on{demand: true, banList: true, pass: true}, Robot, CauseDemand, nil, false},
		{"ban list", on{banList: true, ban: true, ruleRobot: true, judge: true}, Robot, CauseBanList, ban, false},
		{"ban", on{ban: true, ruleRobot: true, judge: true}, Robot, CauseBan, nil, false},
		{"rule", on{ruleRobot: true, judge: true}, Robot, CauseRule, nil, false},
		{"judge", on{judge: true}, Robot, CauseJudge, nil, false},
		{"a pass pays for the ban list", on{banList: true, pass: true}, Human, CauseBanList, ban, true},
		{"a pass pays for a ban", on{ban: true, pass: true}, Human, CauseBan, nil, true},
		{"a pass pays for a rule", on{ruleRobot: true, pass: true}, Human, CauseRule, nil, true},
		{"a pass pays for the judge", on{judge: true, pass: true}, Human, CauseJudge, nil, true},
		{"a pass pays for no block", on{block: true, pass: true}, Blocked, CauseBlockList, block, false},
		{"a pass is not touched without need", on{pass: true}, Human, CauseNone, nil, false},
		{"an unspent pass pays before the quota, under attack, too", on{excess: true, attack: true, pass: true}, Human, CauseQuota, nil, true},
		{"a ban comes before the quota", on{ban: true, excess: true, attack: true}, Robot, CauseBan, nil, false},
		{"quota of a scope", on{excess: true, attack: true}, Robot, CauseQuota, nil, false},
		{"a client's own record beats the scopes around it", on{excess: true, recorded: true}, Human, CauseNone, nil, false},
		{"under attack a new visitor is checked", on{attack: true}, Unsure, CauseAttack, nil, false},
		{"nothing", on{}, Human, CauseNone, nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			pick := func(on bool, e *cbb.Entry) *cbb.Entry {
				if on {
					return e
				}
				return nil
			}
			w.lists.Match = cbb.Match{
				OwnBlock: pick(tt.on.own, own), White: pick(tt.on.white, white),
				Block: pick(tt.on.block, block), Ban: pick(tt.on.banList, ban),
			}
			s := service(t, func(c *ServiceConfig) { c.Sync = true })
			if tt.on.ruleBlock {
				s.Rules = ruleSays(RuleBlock)
			} else if tt.on.ruleRobot {
				s.Rules = ruleSays(RuleRobot)
			}
			if tt.on.judge {
				s.Scorer = judgeSays(0.9)
			}
			if tt.on.ban {
				w.ban(ip("192.0.2.1"))
			}
			if tt.on.excess {
				w.excess(s, "192.0.2.1")
			}
			if tt.on.attack {
				if _, err := w.Attack(t.Context(), time.Time{}); err != nil {
					t.Fatal(err)
				}
				w.clock.advance(2 * time.Minute)
			}
			v, id := newRequest(w.now(), "192.0.2.1")
			if tt.on.recorded {
				w.KnowReader(clientOf(id, v), s.Group, true, false, w.now().Add(time.Hour))
			}
			p := pass(w.now(), 1, 5, "192.0.2.1")
			if tt.on.pass {
				id.Passes[0], id.NPasses = p, 1
			}
			var d Decision
			if tt.on.demand {
				w.DecideDemand(&d, v, id, s)
			} else {
				w.Decide(&d, v, id, s)
			}
			if d.Verdict != tt.verdict || d.Cause != tt.cause || d.Entry != tt.entry || d.Paid != tt.paid {
				t.Errorf("got %v for %v, entry %v, paid %v", d.Verdict, d.Cause, d.Entry, d.Paid)
			}
			want := uint32(5)
			if tt.paid {
				want--
			}
			if left, _ := w.ledger.Settle(&p, &ledger.Bill{Cost: 1}, w.now(), ledger.Open, false); left.Left != want {
				t.Errorf("%d of 5 requests left, want %d", left.Left, want)
			}
		})
	}
}

func TestModes(t *testing.T) {
	w := newWorld(t)
	w.ban(ip("192.0.2.1"))
	p := pass(w.now(), 1, 3, "192.0.2.1")

	observe := service(t, func(c *ServiceConfig) { c.Mode = "observe" })
	if d := w.ask(observe, "192.0.2.1"); d.Verdict != Robot || d.Cause != CauseBan || d.Stops() {
		t.Errorf("observe: %v for %v, stops: %v; it decides and lets pass", d.Verdict, d.Cause, d.Stops())
	}
	for range 10 {
		if d := w.askWith(observe, &p, "192.0.2.1"); !d.Paid || d.Cost != 0 || d.Left != 3 {
			t.Fatalf("observe: paid %v, cost %d, left %d; it takes nothing", d.Paid, d.Cost, d.Left)
		}
	}
	off := service(t, func(c *ServiceConfig) { c.Mode = "off" })
	if d := w.ask(off, "192.0.2.1"); d.Verdict != Human || d.Cause != CauseOff || d.Judged() {
		t.Errorf("off: %v for %v, judged: %v", d.Verdict, d.Cause, d.Judged())
	}
	if d := w.ask(service(t), "192.0.2.1"); !d.Stops() {
		t.Error("enforce lets a banned address pass")
	}
}

// TestFirstTwoRequestsPass is the invariant of the original system: without list entry, ban, rule or inline judge the
// first two requests of a new subject pass, whatever it is and whatever others did.
func TestFirstTwoRequestsPass(t *testing.T) {
	w := newWorld(t)
	s := service(t)
	for i := range 500 {
		w.ban(ip("198.51.100.1"), func(b *bans.Ban) { b.Subject.ID[14] = byte(i >> 8); b.Subject.ID[15] = byte(i) })
	}
	rapid.Check(t, func(t *rapid.T) {
		var subs []identity.Subject
		for _, k := range []identity.Kind{identity.KindSpravka, identity.KindL, identity.KindAuth, identity.KindFuid, identity.KindI, identity.KindService} {
			if rapid.Bool().Draw(t, k.String()) {
				subs = append(subs, sub(k, rapid.IntRange(0, 1<<20).Draw(t, "n")))
			}
		}
		addr := rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.2", "2001:db8::1", "203.0.113.255"}).Draw(t, "addr")
		for n := range 2 {
			if d := w.ask(s, addr, subs...); d.Verdict != Human || d.Cause != CauseNone {
				t.Fatalf("request %d: %v for %v", n+1, d.Verdict, d.Cause)
			}
		}
	})
}

// TestWhoIsStoppedByABanOnTheAddress: adding cookies that cost nothing to create helps nobody.
func TestWhoIsStoppedByABanOnTheAddress(t *testing.T) {
	w := newWorld(t)
	s := service(t)
	known, candidate := sub(identity.KindI, 1), sub(identity.KindI, 2)
	for day := range 2 {
		at := day0.Add(time.Duration(day) * 24 * time.Hour)
		w.grades.Observe(known, ip("192.0.2.77").ID, at, false)
	}
	w.grades.Observe(candidate, ip("192.0.2.77").ID, day0, false)
	w.grades.Observe(candidate, ip("192.0.2.77").ID, day0.Add(time.Hour), false)
	w.ban(ip("192.0.2.1"))
	spent := pass(w.now(), 9, 1, "192.0.2.1")
	w.spend(&spent, ledger.Open)

	L, fuid, svc := sub(identity.KindL, 1), sub(identity.KindFuid, 1), sub(identity.KindService, 1)
	f := func(name string, want Verdict, subs ...identity.Subject) {
		t.Helper()
		if d := w.ask(s, "192.0.2.1", subs...); d.Verdict != want {
			t.Errorf("%s: %v for %v, want %v", name, d.Verdict, d.Cause, want)
		}
	}
	f("no cookies", Robot)
	f("an i never seen", Robot, sub(identity.KindI, 3))
	f("an i seen on one day", Robot, candidate)
	f("an i seen on two days", Human, known)
	f("a fuid never seen", Robot, fuid)
	f("a fuid added to an established i", Human, fuid, known)
	f("a login", Human, L)
	f("a service cookie", Human, svc)
	f("an honoured Authorization", Human, sub(identity.KindAuth, 1))
	f("a login beside an unknown i", Human, L, sub(identity.KindI, 3))
	if d := w.askWith(s, &spent, "192.0.2.1"); d.Verdict != Robot {
		t.Errorf("a spent pass, and a ban of the operator: %v", d.Verdict)
	}
	fresh := pass(w.now(), 10, 1, "192.0.2.1")
	if d := w.askWith(s, &fresh, "192.0.2.1"); d.Verdict != Human || !d.Paid {
		t.Errorf("a pass with allowance: %v, paid %v", d.Verdict, d.Paid)
	}

	w.ban(L)
	f("a banned login", Robot, L)
	f("a banned login elsewhere", Robot, L)
	w.ban(known)
	f("an established i that is banned itself", Robot, known)
	f("a banned i with a good login", Human, sub(identity.KindL, 2), known)
	f("a banned i with a service cookie, which is weaker", Robot, known, svc)
	if n, err := w.Unban(context.Background(), known, ""); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	f("a ban takes the standing away", Robot, known)
	if d := w.ask(s, "192.0.2.2"); d.Verdict != Human {
		t.Errorf("the neighbour: %v", d.Verdict)
	}
}

// TestScoresAndServices: a ban with a score holds where the score exceeds the threshold; an operator's holds
// everywhere, or on the service that it names.
func TestScoresAndServices(t *testing.T) {
	at := func(name string, threshold float64) *Settings {
		c := DefaultServiceConfig()
		c.Threshold = threshold
		s, err := c.Settings(name, 0)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	tests := []struct {
		name string
		ban  bans.Ban
		s    *Settings
		want bool
	}{
		{"score above", bans.Ban{Source: bans.SourceProcessor, Score: 0.7}, at("shop", 0.6), true},
		{"score equal", bans.Ban{Source: bans.SourceProcessor, Score: 0.5}, at("shop", 0.5), false},
		{"score below", bans.Ban{Source: bans.SourceProcessor, Score: 0.5}, at("shop", 0.6), false},
		{"score above, other service", bans.Ban{Source: bans.SourceProcessor, Score: 1, Service: "mail"}, at("shop", 0.5), false},
		{"operator, any threshold", bans.Ban{Source: bans.SourceAPI}, at("shop", 0.99), true},
		{"operator, this service", bans.Ban{Source: bans.SourceAPI, Service: "shop"}, at("shop", 0.99), true},
		{"operator, other service", bans.Ban{Source: bans.SourceAPI, Service: "mail"}, at("shop", 0), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			b := tt.ban
			b.Subject, b.Until = ip("192.0.2.1"), w.now().Add(time.Minute)
			if err := w.Ban(context.Background(), b); err != nil {
				t.Fatal(err)
			}
			if got := w.ask(tt.s, "192.0.2.1").Verdict == Robot; got != tt.want {
				t.Errorf("banned: %v, want %v", got, tt.want)
			}
			if got := b.Holds(tt.s.Name, tt.s.Threshold); got != tt.want {
				t.Errorf("Holds: %v, want %v", got, tt.want)
			}
		})
	}
}

// TestPitfall22OnePassIsNotForTheNAT: a pass pays for the visitor who presents it, not for its address.
func TestPitfall22OnePassIsNotForTheNAT(t *testing.T) {
	w := newWorld(t)
	s := service(t)
	w.ban(ip("192.0.2.1"))
	p := pass(w.now(), 1, 100, "192.0.2.1")
	if d := w.askWith(s, &p, "192.0.2.1"); d.Verdict != Human {
		t.Error("who solved is stopped")
	}
	if d := w.ask(s, "192.0.2.1"); d.Verdict != Robot {
		t.Error("the rest of the address passes with somebody else's pass")
	}
}

// TestPitfall23WhiteIsNeverJudged: no event, no ban, no challenge.
func TestPitfall23WhiteIsNeverJudged(t *testing.T) {
	w := newWorld(t)
	w.lists.White = &cbb.Entry{List: "monitors", Flag: cbb.White}
	w.ban(ip("192.0.2.1"))
	if d := w.ask(service(t), "192.0.2.1"); d.Verdict != Human || d.Judged() {
		t.Errorf("%v, judged %v", d.Verdict, d.Judged())
	}
	w.lists.White = &cbb.Entry{List: "crawlers", Flag: cbb.White, Provisional: true}
	d := w.ask(service(t), "192.0.2.1")
	if d.Verdict != Human || !d.Judged() {
		t.Errorf("a crawler that is being looked up: %v, judged %v; it passes and its pace counts", d.Verdict, d.Judged())
	}
	v, id := newRequest(w.now(), "192.0.2.1")
	var e Event
	if d.Event(&e, v, id, service(t)); e.Cause == CauseWhite {
		t.Error("its event says white")
	}
}

// TestPitfall2ClientChoosesNothing: an allowance is what the seal says, an unearned pass pays nothing, and a pass
// presented twice in one request pays once.
func TestPitfall2ClientChoosesNothing(t *testing.T) {
	w := newWorld(t)
	s := service(t)
	w.ban(ip("192.0.2.1"))
	p := pass(w.now(), 1, 100, "192.0.2.1")
	p.Earned = false
	if d := w.askWith(s, &p, "192.0.2.1"); d.Verdict != Robot {
		t.Error("an unearned pass pays")
	}
	q := pass(w.now(), 2, 2, "192.0.2.1")
	v, id := newRequest(w.now(), "192.0.2.1")
	id.Passes[0], id.Passes[1], id.NPasses = q, q, 2
	var got []bool
	for range 3 {
		var d Decision
		w.Decide(&d, v, id, s)
		got = append(got, d.Paid)
	}
	if !got[0] || !got[1] || got[2] {
		t.Errorf("paid %v with an allowance of two", got)
	}
}

// TestBanIsEnforcedWhenTheAllowanceIsSpent: a ban made while the allowance lasts is recorded and waits.
func TestBanIsEnforcedWhenTheAllowanceIsSpent(t *testing.T) {
	w := newWorld(t)
	s := service(t)
	p := pass(w.now(), 1, 3, "192.0.2.1")
	me := identity.Subject{Kind: identity.KindSpravka, ID: p.ID}
	for range 5 {
		if d := w.askWith(s, &p, "192.0.2.1"); d.Verdict != Human || d.Paid {
			t.Fatal("an allowance is spent without need")
		}
	}
	w.ban(me)
	if n := len(w.Bans(BanFilter{Subject: me})); n != 1 {
		t.Fatalf("%d bans recorded", n)
	}
	for i := range 3 {
		if d := w.askWith(s, &p, "192.0.2.1"); d.Verdict != Human || !d.Paid {
			t.Fatalf("request %d of 3 is not paid", i+1)
		}
	}
	if d := w.askWith(s, &p, "192.0.2.1"); d.Verdict != Robot || d.Ban.Subject != me {
		t.Errorf("the spent pass: %v for %v", d.Verdict, d.Ban.Subject)
	}
}
