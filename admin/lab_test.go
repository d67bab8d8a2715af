package admin

import (
	"context"
	"errors"
	"testing"
	"time"

	"antirobot/lab"
	"antirobot/verdict/formula"
)

// trial stands for a gateway that can be changed.
type trial struct{ state lab.State }

func (t *trial) View() (lab.View, error) {
	v := lab.View{
		Model: "default-3cad8aa2", Named: "default", Models: []string{"default", "none"}, Sample: 0.05,
		Weights: []formula.Weight{{Why: "bias", Value: -4}, {Factor: "agent_missing", Why: "sends no User-Agent", When: "x = 1", Value: 2}},
		Services: []lab.ServiceView{{
			Name: "shop", Mode: "enforce", Threshold: 0.5, Unsure: 0.3, Limits: []lab.Limit{{Window: "1m0s", Requests: 300, Ban: "10m0s"}},
		}},
		Applied: t.state.Applied.View(), Before: []lab.VersionView{},
	}
	for i := range t.state.Before {
		v.Before = append(v.Before, t.state.Before[i].View())
	}
	if s := t.state.Shadow; s != nil {
		v.Shadow = &lab.ShadowView{VersionView: s.View(), Settings: s.Settings}
		none := lab.Group{Grounds: map[string]int{}, Examples: []lab.Example{}}
		v.Beside = &lab.Beside{Since: s.At, Model: "none-1", Judged: 90_210, Both: 61, Stopped: none, Free: none, Notes: []string{}}
	}
	return v, nil
}

func (t *trial) Rehearse(_ context.Context, c *lab.Change, since, _ time.Time) (*lab.Rehearsal, error) {
	if err := refused(c); err != nil {
		return nil, err
	}
	example := lab.Example{
		Subject: "ip:198.51.100.4", Request: "01KDZ6JQ4GF3V5N8X2C7B9W0TA", Kind: "ip", Ground: "solved", Person: true, Before: 0.57, After: 0.57, Pages: 40,
	}
	return &lab.Rehearsal{
		Since: since.UTC(), Entries: 41_300, Rows: 9_100, Subjects: 2_040, Sample: 0.05, Notes: []string{},
		Stopped: lab.Group{Grounds: map[string]int{}, Examples: []lab.Example{}},
		Free:    lab.Group{Subjects: 7, About: 26, People: 1, Robots: 4, Grounds: map[string]int{"solved": 1}, Pages: 312, Examples: []lab.Example{example}, PeoplePages: 40, RobotPages: 251},
	}, nil
}

func refused(c *lab.Change) error {
	if s := c.Services["shop"]; s.Threshold != nil && *s.Threshold >= 1 {
		return errors.New("services[0].verdict.threshold: 1.5 is not in [0, 1)")
	}
	return nil
}

func (t *trial) Apply(c *lab.Change, by string) (lab.VersionView, error) {
	if err := refused(c); err != nil {
		return lab.VersionView{}, err
	}
	t.state = t.state.Apply(t.state.Applied.With(&c.Settings), by, time.Now())
	return t.state.Applied.View(), nil
}

func (t *trial) Shadow(c *lab.Change, by string) (lab.VersionView, error) {
	t.state.Shadow = nil
	if c != nil {
		t.state.Shadow = &lab.Version{Settings: c.Settings, By: by, At: time.Now()}
	}
	return t.state.Applied.View(), nil
}

func (t *trial) TakeBack() (v lab.VersionView, err error) {
	next, ok := t.state.TakeBack()
	if !ok {
		return v, errors.New("there is nothing to be taken back")
	}
	t.state = next
	return next.Applied.View(), nil
}

// TestLab: changes are refused with their reasons, and what is done is remembered with what was changed and by whom.
func TestLab(t *testing.T) {
	g := startGateway(t)
	g.refused(422, "change_refused", "", "POST", "/api/lab/apply", `{"services":{"shop":{"threshold":1.5}}}`)
	g.refused(422, "change_refused", "", "POST", "/api/lab/takeback", "")
	g.refused(400, "invalid_field", "since", "POST", "/api/lab/rehearse", `{"since":"1000d"}`)
	g.refused(400, "invalid_field", "since", "POST", "/api/lab/rehearse", `{"since":"soon"}`)
	g.refused(400, "unknown_field", "treshold", "POST", "/api/lab/rehearse", `{"services":{"shop":{"treshold":0.5}}}`)
	g.ok(&struct{}{}, "POST", "/api/lab/apply", `{"services":{"shop":{"threshold":0.6}}}`)
	g.ok(&struct{}{}, "POST", "/api/lab/shadow", `{"model":"none"}`)
	g.ok(&struct{}{}, "POST", "/api/lab/takeback", "")
	g.actsAre(map[string]string{
		"lab apply": " shop: verdict.threshold 0.6", "lab shadow": " formula.model none", "lab take back": " ",
	})
}
