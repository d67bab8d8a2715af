package admin

import (
	"context"
	"strings"
	"testing"

	"antirobot/verdict/learn"
)

// oneCard is what was learnt of one service.
type oneCard struct{}

func (oneCard) card() (*learn.Card, error) {
	return learn.ReadCard([]byte(`version: learnt-20260102
learnt:
  service: shop
  at: 2026-01-02T03:00:00Z
  known: 812
  networks: 640
  others: 9120
  trimmed: 40
  ridge: 10
  area: 0.84
  area_low: 0.82
  ranks: [` + strings.Repeat("0, ", 20) + `1]
  typical: [{name: client_loads_1m, value: 6}]
bias: 0.5
factors:
  - name: client_loads_1m
    bins: [{below: 10, weight: -0.4}, {from: 10, weight: 1.2}]
`))
}

func (o oneCard) States(context.Context) ([]learn.State, error) {
	c, err := o.card()
	return []learn.State{{Service: "shop", Sample: learn.Counts{Known: 812, Others: 9120}, Card: c, Previous: true}}, err
}

func (o oneCard) RollBack(_ context.Context, service string) (*learn.Card, error) {
	if service != "shop" {
		return nil, learn.ErrNoCard
	}
	return o.card()
}

// TestLearn: what was learnt is shown with its card, and only a service that has a previous card can go back to it.
func TestLearn(t *testing.T) {
	l := start(t, DefaultConfig(), Deps{Learning: oneCard{}})
	var out struct{ Items []LearntStory }
	l.ok(&out, "GET", "/api/learn", "")
	if len(out.Items) != 1 || !out.Items[0].Opinion || !strings.Contains(out.Items[0].Card, "client_loads_1m") {
		t.Errorf("%+v", out)
	}
	l.refused(404, "not_found", "", "POST", "/api/learn/rollback", `{"service":"blog"}`)
}
