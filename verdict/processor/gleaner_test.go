//go:build !race

// A village lives in one goroutine, where the race detector finds nothing, and takes a minute.

package processor

import (
	"testing"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/tally"
)

// browses is read by a client of an office that keeps our cookie, of which nothing is known yet, with the parts of the page.
func (v *village) browses(client uint32, page int) {
	office := one(0)
	v.at = v.at.Add(time.Second)
	e := villageItem(reading(v.at, page, office), page)
	e.Client, e.Browser = client, client
	v.a.at = v.at
	v.p.Process(e)
	for i := range 3 {
		p := picture(reading(v.at, 1_000_000+i, office))
		p.Client, p.Browser = client, client
		v.p.Process(p)
	}
}

// villageItem makes an event one of an item.
func villageItem(e *verdict.Event, page int) *verdict.Event {
	e.Path, e.PathShape = tally.Fold(uint64(anItem+1)<<32|uint64(page+1), 0xd1b54a32d192ed03)*0x9e3779b97f4a7c15, tally.Fold(anItem+1, 0x9e3779b97f4a7c15) //nolint:gosec // no sign
	e.Target = e.Path
	return e
}

// TestGleaners: robots that take a catalogue and load all parts of its pages are asked by themselves, beside newcomers of the office who want what others
// want; three such clients are people with rare tastes, as far as anybody knows, and so is everybody where nothing is expected.
func TestGleaners(t *testing.T) {
	const newcomers = 40
	f := func(gleaners uint32, edit func(*Config), want bool) {
		t.Helper()
		v := newVillage(t, 11, edit)
		v.live(400, 20)
		v.a.established = 32
		read := uint32(0)
		for n := range uint32(800) {
			v.browses(colleagues+n%newcomers, v.wants())
			if robot := 1 + n%gleaners; len(v.a.questions) == 0 || !v.a.listed[robot] {
				read++
				v.browses(robot, villageItems+int(read)*7) // what people have never read
			}
		}
		listed := map[bool]uint32{}
		for client, is := range v.a.listed {
			if is {
				listed[client < colleagues]++
			}
		}
		asked := len(v.a.questions) > 0
		if got := listed[true] == gleaners && asked; got != want || !want && (asked || len(listed) > 0) || listed[false] > 1 {
			t.Errorf("%d gleaners: %d listed after %d pages, and %d colleagues, %d questions", gleaners, listed[true], read, listed[false], len(v.a.questions))
		}
		if want && read > 15*gleaners {
			t.Errorf("%d gleaners read %d pages", gleaners, read)
		}
		for _, q := range v.a.questions {
			if q.Only != verdict.OnlyBare {
				t.Errorf("asked: %+v", q)
			}
		}
	}
	f(20, nil, true)
	f(3, nil, false)
	f(20, func(c *Config) { c.Budget.Overlap = 0 }, false)
}
