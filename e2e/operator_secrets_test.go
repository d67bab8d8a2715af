package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"antirobot/spravka"
)

// TestPitfall05ExampleKeyIsRefused starts with the key shown in the documentation, alone and as an old key.
func TestPitfall05ExampleKeyIsRefused(t *testing.T) {
	t.Parallel()
	ring, err := spravka.NewRing([]spravka.Key{spravka.ExampleKey()})
	if err != nil {
		t.Fatal(err)
	}
	rotated, err := ring.Rotate(time.Now(), 10*365*24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for what, r := range map[string]*spravka.Ring{"alone": ring, "as an old key": rotated} {
		keys := filepath.Join(t.TempDir(), "keys.json")
		if err := spravka.SaveRing(keys, r); err != nil {
			t.Fatal(err)
		}
		file := configFile(t, "keys: {file: %q}\nservices: [{name: a, upstream: {urls: [%q]}}]\n", keys, "http://127.0.0.1:1")
		code, out := command(t, "serve", "--config", file, "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
		if code == 0 || !strings.Contains(out, "example key") || !strings.Contains(out, "antirobot keys make") {
			t.Errorf("%s: %d %s", what, code, out)
		}
	}
	t.Run("others may read the keys", func(t *testing.T) {
		dir := t.TempDir()
		if code, out := command(t, "keys", "make", "--data-dir", dir); code != 0 {
			t.Fatalf("keys make: %d %s", code, out)
		}
		if info, err := os.Stat(filepath.Join(dir, "keys.json")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode of the new ring: %v %v", info, err)
		}
		if err := os.Chmod(filepath.Join(dir, "keys.json"), 0o644); err != nil {
			t.Fatal(err)
		}
		code, out := command(t, "serve", "--upstream", "http://127.0.0.1:1", "--data-dir", dir, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
		if code == 0 || !strings.Contains(out, "chmod 600") {
			t.Errorf("%d %s", code, out)
		}
	})
}

// TestPitfall05RotationLogsNobodyOut rotates the keys while a visitor has a pass and an open captcha, restarts, and then
// removes the old key.
func TestPitfall05RotationLogsNobodyOut(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	g.ban("ip:127.0.0.1", "10m")
	v, half := visitor(t), visitor(t).speaks("de")
	g.earn(v, "/")
	form := formOf(t, half.get(half.get(g.url+"/half").Header.Get("Location")).body)
	form.Set("rep", testAnswer)
	old := v.pass(t, g.url)

	if code, out := command(t, "keys", "rotate", "--data-dir", g.dir); code != 0 {
		t.Fatalf("keys rotate: %d %s", code, out)
	}
	g.api("POST", "/api/reload", nil)
	v.get(g.url+"/").must(t, 200, "site got")
	half.do("POST", g.url+"/checkcaptcha", form.Encode(), "Content-Type", "application/x-www-form-urlencoded").must(t, 303, "")
	half.get(g.url+"/half").must(t, 200, "site got")
	if before, after := strings.SplitN(old, ".", 2)[0], strings.SplitN(half.pass(t, g.url), ".", 2)[0]; before == after {
		t.Errorf("both passes are sealed by key %s", before)
	}
	g.kill(syscall.SIGTERM)
	g.run()
	v.get(g.url+"/").must(t, 200, "site got")
	code, out := command(t, "keys", "list", "--data-dir", g.dir)
	if code != 0 || strings.Count(out, "opens") != 2 || strings.Count(out, "seals") != 1 {
		t.Errorf("keys list: %d\n%s", code, out)
	}
	raw, err := os.ReadFile(filepath.Join(g.dir, "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`"secret":\s*"([^"]+)"`).FindAllSubmatch(raw, -1) {
		if strings.Contains(out, string(m[1])) || strings.Contains(g.logs.String(), string(m[1])) {
			t.Error("a secret is shown")
		}
	}
	if err := os.Remove(filepath.Join(g.dir, "keys.json")); err != nil { // the keys have leaked: nothing of theirs counts
		t.Fatal(err)
	}
	if code, out := command(t, "keys", "make", "--data-dir", g.dir); code != 0 {
		t.Fatalf("keys make: %d %s", code, out)
	}
	g.api("POST", "/api/reload", nil)
	v.get(g.url+"/").must(t, 302, "")
}

// TestCaptchaTestAnswerIsLoud: an operator who switches the protection off for a test can't overlook it.
func TestCaptchaTestAnswerIsLoud(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	if g.logs.find(func(s string) bool {
		return strings.Contains(s, `"level":"warn"`) && strings.Contains(s, "captcha.test_answer")
	}) == "" {
		t.Error("the log does not warn")
	}
	g.ban("ip:127.0.0.1", "10m")
	v := visitor(t)
	r := v.get(g.url + "/")
	page := v.get(r.Header.Get("Location")).must(t, 200, "Test mode")
	if r.Header.Get("X-Antirobot-Test") == "" || page.Header.Get("X-Antirobot-Test") == "" {
		t.Errorf("the answers are not marked: %v", r.Header)
	}
	plain := start(t, "serve", "--upstream", site(t).URL)
	plain.ban("ip:127.0.0.1", "10m")
	if r := visitor(t).get(plain.url + "/"); r.Header.Get("X-Antirobot-Test") != "" {
		t.Error("an ordinary gateway marks its answers as a test's")
	}
	if r := plain.solve(visitor(t), "/"); r.setsCookie("spravka") {
		t.Error("the test answer is right on an ordinary gateway")
	}
	if code, out := command(t, "serve", "--upstream", "http://127.0.0.1:1", "--captcha-test-answer", "abc", "--data-dir", t.TempDir()); code == 0 || !strings.Contains(out, "captcha.test_answer") {
		t.Errorf("a test answer of letters: %d %s", code, out)
	}
}

// TestPitfall15NoSecretsAnywhere goes through a session with every kind of secret, and then reads everything that the
// gateway wrote and reports.
func TestPitfall15NoSecretsAnywhere(t *testing.T) {
	t.Parallel()
	g := start(t, "serve", "--log-level", "debug", "--captcha-test-answer", testAnswer, "--config", configFile(t, `
identity: {trusted_proxies: [127.0.0.1]}
services:
  - name: site
    upstream: {urls: [%q]}
    requests: {xml_paths: [/xml]}
    captcha: {partners: [{name: acme, key: partner-key-0123456789}]}
    cookies:
      login: {algorithm: hmac, keys: [{key: login-key-login-key-login-key-123}]}
      service_cookie: {name: sid, keys: [{key: %s}]}
`, site(t).URL, serviceKey))
	secrets := map[string]string{
		"answer": testAnswer, "admin token": g.token, "partner's key": "partner-key-0123456789", "service key": serviceKey, "login key": "login-key-login-key-login-key-123",
		"session of the service": "sessionsecret123", "Authorization": "Basic dXNlcjpwYXNz", "query": "querysecret456", "form": "formsecret789",
		"login name": "alice-the-visitor", "service cookie's value": "visitor-4711",
	}
	login, err := spravka.SignService("L", "alice-the-visitor", time.Now(), []byte("login-key-login-key-login-key-123"))
	if err != nil {
		t.Fatal(err)
	}
	secrets["login cookie"] = login
	secrets["service cookie"] = strings.TrimPrefix(signed(t, "visitor-4711"), "sid=")
	const addr = "203.0.113.1"
	v := from(t, addr).speaks("en")
	v.header.Set("Authorization", secrets["Authorization"])
	v.header.Set("Cookie", "session=sessionsecret123")
	v.get(g.url+"/?q=querysecret456").must(t, 200, "")
	g.ban("ip:"+addr, "10m")
	g.ban("L:alice-the-visitor", "10m")
	v.get(g.url+"/", "Cookie", "L="+login+"; "+signed(t, "visitor-4711")).must(t, 302, "")
	r := v.get(g.url + "/page?q=querysecret456")
	form := formOf(t, v.get(r.Header.Get("Location")).body)
	secrets["captcha key"] = form.Get("key")
	form.Set("rep", "000000")
	v.do("POST", g.url+"/checkcaptcha", form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	v.header.Del("Cookie")
	g.earn(v, "/")
	secrets["pass"] = v.pass(t, g.url)
	v.get(g.url+"/spend").must(t, 200, "site got")
	c := from(t, addr).get(g.url+"/api", "X-Requested-With", "XMLHttpRequest", "Cookie", "spravka=broken").challenge(t)
	secrets["inline key"] = c.Captcha.Key
	v.get(c.Captcha.Img)
	v.get(g.url + "/checkcaptcha?rep=" + testAnswer + "&key=" + c.Captcha.Key)
	page := from(t, addr).speaks("fr").do("POST", g.url+"/post", "text=formsecret789", "Content-Type", "application/x-www-form-urlencoded").must(t, 200, `name="rep"`)
	secrets["sealed form"] = formOf(t, page.body).Get("saved")
	from(t, addr).get(g.url + "/xml?key=partner-key-0123456789&query=x")
	from(t, addr).get(g.url + "/xcheckcaptcha?key=bad&rep=" + testAnswer)
	g.tryAPI("POST", "/api/bans", map[string]string{"subject": "ip:bad", "ttl": "1h", "reason": "x"})
	req, _ := http.NewRequest("GET", g.admin+"/api/status", nil)
	req.Header.Set("Authorization", "Bearer wrong-token-0123456789")
	if res, err := http.DefaultClient.Do(req); err == nil {
		res.Body.Close()
	}
	secrets["wrong admin token"] = "wrong-token-0123456789"
	keys, err := os.ReadFile(filepath.Join(g.dir, "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	secrets["ring's secret"] = string(regexp.MustCompile(`"secret":\s*"([^"]+)"`).FindSubmatch(keys)[1])

	told := map[string]string{}
	for _, path := range []string{"/metrics", "/api/status", "/api/bans", "/api/lists", "/api/lists/ban", "/healthz", "/readyz", "/api/subjects/ip:" + addr, "/api/subjects/L:alice-the-visitor"} {
		told[path] = string(g.api("GET", path, nil))
	}
	told["a decision"] = string(g.api("GET", "/api/decisions/"+r.Header.Get("X-Request-Id"), nil))
	g.kill(syscall.SIGTERM) // writes the log out
	told["the log"] = g.logs.String()
	if !strings.Contains(told["the log"], `"message":"decision"`) || !strings.Contains(told["the log"], `"message":"request"`) {
		t.Fatal("the log has neither access lines nor decisions: this test sees nothing")
	}
	for what, secret := range secrets {
		if len(secret) < 6 {
			t.Fatalf("the test has no %s", what)
		}
		for where, text := range told {
			if what == "answer" { // digits stand in times too
				text = regexp.MustCompile(`\d+\.\d+|"time":"[^"]*"`).ReplaceAllString(text, "")
			}
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("%s stands in %s: …%s…", what, where, text[max(0, i-200):min(len(text), i+len(secret)+50)])
			}
		}
	}
}
