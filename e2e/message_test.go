package e2e

import (
	"encoding/json"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"antirobot/servertest"
)

// messageClient asks over XML-RPC with Python's client, as clients of 2009 do, and over JSON-RPC; both must agree. It
// leaves rules, a model and a log behind.
const messageClient = `
import json, sys, urllib.request, xmlrpc.client

base, step = sys.argv[1], sys.argv[2]
urllib.request.install_opener(urllib.request.build_opener(urllib.request.ProxyHandler({})))
proxy = xmlrpc.client.ServerProxy(base + "/api/xml/", allow_none=True)

class Fault(Exception):
    pass

def by_xml(method, **params):
    try:
        return getattr(proxy, method)(params)
    except xmlrpc.client.Fault as f:
        raise Fault(f.faultCode)

def by_json(method, **params):
    body = json.dumps({"service": None, "method": method, "id": 11, "params": [params]})
    req = urllib.request.Request(base + "/api/json/", body.encode(), {"Content-Type": "application/json"})
    answer = json.load(urllib.request.urlopen(req))
    assert answer["id"] == 11, answer
    if "error" in answer:
        assert answer["error"]["origin"] == "Fault", answer
        raise Fault(answer["error"]["code"])
    return answer["result"]

def fails(code, call, method, **params):
    try:
        got = call(method, **params)
    except Fault as f:
        assert f.args[0] == code, (method, params, f.args, code)
    else:
        raise AssertionError((method, params, got, code))

def judge(call, text, **more):
    return call("sf.message.input", partner=None, message=dict(more, text=text))["result"]

rules = """
do lengthCheck(minLength=1, maxLength=1000) mark invalid
if invalid skip to 1000
do messageFrequencyCheck() mark messagefrequent, frequent
if frequent skip to 1000
do modelClassify() mark spam
1000: do messageLogPut()
if invalid stop as INVALID
if frequent stop as FREQUENT
if spam stop as SPAM
stop as OK
"""
firewall = dict(partner=None, firewall="messageAnalyzer")

if step == "first":
    assert "version" in by_xml("sf.info.version")
    assert judge(by_xml, "hello") == judge(by_json, "hello") == "UNKNOWN"
    assert by_xml("sf.message.firewall.rules.check", rules=rules, **firewall) == {}
    assert by_xml("sf.message.firewall.rules.set", rules=rules, **firewall) == {}
    def classify(call, text):
        got = call("sf.model.classify", partner=None, model="model", message={"text": text})
        return got["marker"], got["by"]
    def train(marker, text):
        assert by_json("sf.model.train", partner=None, model="model", message={"text": text}, marker=marker) == {}
    # Until the model knows 25 good and 10 bad texts the built-in start judges; what was taught as bad is found at once.
    assert classify(by_xml, "cheap pills online, order 0") == ("good", "ru-en-1")
    for n in range(15):
        train("bad", "cheap pills online, order %d" % n)
    assert classify(by_xml, "cheap pills online, order 0") == ("bad", "taught")
    assert classify(by_xml, "pills") == ("good", "ru-en-1")
    for n in range(40):
        train("good", "see you at lunch in room %d" % n)
    for call in by_xml, by_json:
        assert call("sf.message.firewall.rules.get", **firewall) == {"rules": rules}
        assert judge(call, "") == "INVALID"
        assert judge(call, "lunch?") == "OK"
        assert judge(call, "cheap pills") == "SPAM"
        assert classify(call, "pills") == ("bad", "model")
        assert classify(call, "lunch?") == ("good", "model")
        got = [judge(call, "Привет, the same text by " + call.__name__) for _ in range(4)]
        assert got == ["OK", "OK", "OK", "FREQUENT"], got
        debug = call("sf.message.input", partner=None, message={"text": "lunch"}, debug=True)
        assert debug["result"] == "OK" and "lengthCheck" in debug["log"], debug
        fails(1001, call, "sf.message.input", partner=None)
        fails(1002, call, "sf.no.such")
        fails(1004, call, "sf.domain.list", partner=None, more=1)
        fails(1005, call, "sf.message.input", partner=None, message={"text": 5})
        fails(2001, call, "sf.domain.list", partner="somebody")
        fails(2002, call, "sf.domain.list", partner=None, domain="no/such")
        fails(2003, call, "sf.domain.get", partner=None, name="nothing")
        fails(2005, call, "sf.model.classify", partner=None, model="storage", message={"text": "x"})
        fails(2006, call, "sf.message.input", partner=None, message={})
        fails(2007, call, "sf.message.firewall.rules.get", partner=None, firewall="model")
        fails(2008, call, "sf.message.firewall.rules.set", rules="do", **firewall)
        fails(2009, call, "sf.message.log.fetch", partner=None, log="model")

if step != "first":
    for call in by_xml, by_json:
        assert call("sf.message.firewall.rules.get", **firewall) == {"rules": rules}
        assert judge(call, "cheap pills again") == "SPAM"

entries = by_json("sf.message.log.fetch", partner=None, log="messageLog")["entries"]
ids = [e["id"] for e in entries]
assert ids == (sorted(set(ids)) if step == "killed" else list(range(1, len(ids) + 1))), ids
same = by_xml("sf.message.log.fetch", partner=None, log="messageLog", firstID=3)["entries"]
assert [e["id"] for e in same] == ids[2:], same
assert entries[0]["tags"] == ["invalid"] and entries[2]["tags"] == ["spam"], entries[:3]
print(len(ids))
`

// TestMessages sets rules, trains, judges and reads the log through clients, then restarts the gateway: rules, the model
// and the log are still there, and ids continue.
func TestMessages(t *testing.T) {
	t.Parallel()
	python := servertest.Need(t, "python3")
	g := serve(t, site(t).URL)
	client := func(step string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), python, "-c", messageClient, g.admin, step).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", step, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if got := client("first"); got != "16" {
		t.Errorf("%s entries in the log", got)
	}
	var usage struct {
		Usage []struct {
			Partner, Domain, Method string
			Requests                float64
		}
	}
	if err := json.Unmarshal(g.api("GET", "/api/messages/usage", nil), &usage); err != nil {
		t.Fatal(err)
	}
	counted := 0.0
	for _, u := range usage.Usage {
		if u.Partner == "default" && u.Method == "sf.message.input" {
			counted += u.Requests
		}
	}
	if m := g.metric("antirobot_message_requests_total", `method="sf.message.input"`); counted < 18 || m != counted {
		t.Errorf("%v messages by the API, %v by the metrics", counted, m)
	}
	g.kill(syscall.SIGTERM)
	g.run()
	if got := client("again"); got != "18" {
		t.Errorf("%s entries in the log after a restart", got)
	}
	g.kill(syscall.SIGKILL) // what was learnt and set is on disk already
	g.run()
	if got := client("killed"); got != "20" {
		t.Errorf("%s entries in the log after a kill", got)
	}
}

// TestTrustStaysOnLoopback: a gateway whose private listener is open to others does not trust every caller.
func TestTrustStaysOnLoopback(t *testing.T) {
	t.Parallel()
	const open = "admin: {listen: \"0.0.0.0:8079\"}\nservices: [{name: a, upstream: {urls: [\"http://127.0.0.1:1\"]}}]\n"
	code, out := command(t, "check-config", configFile(t, "%s", open+"message: {authorisation: trust, queue: {max_entries: 5}}\n"))
	if code == 0 || !strings.Contains(out, "message.authorisation: trust believes every caller") {
		t.Errorf("trust: %d %s", code, out)
	}
	keys := "message: {authorisation: keys, partners: [{name: ann, secret: a-secret-of-anns-own}]}\n"
	if code, out := command(t, "check-config", configFile(t, "%s", open+keys)); code != 0 {
		t.Errorf("keys: %d %s", code, out)
	}
}
