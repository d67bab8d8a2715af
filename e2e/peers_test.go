package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"antirobot/store/redisstore/redistest"
)

// everywhere is what is read of an answer with gateways=all.
type everywhere struct {
	Items []struct {
		Path    string
		Gateway string
		Name    string
		Entries int
	}
	Session  *struct{ Requests float64 }
	Gateways []struct{ Name, Error string }
}

// TestGatewaysAsked: two gateways share a store; each keeps its own journal, and the console of one shows both, names whose row is
// whose, and says who is gone when one has been killed. A seal is good for no other call, and nobody else's address is asked.
func TestGatewaysAsked(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	up, secret := site(t).URL, secretFile(t)
	var all []*gateway
	for _, name := range []string{"anna", "berta"} {
		file := configFile(t, "admin: {name: %s, advertise: 127.0.0.1}\njournal: {humans: 1}\nidentity: {trusted_proxies: [127.0.0.1]}\n%s", name, "")
		all = append(all, serve(t, up, "--config", file, "--store", "redis://"+r.Addr, "--secret-file", secret))
	}
	a, b := all[0], all[1]
	from(t, "203.0.113.5").get(a.url+"/at-anna").must(t, 200, "")
	_, number, _ := strings.Cut(from(t, "203.0.113.6").get(b.url+"/at-berta").must(t, 200, "").body, "X-Request-Id: ")
	number = number[:26]
	ask := func(path string) (got everywhere) {
		t.Helper()
		if err := json.Unmarshal(a.api("GET", path, nil), &got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	var got everywhere
	eventually(t, "both journals are shown", func() bool {
		got = ask("/api/journal?q=kind:request&gateways=all")
		return len(got.Items) == 2
	})
	if got.Items[0].Gateway != "berta" || got.Items[0].Path != "/at-berta" || got.Items[1].Gateway != "anna" || len(got.Gateways) != 2 || got.Gateways[1].Error != "" {
		t.Errorf("together: %+v", got)
	}
	if alone := ask("/api/journal?q=kind:request"); len(alone.Items) != 1 || alone.Gateways != nil {
		t.Errorf("alone: %+v", alone)
	}
	if got = ask("/api/journal/" + number + "?gateways=all"); len(got.Items) != 1 || got.Items[0].Gateway != "berta" {
		t.Errorf("the number of a request at the other: %+v", got)
	}
	a.api("GET", "/api/decisions/"+number+"?gateways=all", nil)
	if got = ask("/api/subjects/ip:203.0.113.6?gateways=all"); got.Session == nil {
		t.Errorf("a subject at the other: %+v", got)
	}
	if got = ask("/api/journal/top?by=path&gateways=all"); len(got.Items) != 2 {
		t.Errorf("top: %+v", got)
	}
	if out, err := a.command("why", number); err != nil || !strings.Contains(out, "/at-berta") {
		t.Errorf("why: %v %s", err, out)
	}
	if out, err := a.command("tail", "kind:request", "--follow=false"); err != nil || !strings.Contains(out, "/at-anna") || !strings.Contains(out, number+" berta\n") {
		t.Errorf("tail: %v %s", err, out)
	}
	if out, err := a.command("status"); err != nil || !strings.Contains(out, "gateway  anna ready") || !strings.Contains(out, "gateway  berta ready") {
		t.Errorf("status: %v %s", err, out)
	}

	b.kill(syscall.SIGKILL)
	if out, err := a.command("status"); err != nil || !strings.Contains(out, "not all is here; the gateway berta") {
		t.Errorf("status after one was killed: %v %s", err, out)
	}
	if got = ask("/api/journal?q=kind:request&gateways=all"); len(got.Items) != 1 || len(got.Gateways) != 2 || got.Gateways[1].Name != "berta" || got.Gateways[1].Error == "" {
		t.Errorf("one was killed: %+v", got)
	}
	if status, text := a.tryAPI("GET", "/api/decisions/"+number+"?gateways=all", nil); status != 404 || !strings.Contains(string(text), "the gateway berta did not answer") {
		t.Errorf("a number of the killed one: %d %s", status, text)
	}
	b.run()
	eventually(t, "the gateway that is back answers", func() bool {
		got = ask("/api/journal?q=kind:request&gateways=all")
		return fmt.Sprint(got.Gateways) == "[{anna } {berta }]"
	})
}
