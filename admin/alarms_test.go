package admin

import (
	"context"
	"time"

	"antirobot/alarm"
)

// oneAlarm is a watch with an alarm, and a webhook that fails when it is tested.
type oneAlarm struct{}

func (oneAlarm) Active() []alarm.Alarm {
	return []alarm.Alarm{{Name: "store-away", Value: "no answer", Text: "the store fails: no answer", Action: "mend it", Since: time.Now()}}
}

func (oneAlarm) Hooks() []alarm.HookState { return []alarm.HookState{{Host: "hooks.example"}} }

func (oneAlarm) Test(context.Context, time.Time) []alarm.HookState {
	return []alarm.HookState{{Host: "hooks.example", Error: "hooks.example answers 503"}}
}
