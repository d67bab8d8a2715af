package admin

import "antirobot/alarm"

func (s *gatewayCalls) alarms(*call) (any, error) {
	all := alarmsBody{Items: []Alarm{}, Webhooks: s.deps.Alarms.Hooks()}
	for _, a := range s.deps.Alarms.Active() {
		all.Items = append(all.Items, Alarm{Alarm: a})
	}
	return all, nil
}

// testAlarms tells every webhook once, and answers what each said.
func (s *gatewayCalls) testAlarms(c *call) (any, error) {
	return struct {
		Webhooks []alarm.HookState `json:"webhooks"`
	}{s.deps.Alarms.Test(c.work, s.now())}, nil
}
