package captcha

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"antirobot/identity"
)

// TestChallengesAreTold: challenges shown, tried, solved and given up are reported by way, language and network; machines
// are named by their network, people in it are not.
func TestChallengesAreTold(t *testing.T) {
	e := newEnv(t, func(_ *Config, s *ServiceConfig, _ *identity.ServiceConfig) { s.Steps.RaiseAfter = 0 })
	e.c.cfg.PassesPerHour, e.c.cfg.PassesPerDay = 1000, 1000
	for n := range 30 { // a machine
		e.solveIn(0, from("198.51.100.7"))
		if n%3 == 0 { // a person, who makes mistakes and gives up
			_, fields := e.visit("https://example.com/", header("Accept-Language", "de"))
			e.pass(8 * time.Second)
			rep := e.answerOf(fields.Get("key"))
			if n%9 == 0 {
				rep = wrong(rep)
			}
			e.submit(fields, rep, header("Accept-Language", "de"))
			e.visit("https://example.com/", header("Accept-Language", "de"))
		}
	}
	got := e.c.Challenges()
	if fmt.Sprint(got.MachinesSolve) != "[198.51.100.0/24]" {
		t.Errorf("machines are seen in %v", got.MachinesSolve)
	}
	row := func(rows []ChallengeRow, name string) ChallengeCount {
		for _, r := range rows {
			if r.Name == name {
				return r.ChallengeCount
			}
		}
		t.Fatalf("no row %s in %+v", name, rows)
		return ChallengeCount{}
	}
	person := row(got.Networks, "203.0.113.0/24")
	if person.Tried != 10 || person.Solved != 6 || person.GaveUp < 10 || person.Seconds != 8 || person.Quick != 0 {
		t.Errorf("the person: %+v", person)
	}
	if machine := row(got.Networks, "198.51.100.0/24"); machine.Tried != 30 || machine.Solved != 30 || machine.Quick != 30 {
		t.Errorf("the machine: %+v", machine)
	}
	if de := row(got.Languages, "de"); de.Tried != 10 {
		t.Errorf("German: %+v", de)
	}
	if page := row(got.Ways, "page"); page != got.Total || page.Tried != 40 {
		t.Errorf("pages: %+v of %+v", page, got.Total)
	}
	e.pass(3 * time.Hour)
	if got := e.c.Challenges(); got.Total.Shown != 0 || len(got.MachinesSolve) != 0 {
		t.Errorf("three hours later: %+v", got)
	}
}

// TestNamesHideNoCampaign: who looks at challenges under thousands of names, and answers some of them wrongly, does not hide a campaign.
func TestNamesHideNoCampaign(t *testing.T) {
	e := newEnv(t, nil)
	net := func(n int) netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(n), 0}), 24) }
	for n := range 3 * tallyNetworks {
		more := ChallengeCount{Shown: 1}
		if n%8 == 0 {
			more = ChallengeCount{Tried: 1}
		}
		e.c.tally.count(e.now(), &who{way: "page", lang: "en", net: net(1), agent: uint64(n + 100), shape: fmt.Sprint("shape ", n)}, more)
	}
	for range 40 {
		e.c.tally.count(e.now(), &who{way: "page", lang: "en", net: net(2), agent: 7, shape: "shape x"}, ChallengeCount{Shown: 1, Tried: 1, Solved: 1, Quick: 1})
	}
	if !e.c.isCampaign(net(2), 7, e.now()) {
		t.Error("the campaign is not seen")
	}
	if n := e.c.tally.of(ofShape, "shape x", e.now()); n.Solved != 40 {
		t.Errorf("%d right answers of its shape", n.Solved)
	}
	all := int64(0)
	for _, n := range e.c.tally.now[ofCampaign] {
		all += n.Shown + n.Tried
	}
	if n := len(e.c.tally.now[ofCampaign]); n > tallyNetworks+1 || all != 3*tallyNetworks+80 {
		t.Errorf("%d rows, %d challenges", n, all)
	}
}

// TestPitfall12ChallengesAreBounded: beyond a bound, further networks are counted together.
func TestPitfall12ChallengesAreBounded(t *testing.T) {
	e := newEnv(t, nil)
	for n := range 3 * tallyNetworks {
		net := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 0}), 24)
		e.c.tally.count(e.now(), &who{way: "page", lang: "en", net: net, agent: 1}, ChallengeCount{Shown: 1})
	}
	if n := len(e.c.tally.now[ofNetwork]); n > tallyNetworks+1 {
		t.Errorf("%d networks", n)
	}
	got := e.c.Challenges()
	if len(got.Networks) != tallyShown || got.Networks[0].Name != othersRow || got.Total.Shown != 3*tallyNetworks {
		t.Errorf("%d networks, %+v, in all %+v", len(got.Networks), got.Networks[0], got.Total)
	}
	if strings.Contains(fmt.Sprint(got.MachinesSolve), othersRow) {
		t.Error("others are a network")
	}
}

// TestAskedAndAnsweredElsewhere: whoever is asked by one gateway and answers at another has not given up at either.
func TestAskedAndAnsweredElsewhere(t *testing.T) {
	one := Challenges{Total: ChallengeCount{Shown: 3, Tried: 1, Solved: 1, GaveUp: 2, Seconds: 4}, Ways: []ChallengeRow{{"page", ChallengeCount{Shown: 3, Tried: 1, Solved: 1, GaveUp: 2, Seconds: 4}}}}
	two := Challenges{Total: ChallengeCount{Tried: 1, Solved: 1, Seconds: 8}, Ways: []ChallengeRow{{"page", ChallengeCount{Tried: 1, Solved: 1, Seconds: 8}}}}
	want := ChallengeCount{Shown: 3, Tried: 2, Solved: 2, GaveUp: 1, Seconds: 6}
	if got := SumOfChallenges([]Challenges{one, two}); got.Total != want || len(got.Ways) != 1 || got.Ways[0].ChallengeCount != want {
		t.Errorf("%+v", got)
	}
}
