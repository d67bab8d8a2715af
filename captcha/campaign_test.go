package captcha

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"antirobot/captcha/outcomes"
	"antirobot/identity"
	"antirobot/spravka"
)

// solvedBy solves a challenge at an address with a browser after a while, and returns the pass.
func (e *env) solvedBy(address, agent string, after time.Duration) spravka.Pass {
	e.t.Helper()
	browser := []opt{from(address), header("User-Agent", agent)}
	_, fields := e.visit("https://example.com/", browser...)
	e.pass(after)
	a := e.submit(fields, e.answerOf(fields.Get("key")), browser...)
	if a.Outcome != OutcomeSolved {
		e.t.Fatalf("outcome %d, status %d", a.Outcome, a.Status)
	}
	return a.Pass
}

// TestCampaignPaysAlone: solvers who look alike are one campaign. From then on their passes are worth the least and are
// taken back by rule; a neighbour in the network with another browser gets a whole one.
func TestCampaignPaysAlone(t *testing.T) {
	e := newEnv(t, func(c *Config, _ *ServiceConfig, _ *identity.ServiceConfig) {
		c.Alarm.Solved, c.Alarm.Revoke = 5, true
		c.PassesPerDay = 1000
	})
	type revocation struct {
		net   netip.Prefix
		agent uint64
	}
	var revoked []revocation
	e.c.watch.revoke = func(net netip.Prefix, agent uint64, _ time.Time) error {
		revoked = append(revoked, revocation{net, agent})
		return nil
	}
	const machine, person = "python-requests/2.32", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	before := e.solvedBy("198.51.100.1", machine, time.Second)
	for i := range 5 {
		e.solvedBy([]string{"198.51.100.1", "198.51.100.2", "198.51.100.3"}[i%3], machine, time.Second)
	}
	member := e.solvedBy("198.51.100.9", machine, time.Second)
	neighbour := e.solvedBy("198.51.100.9", person, 8*time.Second)
	floor := e.c.cfg.Pass.Floor()
	if before.Allowance <= floor || member.Allowance != floor || neighbour.Allowance <= floor {
		t.Errorf("passes of %d before, %d in the campaign, %d beside it; the floor is %d", before.Allowance,
			member.Allowance, neighbour.Allowance, floor)
	}
	net := netip.MustParsePrefix("198.51.100.0/24")
	if len(revoked) != 2 || revoked[0] != (revocation{net, identity.AgentFamily([]byte(machine))}) ||
		revoked[1] != (revocation{netip.Prefix{}, member.Shape}) {
		t.Errorf("revoked: %v", revoked)
	}
	got := e.c.Challenges().Campaigns
	if len(got) != 2 || !strings.HasPrefix(got[1].Name, "shape ") ||
		got[0].Name != outcomes.Campaign(net, identity.AgentFamily([]byte(machine))).String() || got[0].Solved != 7 {
		t.Errorf("campaigns: %+v", got)
	}
	e.solvedBy("203.0.113.9", machine, time.Second)
	if len(e.c.Challenges().Campaigns) != 2 {
		t.Error("a single solver elsewhere is a campaign")
	}
	e.pass(3 * time.Hour)
	if p := e.solvedBy("198.51.100.9", machine, 8*time.Second); p.Allowance <= floor {
		t.Errorf("hours later a pass is still worth %d", p.Allowance)
	}
}

// TestCampaignAcrossNetworks: solvers with one shape are recognised although each has a network of its own. Their
// quick answers are worth the least, and what they earned so is taken back by rule; somebody with the same browser who
// takes their time, and a quick one with another, are not among them.
func TestCampaignAcrossNetworks(t *testing.T) {
	e := newEnv(t, func(c *Config, _ *ServiceConfig, _ *identity.ServiceConfig) {
		c.Alarm.Solved, c.Alarm.Revoke = 3, true
		c.PassesPerDay = 1000
	})
	var revoked []uint64
	e.c.watch.revoke = func(net netip.Prefix, agent uint64, _ time.Time) error {
		if net.IsValid() {
			t.Errorf("what %v earned is taken back", net)
		}
		revoked = append(revoked, agent)
		return nil
	}
	const shared, other = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"
	for i := range 3 {
		e.solvedBy(fmt.Sprintf("198.51.%d.1", i), shared, time.Second)
		e.pass(time.Minute)
	}
	floor := e.c.cfg.Pass.Floor()
	if p := e.solvedBy("203.0.113.1", shared, time.Second); p.Allowance != floor || len(revoked) == 0 ||
		revoked[0] != p.Shape || outcomes.Shape(p.Shape).String() != e.c.Challenges().Campaigns[0].Name {
		t.Errorf("a member's pass is worth %d, the floor is %d; of its shape %x, revoked: %x", p.Allowance, floor,
			p.Shape, revoked)
	}
	if p := e.solvedBy("203.0.112.1", shared, 8*time.Second); p.Allowance <= floor || p.Shape != 0 {
		t.Errorf("the pass of somebody with the same browser is worth %d, shape %x", p.Allowance, p.Shape)
	}
	if p := e.solvedBy("203.0.111.1", other, time.Second); p.Allowance <= floor {
		t.Errorf("the pass of somebody quick with another browser is worth %d", p.Allowance)
	}
}
