package admin

import (
	"slices"

	"antirobot/alarm"
)

// statusBody is how a gateway is; of several, how this one is, and how the others are.
type statusBody struct {
	statusOf
	Gateways []GatewayState `json:"gateways,omitempty"`
	Others   []statusOf     `json:"others,omitempty"`
}

func mergeStatus(_ *call, g *gathered) (any, error) {
	var is statusBody
	for _, r := range replies[statusOf](g) {
		if r.v.Gateway = r.from; r.own {
			is.statusOf = r.v
			continue
		}
		is.Others = append(is.Others, r.v)
	}
	is.Gateways = g.told()
	return is, nil
}

// told returns the states of the gateways, where those that had no answer say so: a version before this one does not
// tell it.
func (g *gathered) told() []GatewayState {
	for i := range g.states {
		if g.bodies[i] == nil && g.states[i].Error == "" {
			g.states[i].Error = "it does not tell that; is it of another version?"
		}
	}
	return g.states
}

type alarmsBody struct {
	Items    []Alarm           `json:"items"`
	Webhooks []alarm.HookState `json:"webhooks"`
	Gateways []GatewayState    `json:"gateways,omitempty"`
}

// Alarm is an alarm, and of several gateways who raise it. What is the same is said by the one that has known it
// longest.
type Alarm struct {
	alarm.Alarm
	Gateways []AlarmOf `json:"gateways,omitempty"`
}

// AlarmOf is a gateway that raises an alarm.
type AlarmOf struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"` // how much there, or why
}

func mergeAlarms(_ *call, g *gathered) (any, error) {
	all := alarmsBody{Items: []Alarm{}, Webhooks: []alarm.HookState{}}
	for _, r := range replies[alarmsBody](g) {
		for _, a := range r.v.Items {
			all.add(a.Alarm, r.from)
		}
		if r.own { // a test uses the webhooks of this gateway
			all.Webhooks = r.v.Webhooks
		}
	}
	slices.SortStableFunc(all.Items, func(a, b Alarm) int { return a.Since.Compare(b.Since) })
	all.Gateways = g.told()
	return all, nil
}

// add adds an alarm of a gateway to the others of the same trouble.
func (b *alarmsBody) add(a alarm.Alarm, from string) {
	i := slices.IndexFunc(b.Items, func(o Alarm) bool { return o.Name == a.Name && o.About == a.About })
	if i < 0 {
		i, b.Items = len(b.Items), append(b.Items, Alarm{Alarm: a})
	}
	if a.Since.Before(b.Items[i].Since) {
		b.Items[i].Alarm = a
	}
	b.Items[i].Gateways = append(b.Items[i].Gateways, AlarmOf{from, a.Value})
}
