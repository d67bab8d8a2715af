package admin

import "antirobot/alarm"

// alarms answers what somebody should look at, and who is told of it.
func (s *Server) alarms(*call) (any, error) {
	if s.deps.Alarms == nil {
		return nil, absentPart("alarms")
	}
	all := alarmsBody{Items: []Alarm{}, Webhooks: s.deps.Alarms.Hooks()}
	for _, a := range s.deps.Alarms.Active() {
		all.Items = append(all.Items, Alarm{Alarm: a})
	}
	return all, nil
}

// testAlarms tells every webhook once, and answers what each said.
func (s *Server) testAlarms(c *call) (any, error) {
	if s.deps.Alarms == nil {
		return nil, absentPart("alarms")
	}
	return struct {
		Webhooks []alarm.HookState `json:"webhooks"`
	}{s.deps.Alarms.Test(c.work, s.now())}, nil
}
