package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestBalancerTellsAnswers: nginx and HAProxy tell the gateway what the service has answered, and from then on a script's call is
// recognized as one, although the gateway sees no answer. Without such a report, or with one from a sender that may not
// give it, nothing changes.
func TestBalancerTellsAnswers(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(t *testing.T, gateway, service string) string{
		"nginx": func(t *testing.T, gateway, service string) string {
			return runNginx(t, "auth_request.conf", gateway, service)
		},
		"haproxy": func(t *testing.T, gateway, service string) string { return runHAProxy(t, gateway, service) },
	} {
		t.Run(name, func(t *testing.T) { balancerTells(t, run) })
	}
}

func balancerTells(t *testing.T, run func(t *testing.T, gateway, service string) string) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if strings.HasPrefix(r.URL.Path, "/data/") {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
		}
		fmt.Fprint(w, "{}")
	}))
	t.Cleanup(service.Close)
	g := serveCheck(t, service.URL, "style: verdict", "")
	url := run(t, strings.TrimPrefix(g.check, "http://"), strings.TrimPrefix(service.URL, "http://"))
	counted := func(path string) string {
		t.Helper()
		r := visitor(t).get(g.check+"/check", forwarded("GET", "http://localhost"+path, goodUser,
			"Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "Sec-Fetch-Site", "same-origin", "Accept", "*/*")...)
		r.must(t, 200, "")
		var why string
		eventually(t, "the story says what the request was counted as", func() bool {
			_, b := g.tryAPI("GET", "/api/decisions/"+r.Header.Get("X-Request-Id"), nil)
			why = string(b)
			return strings.Contains(why, `"counted"`)
		})
		return why
	}
	if why := counted("/data/1"); !strings.Contains(why, `"as":"page"`) {
		t.Errorf("before anybody has told: %s", why)
	}
	for range 3 {
		visitor(t).get(url+"/data/1").must(t, 200, "{}")
		visitor(t).get(url+"/page/1").must(t, 200, "{}")
	}
	eventually(t, "what the balancer has told is known", func() bool { return strings.Contains(counted("/data/1"), `"as":"script call"`) })
	if why := counted("/page/1"); !strings.Contains(why, `"as":"page"`) {
		t.Errorf("a page that a script asks for: %s", why)
	}
	tell := func(value string) int {
		return visitor(t).get(g.check+"/check?style=answer", forwarded("GET", "http://localhost/page/2", goodUser, "X-Antirobot-Answer", value)...).StatusCode
	}
	if a, b := tell("200 application/json"), tell("text/html"); a != 204 || b != 400 {
		t.Errorf("told rightly: %d, wrongly: %d", a, b)
	}
}
