package e2e

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"antirobot/servertest"
)

// card is a formula that bans after a number of pages.
func card(version string, pages int) string {
	return fmt.Sprintf("version: %s\nbias: -4\nfactors:\n  - {name: session_pages, why: many pages, bins: [{from: %d, weight: 8}]}\n", version, pages)
}

// banned requests pages until it is stopped, and returns after how many; 0 if it never was.
func banned(t *testing.T, g *gateway, addr string, most int) int {
	t.Helper()
	v := from(t, addr)
	v.Jar = nil
	for n := range most {
		if r := v.get(fmt.Sprintf("%s/page/%d", g.url, n)); r.StatusCode == 302 {
			return n
		}
		time.Sleep(5 * time.Millisecond)
	}
	return 0
}

// TestFormulaIsReloaded: a model is replaced while the gateway runs; one that does not fit changes nothing and is reported,
// and a candidate next to it only counts.
func TestFormulaIsReloaded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	live, shadow := filepath.Join(dir, "live.yaml"), filepath.Join(dir, "shadow.yaml")
	write(t, live, card("one", 8))
	write(t, shadow, card("candidate", 1000))
	g := configured(t, `
identity: {trusted_proxies: [127.0.0.1]}
formula: {model: %q, shadow: %q}
services: [{name: shop, upstream: {urls: [%q]}}]
`, live, shadow, site(t).URL)

	if n := banned(t, g, "203.0.113.1", 64); n < 8 {
		t.Fatalf("banned after %d pages", n)
	}
	var story struct {
		Bans []struct {
			Score   float64            `json:"score"`
			Model   string             `json:"model"`
			Factors map[string]float64 `json:"factors"`
		} `json:"items"`
	}
	if err := json.Unmarshal(g.api("GET", "/api/bans", nil), &story); err != nil || len(story.Bans) == 0 {
		t.Fatalf("%v, %+v", err, story)
	}
	if b := story.Bans[0]; !strings.HasPrefix(b.Model, "one-") || b.Score < 0.9 || b.Factors["session_pages"] < 8 {
		t.Errorf("the ban says %+v", b)
	}
	if n := g.metric(`antirobot_formula_shadow_total{would="free"}`); n < 1 {
		t.Errorf("the candidate would have freed nobody: %v", n)
	}
	if n := g.metric("antirobot_formula_shadow_difference_count"); n < 1 {
		t.Errorf("no difference was measured: %v", n)
	}

	// A model that does not fit is refused, with the line, and the one in use stays.
	write(t, live, strings.Replace(card("two", 8), "session_pages", "session_page", 1))
	status, body := g.tryAPI("POST", "/api/reload", nil)
	if status != 422 || !strings.Contains(string(body), "formula.model") || !strings.Contains(string(body), `did you mean \"session_pages\"?`) || !strings.Contains(string(body), "line 4") {
		t.Errorf("a bad model: %d %s", status, body)
	}
	_ = g.cmd.Process.Signal(syscall.SIGHUP)
	if g.logs.find(func(s string) bool {
		return strings.Contains(s, "reload refused") && strings.Contains(s, "session_page")
	}) == "" {
		t.Errorf("the log says nothing of it:\n%s", tail(g.logs.String(), 2000))
	}
	if n := g.metric(`antirobot_formula_info{role="live",version="one-`); n != 1 {
		t.Errorf("the model in use: %v", n)
	}
	if n := banned(t, g, "203.0.113.2", 64); n < 8 {
		t.Errorf("after a refused reload banned after %d pages", n)
	}

	write(t, live, card("three", 1000))
	g.api("POST", "/api/reload", nil)
	if n := banned(t, g, "203.0.113.3", 40); n != 0 {
		t.Errorf("by the new model banned after %d pages", n)
	}
	if one, three := g.metric(`role="live",version="one-`), g.metric(`role="live",version="three-`); one != 0 || three != 1 {
		t.Errorf("models in use: one %v, three %v", one, three)
	}
	if code, out := command(t, "check-config", configFile(t, "formula: {model: %q}\nservices: [{name: a, upstream: {urls: [\"http://127.0.0.1:1\"]}}]\n", filepath.Join(dir, "absent.json"))); code == 0 || !strings.Contains(out, "formula.model") {
		t.Errorf("check-config of an absent model: %d %s", code, out)
	}
}

// TestEventsExport: visitors' actions are exported as factors with labels, from the running gateway and from its directory,
// without a trace of who they were; and a model can be trained with them.
func TestEventsExport(t *testing.T) {
	t.Parallel()
	ranges := listFile(t, `{"prefixes":[{"ipv4Prefix":"192.0.2.0/24"}]}`)
	g := configured(t, `
identity: {trusted_proxies: [127.0.0.1]}
processor: {training: {sample: 1}}
lists:
  ban: ["198.51.100.128/25 known"]
  crawlers: {own: [{name: findbot, user_agent: [findbot/], range_files: [%q]}]}
services: [{name: shop, verdict: {mode: observe}, upstream: {urls: [%q]}}]
`, ranges, site(t).URL)
	for n := range 12 {
		crawler, listed, person := from(t, fmt.Sprintf("192.0.2.%d", n)), from(t, fmt.Sprintf("198.51.100.%d", 130+n)), from(t, fmt.Sprintf("203.0.113.%d", n))
		for k := range 5 {
			crawler.get(fmt.Sprintf("%s/c/%d", g.url, k), "User-Agent", "FindBot/2.1")
			listed.get(fmt.Sprintf("%s/l/%d", g.url, k), "User-Agent", "curl/8.1")
			person.get(fmt.Sprintf("%s/p/%d", g.url, k))
		}
	}
	file := filepath.Join(t.TempDir(), "labelled.csv")
	counts := func(what string, args ...string) map[string]int {
		t.Helper()
		if code, out := command(t, append([]string{"events", "export", "--out", file}, args...)...); code != 0 {
			t.Fatalf("%s: %d %s", what, code, out)
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		rows, err := csv.NewReader(f).ReadAll()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		n := map[string]int{}
		for _, r := range rows[1:] {
			n[r[0]+" "+r[1]]++
		}
		return n
	}
	eventually(t, "factors", func() bool { return g.metric("antirobot_training_vectors_total") >= 70 })
	want := func(what string, got map[string]int, unlabelled bool) {
		t.Helper()
		if got["1 crawler"] < 24 || got["1 list"] < 24 || (got[" "] >= 24) != unlabelled {
			t.Errorf("%s: %v", what, got)
		}
	}
	running := []string{"--running", "--admin", g.admin, "--data-dir", g.dir}
	want("of the running gateway", counts("running", running...), false)
	want("all of it", counts("running", append(running, "--unlabelled")...), true)
	g.kill(syscall.SIGTERM)
	want("of the directory", counts("stopped", "--data-dir", g.dir), false)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"192.0.2.", "198.51.100.", "findbot", "curl"} {
		if strings.Contains(strings.ToLower(string(text)), secret) {
			t.Errorf("%q is in the export", secret)
		}
	}
	eight := filepath.Join(t.TempDir(), "card.yaml")
	write(t, eight, card("eight", 8))
	if code, out := command(t, "formula", "eval", "--model", eight, "--data", file); code == 0 || !strings.Contains(out, "both are needed") {
		t.Errorf("eval with robots alone: %d %s", code, out)
	}

	// Let those without label be people, for the training's sake.
	counts("stopped", "--data-dir", g.dir, "--unlabelled")
	text, err = os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, strings.ReplaceAll(string(text), "\n,,ip,", "\n0,told,ip,"))
	model := filepath.Join(t.TempDir(), "model.json")
	python := servertest.Python(t, "xgboost")
	if out, err := exec.Command(python, "../tools/train.py", "--data", file, "--out", model, "--trees", "10").CombinedOutput(); err != nil {
		t.Fatalf("train: %v\n%s", err, out)
	}
	code, out := command(t, "formula", "eval", "--model", model, "--data", file)
	if code != 0 || !strings.Contains(out, "ROC AUC 1.0000") || !strings.Contains(out, "Suggested threshold") {
		t.Errorf("eval: %d %s", code, out)
	}
	served := configured(t, "formula: {model: %q}\nservices: [{name: shop, upstream: {urls: [%q]}}]\n", model, site(t).URL)
	if served.metric(`antirobot_formula_info{role="live",version="xgboost-`) != 1 {
		t.Error("the trained model is not in use")
	}
}
