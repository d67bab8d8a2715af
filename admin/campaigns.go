package admin

import (
	"net/netip"
	"strconv"
	"strings"

	"antirobot/identity"
	"antirobot/journal"
)

// revokeCampaign takes back what a campaign has earned until now: a network, a /24 or /48, and the hash of a kind of
// browser there as the outcomes of challenges name it; without the latter what anybody in the network has earned.
func (s *subjectCalls) revokeCampaign(c *call, name string) (any, error) {
	n, agent, ok := parseCampaign(name)
	if !ok {
		return nil, badField("campaign", "%q is neither a network, such as 198.51.100.0/24 or 2001:db8:1::/48, nor "+
			"the name of a campaign as /api/challenges gives it", name)
	}
	at := s.now()
	if err := s.deps.Passes.RevokeCampaign(c.work, n, agent, at); err != nil {
		return nil, changed(err, "the revocation")
	}
	s.act(c, journal.Act{What: "revoke", Reason: "all passes of the campaign " + name})
	return struct {
		Campaign string `json:"revoked_campaign"`
	}{name}, nil
}

// parseCampaign reads the name of a campaign, or a network alone: agent is then 0, and stands for every browser. Of a
// shape, the network is the zero Prefix.
func parseCampaign(name string) (n netip.Prefix, agent uint64, ok bool) {
	network, browser, named := strings.Cut(name, " ")
	if network == "shape" {
		agent, err := strconv.ParseUint(browser, 16, 64)
		return netip.Prefix{}, agent, err == nil && len(browser) == 16 && agent != 0
	}
	n, err := netip.ParsePrefix(network)
	if err != nil || n != n.Masked() || n != identity.NetOf(n.Addr()) {
		return netip.Prefix{}, 0, false
	}
	if !named {
		return n, 0, true
	}
	agent, err = strconv.ParseUint(browser, 16, 64)
	return n, agent, err == nil && len(browser) == 16 && agent != 0
}
