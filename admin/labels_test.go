package admin

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/identity"
	"antirobot/store"
	"antirobot/verdict/label"
)

// labels is a table of labels, as the processor offers it.
type labels struct{ *label.Table }

func (l labels) Label(ctx context.Context, e label.Entry) error { return l.Set(ctx, e) }

func (l labels) Unlabel(ctx context.Context, s identity.Subject, _ time.Time) (bool, error) {
	return l.Remove(ctx, s)
}

func (l labels) Labels() []label.Entry { return l.All() }

func newLabels(t *testing.T, most int, st store.Store) labels {
	t.Helper()
	cfg := label.DefaultConfig()
	cfg.Max = most
	table, err := label.New(cfg, label.Deps{Store: st, Log: zerolog.Nop(), Metrics: metrics.NewSet()})
	if err != nil {
		t.Fatal(err)
	}
	return labels{table}
}

// away is a store that takes nothing.
type away struct{ *store.Memory }

func (away) Put(context.Context, []byte, []byte, time.Duration) error { return errors.New("no route") }

// TestLabels: a slip is told with its field and changes nothing, and what could not be kept is said.
func TestLabels(t *testing.T) {
	l := start(t, DefaultConfig(), Deps{})
	l.refused(501, "not_available", "", "GET", "/api/labels", "")
	l.refused(501, "not_available", "", "POST", "/api/labels", `{}`)
	l.refused(501, "not_available", "", "DELETE", "/api/labels", "")

	table := newLabels(t, 1, store.NewMemory(nil))
	l = start(t, DefaultConfig(), Deps{Labels: table})
	bad := func(code, field, body string) {
		t.Helper()
		l.refused(400, code, field, "POST", "/api/labels", body)
	}
	bad("invalid_field", "subject", `{"label":"human"}`)
	bad("invalid_field", "subject", `{"subject":"alice","label":"human"}`)
	bad("invalid_field", "label", `{"subject":"L:alice"}`)
	bad("invalid_field", "label", `{"subject":"L:alice","label":"perhaps"}`)
	bad("invalid_field", "reason", `{"subject":"L:alice","label":"robot","reason":"a\nb"}`)
	bad("invalid_field", "request", `{"request":"nonsense","label":"robot"}`)
	bad("invalid_field", "request", `{"subject":"L:alice","request":"01KDZ6JQ4GF3V5N8X2C7B9W0TA","label":"robot"}`)
	bad("unknown_field", "who", `{"who":"L:alice"}`)
	l.refused(501, "not_available", "", "POST", "/api/labels", `{"request":"01KDZ6JQ4GF3V5N8X2C7B9W0TA","label":"robot"}`)
	if n := len(table.All()); n != 0 {
		t.Errorf("%d labels", n)
	}
	var made LabelStory
	l.ok(&made, "POST", "/api/labels", `{"subject":"ip:203.0.113.7","label":"robot","reason":"copies prices"}`)
	if made.Subject != "ip:203.0.113.7" || made.Label != "robot" || made.Source != "operator" || made.Reason != "copies prices" {
		t.Errorf("%+v", made)
	}
	l.refused(507, "full", "", "POST", "/api/labels", `{"subject":"L:bob","label":"human"}`)
	l.refused(404, "not_found", "", "DELETE", "/api/labels?subject=L:bob", "")

	l = start(t, DefaultConfig(), Deps{Labels: newLabels(t, 1, away{store.NewMemory(nil)})})
	l.refused(503, "not_durable", "", "POST", "/api/labels", `{"subject":"L:bob","label":"human"}`)
}
