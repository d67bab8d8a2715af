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
		answer = append(answer[:len(answer)-1], `,"gateway":"anna","others":[{"gateway":"carla","model":"m-2","applied":{"changes":["shop: rules.text"]}}],"gateways":[{"name":"anna","version":"1"},{"name":"berta","config":7,"error":"<i>no answer within 3s"}]}`...)
	}
	return status, []byte(strings.Replace(string(answer), `"kind":"request"`, `"kind":"request","gateway":"anna"`, 1))
}

// TestGateways: every page that shows what one gateway alone remembers names those that did not answer, and rows say whose they are.
func TestGateways(t *testing.T) {
	c, err := New(Deps{API: new(fleet)})
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, c).signIn(viewerToken)
	for _, path := range []string{"/console/", "/console/requests", "/console/requests/" + number, "/console/subjects/ip:203.0.113.7", "/console/challenges", "/console/lab"} {
		_, body, _ := b.ask(path, "")
		if !strings.Contains(body, "the gateway berta") || !strings.Contains(body, "&lt;i&gt;no answer") {
			t.Errorf("%s does not say who is missing: %s", path, body)
		}
		if (path == "/console/requests" || strings.Contains(path, "subjects")) && !strings.Contains(body, `<span class="kind">anna</span>`) {
			t.Errorf("%s does not say whose a row is: %s", path, body)
		}
	}
	if _, body, _ := b.ask("/console/lab", ""); !strings.Contains(body, "the lab of the gateway anna") || !strings.Contains(body, "carla: <code>shop: rules.text</code>") {
		t.Errorf("the lab does not say whose it is: %s", body)
	}
	if _, body, _ := b.ask("/console/", ""); !strings.Contains(body, "✓ anna") || !strings.Contains(body, "✗ berta") || !strings.Contains(body, "configuration 7") {
		t.Errorf("the first page does not list the gateways: %s", body)
	}
}
