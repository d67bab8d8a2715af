package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const answersConfig = `
identity: {trusted_proxies: [127.0.0.1]}
services:
  - name: shop
    upstream: {urls: [%[1]q]}
    requests:
      bodies:
        - {route: POST /login, fields: [{attribute: user, from: form, key: login}]}
    rules:
      time: 10s
      text: |
        do hasAttribute(attribute="body.user") mark login
        if login skip to 1
        do eventCheck(event="failed", attribute="ip, body.user", timeout=600, count=1) mark guessing
        if guessing stop as BLOCK
        stop as OK
        1: do bucketCheck(rate=1, per=3600, burst=2, attribute="ip", storage="store") mark fast
        if fast stop as THROTTLE
        stop as OK
      after: |
        do attributeCheck(attribute="status", value=401) mark other
        if not other do eventAdd(event="failed", attribute="ip, body.user", timeout=600)
`

// TestAnswersAndBuckets: failed logins of a user are counted by their answers, the service gets the body that was read for
// it, and an empty bucket is answered with 429.
func TestAnswersAndBuckets(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == "POST" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = w.Write(body)
	}))
	defer up.Close()
	g := configured(t, answersConfig, up.URL)
	one := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}} // an answer is counted before the next request of its connection
	login := func(user string, want int) {
		t.Helper()
		body := "login=" + user + "&password=x"
		resp, err := one.Post(g.url+"/login", "application/x-www-form-urlencoded", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		answer, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != want || want == 401 && string(answer) != body {
			t.Errorf("%s: %d %.200s, want %d", user, resp.StatusCode, answer, want)
		}
	}
	login("ann", 401)
	login("ann", 401)
	login("ann", 403)
	visitor(t).do("PUT", g.url+"/login?_method=POST", "login=ann", "Content-Type", form).must(t, 403, "")
	login("bob", 401)
	for i, want := range []int{200, 200, 429} {
		r := from(t, "192.0.2.7").get(g.url + "/search")
		if after := r.Header.Get("Retry-After"); r.StatusCode != want || (want == 429) != (after != "") {
			t.Errorf("request %d: %d, Retry-After %q", i, r.StatusCode, after)
		}
	}
}
