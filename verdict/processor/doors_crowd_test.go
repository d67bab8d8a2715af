//go:build !race

// One goroutine works here, in which the race detector finds nothing, and takes long.

package processor

import (
	"fmt"
	"testing"
	"time"

	"antirobot/identity"
)

// TestFloodMakesNoDoors: a hundred networks that come in at night by pages of their own, and go on, in masses and with cookies that are
// free to make, make neither the doors of people odd nor their hours, nor are their own doors and hours those of people.
func TestFloodMakesNoDoors(t *testing.T) {
	p, _ := newProcessor(t, nil)
	start := time.Unix(1.8e9, 0).Truncate(24 * time.Hour)
	n := 0
	comes := func(network int, at time.Time, door string) {
		n++
		w := &walk{p: p, n: network<<8 | 1, at: at, subs: []identity.Subject{cookie(100_000 + n)}}
		w.load(door, "", 0)
		w.load(fmt.Sprint("/in/", n), door, 10*time.Second)
	}
	for day := range 2 {
		for hour := 8; hour < 23; hour++ {
			for i := range 20 {
				comes(1+20*hour+i, start.Add(time.Duration(24*day+hour)*time.Hour+time.Duration(i)*time.Minute), fmt.Sprint("/door/", i%10))
			}
		}
	}
	at := start.Add(50 * time.Hour)
	odd := func(page string, hour int) (door, came float32) {
		people := p.service(0).people
		e := event(at, 0)
		e.Path = hashPath(page)
		door, _, _ = people.entrances.Come(e, false)
		return door, people.entrances.OddHour(start.Add(time.Duration(48+hour) * time.Hour))
	}
	door, noon := odd("/door/1", 12)
	other, night := odd("/list/1", 2)
	for i := range 20_000 {
		comes(1000+i%100, at.Add(time.Duration(i)*50*time.Millisecond), fmt.Sprint("/list/", i%100))
	}
	door2, noon2 := odd("/door/1", 12)
	other2, night2 := odd("/list/1", 2)
	if door2 > door+0.2 || noon2 > noon+0.5 {
		t.Errorf("people's door: %.2f, was %.2f; noon: %.2f, was %.2f", door2, door, noon2, noon)
	}
	if other2 < other-3 || night2 < -1.6 {
		t.Errorf("the door of a hundred networks: %.2f, was %.2f; night: %.2f, was %.2f", other2, other, night2, night)
	}
}
