package second

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/miekg/dns"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is one that tests set.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func opinions(t *testing.T, cfg Config) (*Opinions, *clock) {
	t.Helper()
	cfg.Name = "it"
	c := &clock{at: time.Unix(1_800_000_000, 0)}
	o, err := New([]Config{cfg}, Deps{Now: c.now, Log: zerolog.Nop(), Metrics: metrics.NewSet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Close() })
	return o, c
}

// listServer is a DNS server with a list in the zone uribl.test. It returns its address and the names that it was asked.
func listServer(t *testing.T, records map[string]string) (addr string, asked func() []string) {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var names []string
	up := make(chan struct{})
	server := &dns.Server{PacketConn: pc, NotifyStartedFunc: func() { close(up) }, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		name := q.Question[0].Name
		mu.Lock()
		names = append(names, name)
		mu.Unlock()
		a := new(dns.Msg).SetReply(q)
		switch answer := records[name]; answer {
		case "":
			a.Rcode = dns.RcodeNameError
		case "fails":
			a.Rcode = dns.RcodeServerFailure
		default:
			rr, err := dns.NewRR(name + " 60 IN A " + answer)
			if err != nil {
				t.Error(err)
			}
			a.Answer = append(a.Answer, rr)
		}
		_ = w.WriteMsg(a)
	})}
	done := make(chan error, 1)
	go func() { done <- server.ActivateAndServe() }()
	<-up
	t.Cleanup(func() {
		_ = server.Shutdown()
		<-done
	})
	return pc.LocalAddr().String(), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(names)
	}
}

// TestDNS asks a list: registered domains and addresses that are listed are bad, nothing is good, and an answer that no list
// gives is a failure.
func TestDNS(t *testing.T) {
	addr, asked := listServer(t, map[string]string{
		"pills.example.uribl.test.": "127.0.0.4", "spam.co.uk.uribl.test.": "127.0.0.2", "2.0.0.127.uribl.test.": "127.0.0.2",
		"refused.example.uribl.test.": "127.255.255.254", "hijacked.example.uribl.test.": "203.0.113.80", "broken.example.uribl.test.": "fails",
	})
	o, _ := opinions(t, Config{Kind: kindDNS, Zone: "uribl.test", Server: addr, Timeout: 20 * time.Second})
	f := func(want Says, why string, hosts ...string) {
		t.Helper()
		got := o.Ask(t.Context(), []string{"it"}, Question{Hosts: hosts})
		if len(got) != 1 || got[0].Says != want || !strings.Contains(got[0].Why, why) {
			t.Errorf("%v: %v, want %v because %q", hosts, got, want, why)
		}
	}
	f(Bad, "pills.example is listed as 127.0.0.4", "www.shop.PILLS.example.")
	f(Bad, "spam.co.uk is listed", "good.example", "a.b.spam.co.uk")
	f(Bad, "2.0.0.127 is listed", "127.0.0.2")
	f(Unsure, "good.example is not listed", "good.example")
	f(Unsure, "which says nothing", "refused.example")
	f(Unsure, "which says nothing", "hijacked.example")
	f(Unsure, "look up", "broken.example")
	f(Unsure, "nothing that can be listed")
	f(Unsure, "nothing that can be listed", "localhost", "co.uk")
	if n := len(asked()); n != len(slices.Compact(slices.Sorted(slices.Values(asked()))))+retried(asked()) {
		t.Errorf("something was asked twice: %v", asked())
	}
	if got := listName("2001:db8::1"); got != "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2" {
		t.Errorf("the name of an address is %s", got)
	}
	before := len(asked())
	f(Unsure, "", "a.example", "b.example", "c.example", "d.example", "e.example", "f.example", "g.example")
	if n := len(asked()) - before; n != maxHosts {
		t.Errorf("%d hosts of one message were asked about", n)
	}
}

// retried counts the repetitions of what the server failed: the resolver asks again.
func retried(names []string) (n int) {
	for _, name := range names {
		if strings.HasPrefix(name, "broken.") {
			n++
		}
	}
	return max(n-1, 0)
}

// TestHTTP asks a service, which gets what the configuration says and nothing more.
func TestHTTP(t *testing.T) {
	var mu sync.Mutex
	var got []string
	status, answer := 200, `{"verdict":"bad","reason":"it is\nlike others","more":1}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Method+" "+r.Header.Get("Authorization")+" "+string(body))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	o, c := opinions(t, Config{Kind: kindHTTP, URL: server.URL, Token: "t", Send: []string{"text"}, Timeout: 30 * time.Second})
	n := 0
	f := func(want Says, why, text string) {
		t.Helper()
		said := o.Ask(t.Context(), []string{"it", "nobody"}, Question{
			Service: "shop", Route: "POST /c", Domain: "/blog", Score: 0.5, Message: map[string]any{"text": text, "ip": "192.0.2.1"},
		})
		if said[0].Says != want || !strings.Contains(said[0].Why, why) || said[1].Says != Unsure {
			t.Errorf("%q: %v, want %v %q", text, said, want, why)
		}
		n++
	}
	says := func(s int, a string) {
		mu.Lock()
		defer mu.Unlock()
		status, answer = s, a
	}
	f(Bad, "it is like others", "one")
	var sent struct {
		Version int
		Message map[string]any
	}
	if len(got) != 1 || !strings.HasPrefix(got[0], "POST Bearer t ") || strings.Contains(got[0], "192.0.2") ||
		json.Unmarshal([]byte(got[0][len("POST Bearer t "):]), &sent) != nil || sent.Version != 1 || sent.Message["text"] != "one" {
		t.Errorf("the service got %q", got)
	}
	says(200, `{"verdict":"good"}`)
	f(Bad, "it is like others", "one") // remembered
	f(Good, "", "two")
	c.add(2 * time.Hour)
	f(Good, "", "one")
	for i, bad := range []string{`{"verdict":"maybe"}`, `nonsense`} {
		says(200, bad)
		f(Unsure, "", fmt.Sprint("bad ", i))
	}
	for i := range pauseAfter - 2 {
		says(200, "nonsense")
		f(Unsure, "", fmt.Sprint("worse ", i))
	}
	before := len(got)
	f(Unsure, "it is not asked for a while", "three")
	says(200, `{"verdict":"good"}`)
	if len(got) != before {
		t.Error("it was asked all the same")
	}
	f(Good, "", "one") // what is known is still known
	c.add(time.Minute)
	f(Good, "", "three")
	says(500, `{"verdict":"good"}`)
	f(Unsure, "500", "four")
	says(200, `{"verdict":"good","reason":"`+strings.Repeat("x", maxAnswer)+`"}`)
	f(Unsure, "more than", "five")
}

// TestSlow: who does not answer in time, or is asked too much at once, has no opinion.
func TestSlow(t *testing.T) {
	var under atomic.Int32
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		under.Add(1)
		<-release
	}))
	defer server.Close()
	defer close(release)
	o, _ := opinions(t, Config{Kind: kindHTTP, URL: server.URL, Timeout: 2 * time.Second})
	ask := func(text string) Opinion {
		return o.Ask(t.Context(), []string{"it"}, Question{Message: map[string]any{"text": text}})[0]
	}
	var late Opinion
	var wg sync.WaitGroup
	wg.Go(func() { late = ask("slow") })
	for i := range concurrency - 1 {
		wg.Go(func() { ask(fmt.Sprint("slow ", i)) })
	}
	for begun := time.Now(); under.Load() < concurrency && time.Since(begun) < time.Minute; {
		time.Sleep(time.Millisecond)
	}
	if got := ask("another"); got.Says != Unsure {
		t.Errorf("%v", got)
	}
	wg.Wait()
	if late.Says != Unsure || !strings.Contains(late.Why, "deadline") {
		t.Errorf("late: %v", late)
	}
}

func TestValidate(t *testing.T) {
	f := func(c Config, wants ...string) {
		t.Helper()
		err := c.Validate()
		for _, want := range wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, want %q", c, err, want)
			}
		}
		if len(wants) == 0 && err != nil {
			t.Error(err)
		}
	}
	f(Config{Name: "a", Kind: kindDNS, Zone: "uribl.example"})
	f(Config{Name: "a", Kind: kindHTTP, URL: "https://judge.example/x"})
	f(Config{}, "name:", "kind:")
	f(Config{Name: "a", Kind: kindDNS, Zone: "http://x", Server: "x", Listed: []string{"y"}}, "zone:", "server:", "listed[0]:")
	f(Config{Name: "a", Kind: kindHTTP, URL: "judge", Timeout: time.Hour}, "url:", "timeout:")
}

func FuzzReadAnswer(f *testing.F) {
	f.Add([]byte(`{"verdict":"good","reason":"x"}`))
	f.Add([]byte(`{"verdict":5}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		o, err := readAnswer(answer)
		if err == nil && (o.Says > Bad || len([]rune(o.Why)) > maxReason) || err != nil && o != (Opinion{}) {
			t.Errorf("%+v, %v", o, err)
		}
	})
}
