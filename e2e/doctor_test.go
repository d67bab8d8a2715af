package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDoctor: of a good gateway nothing is bad; then all visitors have one address, the keys lie open, the service is away and the
// private listener is for all, and the doctor says what to do of each.
func TestDoctor(t *testing.T) {
	t.Parallel()
	text := "lists: {crawlers: {enabled: false}}\nservices: [{name: shop, upstream: {urls: [%q]}}]\n"
	file := configFile(t, text, site(t).URL)
	g := start(t, "serve", "--config", file)
	f := func(code int, file string, want ...string) {
		t.Helper()
		got, out := command(t, "doctor", "--config", file, "--admin", strings.TrimPrefix(g.admin, "http://"), "--data-dir", g.dir)
		if got != code {
			t.Errorf("status %d\n%s", got, out)
		}
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("it does not say %q:\n%s", w, out)
			}
		}
	}
	f(0, file, "ok    configuration", "ok    keys", "ok    disk", "shop at http://127.0.0.1", "ok    gateway        it runs and is ready")
	g.ban("ip:127.0.0.1", "10m")
	for range 60 {
		visitor(t).browse().get(g.url + "/")
	}
	eventually(t, "the journal has the requests", func() bool {
		_, out := command(t, "top", "--by", "ip", "--admin", g.admin, "--data-dir", g.dir)
		return strings.Contains(out, "60")
	})
	f(1, file, "all your visitors have one address, 127.0.0.1: is a balancer before you?", "do: name the balancer in identity.trusted_proxies", "1 finding bad",
		"none of 60 visitors who were sent to it came there: does a proxy before the gateway take a prefix off, or change Host?")
	v := visitor(t).browse()
	v.get(v.get(g.url+"/").must(t, 302, "").Header.Get("Location")).must(t, 200, "")
	f(1, file, "ok    captcha page   visitors come to it")
	if err := os.Chmod(filepath.Join(g.dir, "keys.json"), 0o644); err != nil {
		t.Fatal(err)
	}
	f(1, configFile(t, text, "http://127.0.0.1:1"), "keys.json can be read by others", "do: chmod 600", "shop at http://127.0.0.1:1 does not answer", "3 findings bad")
	code, out := command(t, "doctor", "--json", "--config", file, "--admin", "0.0.0.0:1", "--data-dir", g.dir)
	var told struct {
		Findings []struct{ State, What, Says, Do string }
	}
	line, _, _ := strings.Cut(out, "\n")
	if err := json.Unmarshal([]byte(line), &told); err != nil || code != 1 || !strings.Contains(out, "can be reached from other machines") {
		t.Errorf("--json: %d %v %s", code, err, out)
	}
	all := configFile(t, text+"admin: {listen: %q}\ndata_dir: %q\n", site(t).URL, strings.TrimPrefix(g.admin, "http://"), g.dir)
	if _, out := command(t, "doctor", "--config", all); !strings.Contains(out, "it runs and is ready") || strings.Contains(out, "the gateway's user") {
		t.Errorf("the file alone says where the gateway is: %s", out)
	}
	if code, out := command(t, "doctor", "--config", configFile(t, "colour: blue\n")); code != 1 || !strings.Contains(out, "colour: unknown key") {
		t.Errorf("a bad file: %d %s", code, out)
	}
}
