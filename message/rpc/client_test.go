package rpc

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"antirobot/message"
	"antirobot/servertest"
)

func TestKeys(t *testing.T) {
	cfg := family()
	cfg.Authorisation = "keys"
	cfg.Partners[0].Name, cfg.Partners[0].Secret = "ann", "secret-of-ann-0123"
	bob := message.PartnerConfig{Name: "bob", Secret: "secret-of-bob-0123", Domain: withoutStart(message.DefaultConfig().Partners[0].Domain)}
	cfg.Partners = append(cfg.Partners, bob)
	s, _ := newSystem(t, cfg)
	f := func(partner string, auth Auth, want string) {
		t.Helper()
		body := `{"method":"sf.domain.children","id":1,"params":[{"partner":` + partner + `}]}`
		_, _, answer := s.Serve(context.Background(), JSON, []byte(body), auth)
		if !strings.Contains(string(answer), want) {
			t.Errorf("%s %v: %s, want %s", partner, auth, answer, want)
		}
	}
	f(`{"name":"ann","secret":"secret-of-ann-0123"}`, Auth{}, `["blog","forum"]`)
	f(`{"name":"bob","secret":"secret-of-bob-0123"}`, Auth{}, `"children":[]`)
	f(`null`, Auth{"ann", "secret-of-ann-0123"}, `["blog","forum"]`)
	for _, partner := range []string{
		`null`, `"ann"`, `{"name":"ann"}`, `{"name":"ann","secret":""}`, `{"name":"ann","secret":"secret-of-bob-0123"}`,
		`{"name":"eve","secret":"secret-of-ann-0123"}`, `{"name":"ann","secret":5}`, `{"name":"ann","secret":"secret-of-ann-0123","x":1}`, `["ann","secret-of-ann-0123"]`,
	} {
		f(partner, Auth{}, `"code":2001`)
	}
	f(`null`, Auth{"ann", "secret-of-bob-0123"}, `"code":2001`)

	// What one partner does does not reach the other.
	as := func(name, method, params string) string {
		body := `{"method":"` + method + `","id":1,"params":[{"partner":null,` + params + `}]}`
		_, _, answer := s.Serve(context.Background(), JSON, []byte(body), Auth{name, "secret-of-" + name + "-0123"})
		return outcome(t, answer)
	}
	as("ann", "sf.message.firewall.rules.set", `"firewall":"messageAnalyzer","rules":"do userFrequencyCheck(count=1) mark f do messageLogPut() if f stop as F stop as ANN"`)
	as("bob", "sf.message.firewall.rules.set", `"firewall":"messageAnalyzer","rules":"do userFrequencyCheck(count=1) mark f if f stop as F stop as BOB"`)
	as("ann", "sf.model.train", `"model":"model","message":{"text":"cheap pills for all of us"},"marker":"bad"`)
	for _, c := range []struct{ who, method, params, want string }{
		{"ann", "sf.message.input", `"message":{"from":1}`, `{"result":"ANN"}`},
		{"bob", "sf.message.input", `"message":{"from":1}`, `{"result":"BOB"}`},
		{"ann", "sf.message.input", `"message":{"from":1}`, `{"result":"F"}`},
		{"bob", "sf.message.log.fetch", `"log":"messageLog"`, `{"entries":[]}`},
		{"ann", "sf.model.classify", `"model":"model","message":{"text":"cheap pills for all of us"}`, `{"by":"taught","marker":"bad","reasons":["like a text that was taught as bad (100 %)"],"score":1}`},
		{"bob", "sf.model.classify", `"model":"model","message":{"text":"cheap pills for all of us"}`, knowsTooLittle},
	} {
		if got := as(c.who, c.method, c.params); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.who, c.method, got, c.want)
		}
	}
	usage := map[string]uint64{}
	for _, u := range s.Usage() {
		usage[u.Partner+u.Domain+u.Method] += u.Requests
	}
	if usage["ann/sf.message.input"] != 2 || usage["bob/sf.message.input"] != 1 || usage["ann/sf.domain.children"] != 2 {
		t.Errorf("usage %v", usage)
	}
}

// TestPythonClient speaks to the API with Python's own client.
func TestPythonClient(t *testing.T) {
	python := servertest.Need(t, "python3")
	s, _ := newSystem(t, family())
	server := httpShim(s)
	defer server.Close()
	const script = `
import sys, xmlrpc.client as x, json, urllib.request
s = x.ServerProxy(sys.argv[1] + "/api/xml/", allow_none=True)
assert s.sf.info.version({}) == {"version": "1.2.3"}
assert s.sf.message.firewall.rules.set({"partner": None, "firewall": "messageAnalyzer", "rules": "do messageLogPut(tag=\"t\") stop as OK"}) == {}
assert s.sf.message.input({"partner": None, "message": {"text": " привет <&> ", "from": 2**30, "ip": "::1"}}) == {"result": "OK"}
e = s.sf.message.log.fetch({"partner": None, "log": "messageLog", "firstID": 1})["entries"]
assert len(e) == 1 and e[0]["id"] == 1 and e[0]["tags"] == ["t"] and e[0]["message"] == {"text": "привет <&>", "from": 2**30, "ip": "::1"}, e
assert s.sf.message.log.fetch({"partner": None, "log": "messageLog", "first": e[0]["when"], "last": e[0]["when"]})["entries"] == e
try:
    s.sf.domain.get({"partner": None, "name": "no"})
    assert False
except x.Fault as f:
    assert f.faultCode == 2003, f
def call(method, **params):
    params["partner"] = None
    r = urllib.request.Request(sys.argv[1] + "/api/json/", json.dumps({"service": None, "method": method, "id": 3, "params": [params]}).encode(), {"Content-Type": "application/json"})
    a = json.load(urllib.request.urlopen(r))
    assert a["id"] == 3
    return a["result"]
assert call("sf.message.log.fetch", log="messageLog")["entries"] == e
print("ok")
`
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, python, "-c", script, server.URL).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "ok" {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestWholeSeconds: entries tell whole seconds, so a bound that is one means all of it.
func TestWholeSeconds(t *testing.T) {
	s, c := newSystem(t, message.DefaultConfig())
	setRules(t, s, "", "do messageLogPut()")
	for i := range 3 {
		say(t, s, "", fmt.Sprintf(`{"from":%d}`, i+1))
		c.Advance(5 * time.Second)
	}
	when := c.Now().Add(-10 * time.Second).Unix()
	got := jsonCall(t, s, "sf.message.log.fetch", fmt.Sprintf(`{"partner":null,"log":"messageLog","first":%d,"last":%d}`, when, when))
	if want := fmt.Sprintf(`{"entries":[{"id":2,"message":{"from":2},"tags":[],"when":%d}]}`, when); got != want {
		t.Errorf("by whole seconds: %s, want %s", got, want)
	}
}
