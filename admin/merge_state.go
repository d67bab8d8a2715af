package admin

import (
	"antirobot/alarm"
	"antirobot/lab"
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

// told returns the states of the gateways, where those that had no answer say so: a version before this one does not tell it.
func (g *gathered) told() []GatewayState {
	for i := range g.states {
		if g.bodies[i] == nil && g.states[i].Error == "" {
			g.states[i].Error = "it does not tell that; is it of another version?"
		}
	}
	return g.states
}

// alarmsBody is what somebody should look at, and who is told of it.
type alarmsBody struct {
	Items    []gatewayAlarm    `json:"items"`
	Webhooks []alarm.HookState `json:"webhooks"`
	Gateways []GatewayState    `json:"gateways,omitempty"`
}

// gatewayAlarm is an alarm, and of several gateways who raises it.
type gatewayAlarm struct {
	alarm.Alarm
	Gateway string `json:"gateway,omitempty"`
}

func mergeAlarms(_ *call, g *gathered) (any, error) {
	all := alarmsBody{Items: []gatewayAlarm{}, Webhooks: []alarm.HookState{}}
	for _, r := range replies[alarmsBody](g) {
		for _, a := range r.v.Items {
			a.Gateway = r.from
			all.Items = append(all.Items, a)
		}
		if r.own { // what is tested is told by this one
			all.Webhooks = r.v.Webhooks
		}
	}
	all.Gateways = g.told()
	return all, nil
}

// LabState is what there is to change on a gateway; of several, on this one, with what the others have changed.
type LabState struct {
	lab.View
	Gateway  string         `json:"gateway,omitempty"`
	Gateways []GatewayState `json:"gateways,omitempty"`
	Others   []LabElsewhere `json:"others,omitempty"`
}

// LabElsewhere is what the lab of another gateway has put into force there.
type LabElsewhere struct {
	Gateway string          `json:"gateway"`
	Model   string          `json:"model"`
	Applied lab.VersionView `json:"applied"`
	Shadow  *lab.ShadowView `json:"shadow,omitempty"`
}

func mergeLab(_ *call, g *gathered) (any, error) {
	var is LabState
	for _, r := range replies[lab.View](g) {
		if r.own {
			is.View, is.Gateway = r.v, r.from
			continue
		}
		is.Others = append(is.Others, LabElsewhere{r.from, r.v.Model, r.v.Applied, r.v.Shadow})
	}
	is.Gateways = g.told()
	return is, nil
}
