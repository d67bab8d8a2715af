package admin

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/message/queue"
	"antirobot/spravka"
	"antirobot/store"
)

// heldTexts wait in the queue of a test's gateway, with the IDs that docs/api.md shows.
var heldTexts = []struct{ id, text string }{
	{"3cd50a5a928cb3811dc0", "Is it true that pills help?"},
	{"288ac57285ee8fb38ca0", "Cheap pills for your lighthouse"},
	{"49ea2d732d02c7672300", "Greetings from the island"},
}

// newQueue returns a queue with messages; what is approved is taken with 303.
func newQueue(t *testing.T, st store.Store) *queue.Queue {
	t.Helper()
	ring, _, err := spravka.LoadOrMakeRing(filepath.Join(t.TempDir(), "keys.json"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	q, err := queue.New(queue.DefaultConfig(), queue.Deps{Store: st, Keys: spravka.NewKeys(ring), Log: zerolog.Nop(), Metrics: metrics.NewSet()})
	if err != nil {
		t.Fatal(err)
	}
	score := 0.61
	for i, h := range heldTexts {
		it := &queue.Item{
			Service: "shop", Route: "POST /comments", RequestID: "01KDZ6JQ4GF3V5N8X2C7B9W0TC", Client: "198.51.100.9", Subject: "ip:198.51.100.9",
			Method: "POST", Host: "shop.example", Proto: "https", Target: "/comments", Type: "application/x-www-form-urlencoded",
			Message: map[string]any{"text": h.text}, Decision: "QUEUE", Rule: "line 3: if grey stop as QUEUE", Score: &score,
		}
		r := &queue.Request{Fields: []queue.Field{{Name: "Content-Type", Value: it.Type}, {Name: "Cookie", Value: "sid=secret"}}, Body: []byte("words=x")}
		if err := q.Hold(context.Background(), it, r, [32]byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
		if it.ID != h.id {
			t.Errorf("message %d is %s, not %s as documented", i, it.ID, h.id)
		}
	}
	q.Start(func(context.Context, *queue.Item, *queue.Request) (queue.Answer, error) {
		return queue.Answer{Status: 303, Location: "/comments?thanks"}, nil
	})
	t.Cleanup(func() { _ = q.Close() })
	return q
}

// TestQueueAPI: what a moderator does with messages that wait, and that no cookie is shown.
func TestQueueAPI(t *testing.T) {
	g := startGateway(t)
	f := func(want int, says, method, path, body string) {
		t.Helper()
		status, got, _ := g.do(method, path, body)
		if status != want || !strings.Contains(got, says) {
			t.Errorf("%s %s: %d %s, want %d %s", method, path, status, got, want, says)
		}
	}
	id := "/api/queue/" + heldTexts[1].id
	f(400, `"field":"state"`, "GET", "/api/queue?state=lost", "")
	f(200, `"total":3`, "GET", "/api/queue?state=waiting&limit=1", "")
	f(200, `"total":0`, "GET", "/api/queue?service=other", "")
	f(404, "not_found", "GET", "/api/queue/none", "")
	if _, body, _ := g.do("GET", id, ""); strings.Contains(body, "secret") || !strings.Contains(body, "kept, not shown") {
		t.Errorf("shown: %s", body)
	}
	f(400, `"field":"marker"`, "POST", id+"/teach", `{"marker":"ham"}`)
	f(400, `"field":"attribute"`, "POST", id+"/teach", `{"marker":"bad","attribute":"title"}`)
	f(400, `"field":"model"`, "POST", id+"/refuse", `{"teach":true,"model":"storage"}`)
	f(200, `"learnt":true`, "POST", id+"/refuse", `{"teach":true}`)
	f(404, "not_found", "POST", id+"/approve", `{}`)
	f(200, `"state":"refused"`, "GET", id, "")
	f(400, `"field":"attribute"`, "POST", id+"/teach", `{"marker":"bad"}`)
	f(400, `"field":"all"`, "DELETE", "/api/queue", "")
	f(200, `"erased":3`, "DELETE", "/api/queue?all=true", "")
	f(200, `"total":0`, "GET", "/api/queue", "")
}
