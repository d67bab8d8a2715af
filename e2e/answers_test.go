package e2e

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

// TestFourAnswers requests each kind of resource as a banned and as a blocked visitor.
func TestFourAnswers(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	v := visitor(t)

	t.Run("a page is redirected", func(t *testing.T) {
		r := v.get(g.url+"/a?b=1&c=2").must(t, 302, "")
		to := r.Header.Get("Location")
		if !strings.HasPrefix(to, g.url+"/showcaptcha?cc=1&retpath=") {
			t.Fatalf("Location %s", to)
		}
		if at := strings.Index(to, "retpath="); !strings.Contains(to[at:], "&") {
			t.Errorf("retpath is the last parameter of %s", to)
		}
		for name, want := range map[string]string{"X-Antirobot-Verdict": "captcha", "Cache-Control": "no-store"} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %q, wanted %q", name, got, want)
			}
		}
		if r.Header.Get("X-Request-Id") == "" {
			t.Error("no X-Request-Id")
		}
	})
	t.Run("a script gets JSON", func(t *testing.T) {
		for _, header := range [][]string{
			{"X-Requested-With", "XMLHttpRequest"},
			{"Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty"},
			{"Accept", "application/json, text/plain, */*;q=0.1", "Referer", g.url + "/page"},
		} {
			r := v.get(g.url+"/api/list", header...).must(t, 200, `"type":"captcha"`)
			var a struct {
				Type    string
				Captcha map[string]any
			}
			if err := json.Unmarshal([]byte(r.body), &a); err != nil {
				t.Fatal(err)
			}
			for _, f := range []string{"img-url", "key", "status", "captcha-page"} {
				if _, ok := a.Captcha[f].(string); !ok {
					t.Errorf("%v: no string %q in %s", header, f, r.body)
				}
			}
		}
	})
	t.Run("a sub-resource gets an empty 403", func(t *testing.T) {
		for _, dest := range []string{"image", "script", "style", "font"} {
			if r := v.get(g.url+"/x", "Sec-Fetch-Dest", dest).must(t, 403, ""); r.body != "" {
				t.Errorf("%s: got %q", dest, r.body)
			}
		}
	})
	t.Run("a preflight passes", func(t *testing.T) {
		if r := v.do("OPTIONS", g.url+"/api", "", "Origin", "https://example.org", "Access-Control-Request-Method", "POST").must(t, 200, ""); r.Header.Get("X-Served-By") != "site" {
			t.Errorf("a preflight got %v", r.Header)
		}
	})
	t.Run("blocked", func(t *testing.T) {
		g.api("POST", "/api/lists/block", map[string]string{"entry": "127.0.0.1", "ttl": "10m", "reason": "test"})
		r := v.get(g.url+"/").must(t, 403, "")
		if got := r.Header.Get("X-Antirobot-Verdict"); got != "blocked" {
			t.Errorf("verdict header %q", got)
		}
		if !strings.Contains(r.body, r.Header.Get("X-Request-Id")) {
			t.Error("the page does not show the request id")
		}
		v.get(g.url+"/", "X-Requested-With", "XMLHttpRequest").must(t, 403, `"type":"blocked"`)
		v.do("OPTIONS", g.url+"/api", "", "Origin", "https://example.org", "Access-Control-Request-Method", "POST").must(t, 403, "")
		v.get(g.url+"/showcaptcha").must(t, 403, "")

		var d struct{ Verdict, Cause string }
		if err := json.Unmarshal(g.api("GET", "/api/decisions/"+r.Header.Get("X-Request-Id"), nil), &d); err != nil || d.Verdict != "blocked" {
			t.Errorf("decision of the blocked request: %+v %v", d, err)
		}
	})
}

// challenge is the JSON that a stopped script gets.
type challenge struct {
	Type    string
	Captcha struct {
		Img    string `json:"img-url"`
		Key    string `json:"key"`
		Status string `json:"status"`
		Page   string `json:"captcha-page"`

		WorkURL string `json:"work-url"`
		Work    *work
	}
}

func (r *response) challenge(t *testing.T) challenge {
	t.Helper()
	var c challenge
	if err := json.Unmarshal([]byte(r.body), &c); err != nil {
		t.Fatalf("%v in %s", err, r.body)
	}
	return c
}

// TestInlineCaptcha draws the picture itself, as a front end of the inline kind does.
func TestInlineCaptcha(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	v := visitor(t)
	ajax := []string{"X-Requested-With", "XMLHttpRequest", "Accept", "application/json"}

	c := v.get(g.url+"/api/list", ajax...).must(t, 200, `"type":"captcha"`).challenge(t)
	if img := v.get(c.Captcha.Img); img.StatusCode != 200 || !strings.HasPrefix(img.Header.Get("Content-Type"), "image/") {
		t.Errorf("picture: %d %s", img.StatusCode, img.Header)
	}
	check := func(key, rep string) *response {
		return v.get(g.url+"/checkcaptcha?"+url.Values{"key": {key}, "rep": {rep}}.Encode(), ajax...)
	}
	wrong := check(c.Captcha.Key, "111").must(t, 200, `"status":"failed"`).challenge(t)
	if wrong.Captcha.Key == c.Captcha.Key {
		t.Error("a wrong answer brought no new key")
	}
	check(c.Captcha.Key, testAnswer).must(t, 200, "captcha-page") // spent: no success
	ok := check(wrong.Captcha.Key, testAnswer).must(t, 200, `{"type":"captcha","captcha":{"status":"success"}}`)
	if !strings.Contains(strings.Join(ok.Header.Values("Set-Cookie"), "\n"), "spravka=") {
		t.Errorf("no spravka: %v", ok.Header)
	}
	v.get(g.url+"/api/list", ajax...).must(t, 200, "site got GET /api/list")
	check(wrong.Captcha.Key, testAnswer).must(t, 200, `"type":"captcha"`) // an answer counts once
}

// TestReasonsInWords: who is asked reads whether it is for their network or for their own pace, on a page, on the page of a form and in
// JSON.
func TestReasonsInWords(t *testing.T) {
	t.Parallel()
	g := configured(t, signedConfig+`
    verdict: {limits: [{window: 1h, requests: 3, ban: 1h}]}
processor: {exempt: []}
`, site(t).URL)
	told := func(v *client, name, words string) {
		t.Helper()
		v.get(v.get(g.url+"/").must(t, 302, "").Header.Get("Location")).must(t, 200, words)
		v.do("POST", g.url+"/post", "a=b", "Content-Type", "application/x-www-form-urlencoded").must(t, 200, words)
		v.get(g.url+"/", "X-Requested-With", "XMLHttpRequest").must(t, 200, `"reason":"`+name+`"`)
	}
	reader := from(t, "203.0.113.1")
	reader.header.Set("Cookie", signed(t, "reader"))
	eventually(t, "a ban for pace", func() bool { return reader.get(g.url+"/").StatusCode == 302 })
	told(reader, "pace", "You have asked for a lot of pages in a short time.")
	g.ban("ip:203.0.113.2", "10m")
	told(from(t, "203.0.113.2"), "network", "Requests from your network look like those of a program.")
}
