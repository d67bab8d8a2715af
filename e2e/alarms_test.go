package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestAlarms: a service that is away is told to a webhook, by the command, in the metrics and on the console's first page; a test
// arrives, and one that fails says so.
func TestAlarms(t *testing.T) {
	t.Parallel()
	told := make(chan string, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		told <- string(text)
		if strings.Contains(string(text), "this is a test") && r.URL.Path == "/strict" {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer hook.Close()
	g := start(t, "serve", "--config", configFile(t, `
alarms: {webhooks: [{url: %q}]}
services: [{name: shop, upstream: {urls: ["http://127.0.0.1:1"]}}]
`, hook.URL+"/strict"))
	for range 3 { // until the gateway leaves the address out
		visitor(t).get(g.url + "/")
	}
	if text := <-told; !strings.Contains(text, "service-away") || !strings.Contains(text, `"state":"on"`) || !strings.Contains(text, "shop 127.0.0.1:1 does not answer") {
		t.Errorf("the webhook was told %s", text)
	}
	at := []string{"--admin", g.admin, "--data-dir", g.dir}
	if code, out := command(t, append([]string{"alarms"}, at...)...); code != 0 || !strings.Contains(out, "shop 127.0.0.1:1 does not answer") || !strings.Contains(out, "webhook  127.0.0.1:") {
		t.Errorf("alarms: %d %s", code, out)
	}
	if n := g.metric(`antirobot_alarms{alarm="service-away"}`); n != 1 {
		t.Errorf("the metric is %v", n)
	}
	if code, out := command(t, append([]string{"alarms", "test"}, at...)...); code != 1 || !strings.Contains(out, "answers 403") || !strings.Contains(out, "1 of 1 webhook failed") {
		t.Errorf("alarms test: %d %s", code, out)
	}
	if text := <-told; !strings.Contains(text, "this is a test") {
		t.Errorf("the test was %s", text)
	}
	if line := g.logs.find(func(s string) bool { return strings.Contains(s, `"message":"hosts that the gateway calls"`) }); !strings.Contains(line, strings.TrimPrefix(hook.URL, "http://")) {
		t.Errorf("the webhook is not among the hosts that are called: %s", line)
	}
}
