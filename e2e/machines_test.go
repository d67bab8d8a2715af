package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"antirobot/store/redisstore/redistest"
)

// TestMachinesAreKnownByAllGateways: solvers who divide their answers between two gateways of one Redis, too few at each, are
// recognised by both, one raises the alarm, and by rule the passes that they earn are taken back at both; those of a neighbour with
// another browser are not. With roles, gateways that only decide do the same.
func TestMachinesAreKnownByAllGateways(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"all", "gateway"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			machinesAtTwo(t, role)
		})
	}
}

func machinesAtTwo(t *testing.T, role string) {
	file := configFile(t, `
role: %s
store: {url: "redis://%s"}
keys: {secret_file: %q}
identity: {trusted_proxies: [127.0.0.1]}
captcha: {alarm: {solved: 6, revoke: true}}
defaults: {upstream: {urls: [%q]}}
`, role, redistest.Start(t).Addr, secretFile(t), site(t).URL)
	var all [2]*gateway
	for i := range all {
		all[i] = start(t, "serve", "--config", file, "--captcha-test-answer", testAnswer)
	}
	const program = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36"
	solver := func(g *gateway, n int, agent string) *client {
		v := from(t, fmt.Sprintf("203.0.113.%d", n))
		if agent != "" {
			v.header.Set("User-Agent", agent)
		}
		g.ban(fmt.Sprintf("ip:203.0.113.%d", n), "10m")
		g.earn(v, "/")
		return v
	}
	told := func(g *gateway) (machines []string, campaigns int) {
		var c struct {
			MachinesSolve []string `json:"machines-solve"`
			Campaigns     []struct{ Name string }
		}
		if err := json.Unmarshal(g.api("GET", "/api/challenges", nil), &c); err != nil {
			t.Fatal(err)
		}
		for _, x := range c.Campaigns {
			if strings.HasPrefix(x.Name, "203.0.113.0/24 ") {
				campaigns++
			}
		}
		return c.MachinesSolve, campaigns
	}
	neighbour := solver(all[0], 99, "")
	var solvers []*client
	for n := range 3 {
		solvers = append(solvers, solver(all[0], 1+n, program))
	}
	if machines, campaigns := told(all[0]); len(machines) > 0 || campaigns > 0 {
		t.Fatalf("four answers are machines: %v, %d campaigns", machines, campaigns)
	}
	for n := range 2 {
		solvers = append(solvers, solver(all[1], 11+n, program))
	}
	// Six answers of which five are the program's: the network is known by both.
	for i, g := range all {
		eventually(t, "the network at a gateway", func() bool { machines, _ := told(g); return len(machines) == 1 })
		if _, campaigns := told(g); campaigns > 0 {
			t.Errorf("gateway %d: five answers of one kind of browser are a campaign", i)
		}
	}
	eventually(t, "the alarm", func() bool {
		_, out := command(t, "alarms", "--admin", all[1].admin, "--data-dir", all[1].dir)
		return strings.Contains(out, "challenges are solved by machine from 203.0.113.0/24")
	})
	solvers = append(solvers, solver(all[1], 13, program))
	for _, g := range all {
		eventually(t, "the campaign at a gateway", func() bool { _, campaigns := told(g); return campaigns == 1 })
		for n, v := range solvers {
			eventually(t, fmt.Sprintf("the pass of solver %d is taken back", n), func() bool { return v.get(g.url+"/").StatusCode == 302 })
		}
		neighbour.get(g.url+"/").must(t, 200, "site got")
	}
}
