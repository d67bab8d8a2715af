package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/servertest"
	"antirobot/verdict/bans"
)

// Every example of docs/api.md is run as written, and its answer has the documented shape.
func TestDocumentedExamples(t *testing.T) {
	servertest.Need(t, "curl")
	doc, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	g := startGateway(t)
	g.reload = []error{errors.Join(errors.New("services[0].upstreams: none is given"), errors.New("admin.listen: bad"))}
	addr := netip.MustParseAddr("198.51.100.4")
	ban := bans.Ban{
		Subject: identity.AddrSubject(addr), Until: time.Now().Add(10 * time.Minute), Source: bans.SourceProcessor,
		Score: 0.73, Threshold: 0.5, Reason: "formula: parts_missing, client_loads_1m, session_pages", Model: "default-3cad8aa2",
		Factors: [bans.MaxFactors]bans.Factor{
			{Name: "parts_missing", Value: 1, Amount: 2.5},
			{Name: "client_loads_1m", Value: 33, Amount: 1},
			{Name: "session_pages", Value: 34, Amount: 0.67},
		},
	}
	if err := g.cacher.Ban(context.Background(), ban); err != nil {
		t.Fatal(err)
	}
	rid, ok := request.ParseID("01KDZ6JQ4GF3V5N8X2C7B9W0TA")
	if !ok {
		t.Fatal("the documented request id does not parse")
	}
	d := g.ask(rid, addr.String(), "/prices")
	g.note(rid, &d, addr, "/prices")
	g.post("198.51.100.9", "do regexpCheck(regexp=\"(?s).*pills\") mark nopills score 1\nif not nopills stop as SPAM", "buy pills")

	calls := record(t, g)
	blocks := block.FindAllStringSubmatch(string(doc), -1)
	ran := 0
	for i, b := range blocks {
		if b[1] != "sh" {
			continue
		}
		if i+1 == len(blocks) || blocks[i+1][1] == "sh" {
			t.Fatalf("no answer is documented for\n%s", b[3])
		}
		ran++
		runExample(t, g, b[3], blocks[i+1])
	}
	if ran < 20 {
		t.Errorf("only %d examples were found", ran)
	}
	checkDescribed(t, g, calls)
	// Every endpoint has an example.
	for _, r := range g.srv.routes {
		path, _, _ := strings.Cut(r.path, "{}")
		_, end, _ := strings.Cut(r.path, "{}")
		found := false
		for _, b := range blocks {
			cmd := b[3]
			method := "GET"
			if m := regexp.MustCompile(`-X (\w+)`).FindStringSubmatch(cmd); m != nil {
				method = m[1]
			}
			found = found || b[1] == "sh" && method == r.method && strings.Contains(cmd, "$ADMIN"+path) && strings.Contains(cmd, end)
		}
		if !found {
			t.Errorf("no example of %s %s", r.method, r.path)
		}
	}
}

func runExample(t *testing.T, g *gateway, script string, want []string) {
	t.Helper()
	const mark = "\nstatus "
	cmd := exec.Command("sh", "-c", strings.Replace(script, "curl -s", `curl -s -w '`+mark+`%{stderr}%{http_code}'`, 1))
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "ADMIN=http://"+g.addr, "TOKEN="+testToken, "no_proxy=*")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, script, stderr.String())
	}
	body, _, _ := strings.Cut(string(out), mark)
	if want[1] == "text" {
		if strings.TrimSpace(body) != strings.TrimSpace(want[3]) && !strings.HasPrefix(string(out), want[3]) {
			t.Errorf("got %q, want %q from\n%s", out, want[3], script)
		}
		return
	}
	status := want[2]
	if status == "" {
		status = "200"
	}
	if got := strings.TrimSpace(stderr.String()); got != status {
		t.Errorf("status %s, want %s from\n%s%s", got, status, script, body)
	}
	var a, b any
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatalf("%v in %q from\n%s", err, body, script)
	}
	if err := json.Unmarshal([]byte(want[3]), &b); err != nil {
		t.Fatalf("the documented answer is no JSON: %v\n%s", err, want[3])
	}
	for _, d := range shapeDiffs("", a, b) {
		t.Errorf("%s\nfrom %s%s", d, script, body)
	}
}

// shapeDiffs compares the keys and kinds of two JSON values, element by element in arrays that have any.
func shapeDiffs(at string, got, want any) (out []string) {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s: got %T, an object is documented", at, got)}
		}
		for k := range w {
			if _, ok := g[k]; !ok {
				out = append(out, fmt.Sprintf("%s.%s is documented and was not answered", at, k))
			}
		}
		for k, v := range g {
			if _, ok := w[k]; !ok {
				out = append(out, fmt.Sprintf("%s.%s was answered and is not documented", at, k))
				continue
			}
			out = append(out, shapeDiffs(at+"."+k, v, w[k])...)
		}
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return []string{fmt.Sprintf("%s: got %v, %d elements are documented", at, got, len(w))}
		}
		for i := range g {
			out = append(out, shapeDiffs(fmt.Sprintf("%s[%d]", at, i), g[i], w[i])...)
		}
	default:
		if fmt.Sprintf("%T", got) != fmt.Sprintf("%T", want) {
			return []string{fmt.Sprintf("%s: got %T, %T is documented", at, got, want)}
		}
		_, err := time.Parse(time.RFC3339, fmt.Sprint(want))
		if _, goterr := time.Parse(time.RFC3339, fmt.Sprint(got)); err == nil && goterr != nil {
			out = append(out, fmt.Sprintf("%s: %v is no time", at, got))
		}
	}
	return out
}
