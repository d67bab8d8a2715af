package console

import (
	"strings"
	"testing"

	"antirobot/admin"
)

// fleet is an API that knows of another gateway, which does not answer.
type fleet struct{ gate }

func (f *fleet) Ask(who admin.Caller, method, target string, body []byte) (int, []byte) {
	status, answer := f.gate.Ask(who, method, target, body)
	if status == 200 && strings.Contains(target, "gateways=all") {
		answer = append(answer[:len(answer)-1], `,"gateway":"anna","gateways":[{"name":"anna","version":"1"},{"name":"berta","config":7,"error":"<i>no answer within 3s"}]}`...)
	}
	return status, []byte(strings.Replace(string(answer), `"kind":"request"`, `"kind":"request","gateway":"anna"`, 1))
}

// TestGateways: every page that shows what one gateway alone remembers names those that did not answer, and rows say whose they are.
func TestGateways(t *testing.T) {
	c := New(Deps{API: new(fleet)})
	b := open(t, c).signIn(viewerToken)
	for _, path := range []string{"/console/", "/console/requests", "/console/requests/" + number, "/console/subjects/ip:203.0.113.7", "/console/challenges"} {
		_, body, _ := b.ask(path, "")
		if !strings.Contains(body, "the gateway berta") || !strings.Contains(body, "&lt;i&gt;no answer") {
			t.Errorf("%s does not say who is missing: %s", path, body)
		}
		if (path == "/console/requests" || strings.Contains(path, "subjects")) && !strings.Contains(body, `<span class="kind">anna</span>`) {
			t.Errorf("%s does not say whose a row is: %s", path, body)
		}
	}
	_, body, _ := b.ask("/console/", "")
	for _, want := range []string{"✗ anna", "✗ berta", "configuration 7"} {
		if !strings.Contains(body, want) {
			t.Errorf("the first page does not list the gateways, no %q in %s", want, body)
		}
	}
}

// town is an API of three gateways, two of which have the same troubles.
type town struct{ gate }

func (g *town) Ask(who admin.Caller, method, target string, body []byte) (int, []byte) {
	switch target {
	case "/api/status?gateways=all":
		const sick = `"ready":true,"services":[{"name":"shop","mode":"observe","upstreams":[{"address":"10.0.0.1:80","healthy":false}]}],"store":{"healthy":false,"error":"full"}`
		return 200, []byte(`{"gateway":"anna",` + sick + `,"others":[{"gateway":"berta",` + sick + `},{"gateway":"carla","ready":true,"services":[{"name":"shop","mode":"enforce"}]}],` +
			`"gateways":[{"name":"anna"},{"name":"berta"},{"name":"carla"},{"name":"dora","error":"no answer"}]}`)
	case "/api/alarms?gateways=all":
		return 200, []byte(`{"items":[{"name":"list-old","about":"tor","value":"26h","gateways":[{"name":"berta","value":"26h"},{"name":"carla","value":"27h"}]}]}`)
	}
	return g.gate.Ask(who, method, target, body)
}

// TestNowOfSeveral: the first page says what is amiss on any gateway, once, and names those on which it is.
func TestNowOfSeveral(t *testing.T) {
	c := New(Deps{API: new(town)})
	_, body, _ := open(t, c).signIn(viewerToken).ask("/console/", "")
	for _, want := range []string{
		`The store is failing: full <span class="soft">Gateways: anna, berta</span>`,
		`(mode observe) <span class="soft">Gateways: anna, berta</span>`,
		`the server 10.0.0.1:80 does not answer <span class="soft">Gateways: anna, berta</span>`,
		`tor (26h)`, `Gateways: berta, carla (27h)</span>`, "✗ anna", "✗ berta", "✓ carla", "✗ dora",
	} {
		if strings.Count(body, want) != 1 {
			t.Errorf("%d times %q in %s", strings.Count(body, want), want, body)
		}
	}
}
