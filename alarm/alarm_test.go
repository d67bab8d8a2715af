package alarm

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func TestDefaultsAreValid(t *testing.T) {
	cfg := DefaultConfig()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	err := (&Config{Webhooks: []Webhook{{}, {URL: "ftp://x/"}, {URL: "https://x/", URLFile: "y"}, {URL: "https://x/", Format: "pigeon"}}}).Validate()
	for _, key := range []string{
		"webhooks[0]", "webhooks[1].url", "webhooks[2]", "webhooks[3].format",
	} {
		if !strings.Contains(err.Error(), key+":") {
			t.Errorf("%s is not reported", key)
		}
	}
}

// TestJudge: each alarm is called for by its sight, and not by what is just below.
func TestJudge(t *testing.T) {
	cfg := DefaultConfig()
	f := func(s Sight, want ...string) {
		t.Helper()
		var got []string
		for _, a := range cfg.judge(&s, 5, now) {
			got = append(got, a.Text)
			if a.Name == "" || a.Action == "" || strings.Contains(a.Text, "%!") {
				t.Errorf("%+v", a)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	stuck, solved, shown := Network{Tried: 2}, Network{Tried: 1, Solved: 1}, Network{}
	f(Sight{})
	f(Sight{Networks: append(slices.Repeat([]Network{stuck}, 19), shown, shown)})
	f(Sight{Networks: slices.Repeat([]Network{stuck, stuck, stuck, solved, solved, solved, solved}, 10)})
	f(Sight{Networks: slices.Repeat([]Network{stuck, stuck, stuck, solved, solved, solved, shown}, 10)},
		"people may be stuck at the captcha: 30 of 60 networks with answers have no right one")
	f(Sight{Machines: []string{"198.51.100.0/24"}}, "challenges are solved by machine from 198.51.100.0/24")
	f(Sight{Late: Share{1000, 100}, Before: Share{20000, 1001}})
	f(Sight{Late: Share{100, 90}, Before: Share{20000, 100}})
	f(Sight{Late: Share{1000, 100}, Before: Share{20000, 1000}},
		"more requests are blocked: 10 % of the last half hour's requests, 5 % on the day before")
	f(Sight{Lists: []List{{"tor", 23 * time.Hour}}})
	f(Sight{Lists: []List{{"tor", 25 * time.Hour}, {"new", 0}}}, "the list tor can't be read from its source: its copy is 25h0m0s old",
		"the list new can't be read from its source: it was never read")
	f(Sight{Shed: 5})
	f(Sight{Shed: 12}, "7 events or entries of the journal were dropped")
	f(Sight{Store: "no answer"}, "the store fails: no answer")
	f(Sight{Away: []string{"shop 10.0.0.1:80"}}, "shop 10.0.0.1:80 does not answer")
	f(Sight{Certificates: []Certificate{{"shop", now.Add(15 * 24 * time.Hour)}}})
	f(Sight{Certificates: []Certificate{{"shop", now.Add(13 * 24 * time.Hour)}, {"old", now.Add(-time.Hour)}}},
		"the certificate shop: it ends on 2026-12-05", "the certificate old: it ended on 2026-11-22")
	f(Sight{Obtaining: []string{"a.example: refused"}}, "no certificate could be obtained: a.example: refused")
}

// heard is a webhook that notes what it is told.
type heard struct {
	mu     sync.Mutex
	bodies []string
	answer []int // statuses, one for each call; then 200
}

func (h *heard) RoundTrip(r *http.Request) (*http.Response, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	text, _ := io.ReadAll(r.Body)
	h.bodies = append(h.bodies, string(text))
	status := http.StatusOK
	if len(h.answer) > 0 {
		status, h.answer = h.answer[0], h.answer[1:]
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(bytes.NewReader(nil)), Request: r}, nil
}

func (h *heard) said() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.bodies)
}

// TestWatch: an alarm is told when it begins, again after a time, and when it is over; a webhook that fails is told again.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.Webhooks = []Webhook{{URL: "https://hooks.example/secret"}}
		var mu sync.Mutex
		var s Sight
		see := func(next Sight) { mu.Lock(); s = next; mu.Unlock() }
		set := metrics.NewSet()
		w, err := New(cfg, Deps{Node: "gate", Log: zerolog.Nop(), Metrics: set, Look: func(time.Time) Sight { mu.Lock(); defer mu.Unlock(); return s }})
		if err != nil {
			t.Fatal(err)
		}
		h := &heard{answer: []int{503, 429}}
		w.hooks[0].client.Transport = h
		w.Start()
		defer w.Close()
		time.Sleep(time.Minute)
		see(Sight{Store: "no answer"})
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := h.said(); len(got) != 3 || got[0] != got[2] || !strings.Contains(got[2], `"text":"Antirobot on gate: the store fails: no answer. What to do: `) {
			t.Fatalf("a beginning: %q", got)
		}
		if a := w.Active(); len(a) != 1 || a[0].Name != "store-away" || a[0].Since.IsZero() {
			t.Errorf("active: %+v", a)
		}
		see(Sight{})
		time.Sleep(20 * time.Second) // two looks: not yet over
		see(Sight{Store: "no answer"})
		time.Sleep(2 * time.Hour)
		if got := h.said(); len(got) != 3 {
			t.Fatalf("told again too early: %q", got[3:])
		}
		time.Sleep(4 * time.Hour)
		if got := h.said(); len(got) != 4 {
			t.Fatalf("not told again: %q", got[3:])
		}
		see(Sight{})
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		got := h.said()
		var m struct {
			State, Node string
			Alarm       Alarm
		}
		if len(got) != 5 || json.Unmarshal([]byte(got[4]), &m) != nil || m.State != "off" || m.Node != "gate" || m.Alarm.Name != "store-away" {
			t.Fatalf("an end: %q", got[4:])
		}
		var b bytes.Buffer
		set.WritePrometheus(&b)
		for _, want := range []string{`antirobot_alarm_messages_total{result="sent"} 3`, `antirobot_alarms{alarm="store-away"} 0`} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("no %s in\n%s", want, b.String())
			}
		}
	})
}

// TestWebhooks: a real one gets JSON, one like Slack the text alone, and no error shows the address, which is a secret.
func TestWebhooks(t *testing.T) {
	var mu sync.Mutex
	got := map[string]string{}
	hooks := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		mu.Lock()
		got[r.URL.Path] = string(text)
		mu.Unlock()
		if r.URL.Path == "/gone" {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}
	}))
	defer hooks.Close()
	file := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(file, []byte(hooks.URL+"/slack\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.Webhooks = []Webhook{{URL: hooks.URL + "/json"}, {URLFile: file, Format: "slack"}, {URL: hooks.URL + "/gone"}, {URL: "http://127.0.0.1:1/secret"}}
	w, err := New(cfg, Deps{Node: "gate", Log: zerolog.Nop(), Metrics: metrics.NewSet(), Look: func(time.Time) Sight { return Sight{} }})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	states := w.Test(t.Context(), now)
	if got["/slack"] != `{"text":"Antirobot on gate: this is a test; alarms arrive here"}` || !strings.Contains(got["/json"], `"state":"test"`) || got["/elsewhere"] != "" {
		t.Errorf("they got %q", got)
	}
	if states[0].Error+states[1].Error != "" || !strings.Contains(states[2].Error, "answers 302") || states[3].Error == "" || strings.Contains(states[3].Error, "secret") {
		t.Errorf("%+v", states)
	}
	cfg.Webhooks[1].URLFile += "-away"
	if _, err := New(cfg, Deps{Metrics: metrics.NewSet()}); err == nil || !strings.Contains(err.Error(), "webhooks[1].url_file") {
		t.Errorf("a file that is away: %v", err)
	}
}
