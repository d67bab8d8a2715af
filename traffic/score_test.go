//go:build !race

// It runs in one goroutine, as all that simulates here: for one test alone nothing is linked with the race detector.

package traffic

import (
	"testing"
	"time"

	"antirobot/replay"
	"antirobot/request"
	"antirobot/verdict"
)

// TestHurtAreNamed: whoever is stopped and no robot is named with the outcome of its kind, as the text says of --json.
func TestHurtAreNamed(t *testing.T) {
	t.Parallel()
	var s Score
	at := time.Unix(1_790_000_000, 0)
	add := func(k Kind, client int, habit string, served *replay.Served) {
		s.Add(&Request{View: &request.View{At: at}, Kind: k, Client: client, Habit: habit, Page: true}, served)
	}
	stopped := &replay.Served{Decision: &verdict.Decision{}, Stopped: true}
	add(People, 1, "", nil)
	add(Guests, 2, "readers", stopped)
	add(Guests, 3, "readers", nil)
	add(Guests, 4, "app", nil)
	add(Slow, 5, "", stopped)
	for _, o := range s.Outcomes() {
		if o.Kind == Guests && o.Habit == "readers" {
			if len(o.Hurt) != 1 || o.Hurt[0].Client != 2 || o.Hurt[0].Stopped != 1 {
				t.Errorf("readers: %+v", o.Hurt)
			}
		} else if len(o.Hurt) != 0 {
			t.Errorf("%s %s: %+v", o.Kind, o.Habit, o.Hurt)
		}
	}
}
