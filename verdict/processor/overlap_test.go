//go:build !race

// A village lives in one goroutine, where the race detector finds nothing, and takes a minute.

package processor

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/tally"
)

// village is a service whose people want what others want, too.
type village struct {
	p   *Processor
	a   *villageKeeper
	at  time.Time
	rnd *rand.Rand
}

const villageItems = 3000

func newVillage(t *testing.T, seed uint64, edit func(*Config)) *village {
	t.Helper()
	v := &village{at: time.Unix(1.8e9, 0), rnd: rand.New(rand.NewPCG(seed, 9))}
	keeper := &villageKeeper{}
	v.p, v.a = newProcessorFor(t, keeper, edit), keeper
	v.a.returned = 1000 // no other question interferes
	return v
}

// villageKeeper knows everybody who has a cookie.
type villageKeeper struct {
	asker
	established int // visitors of each address
}

func (k *villageKeeper) EstablishedAt([16]byte) int { return k.established }

func (*villageKeeper) Stands(e *verdict.Event) bool { return e.Subjects[0].Kind == identity.KindI }

func (k *villageKeeper) Returns(e *verdict.Event) bool { return k.Stands(e) }

// wants is an item that a person wants: half of what people read is popular (Zipf's law), the rest is what these link to.
func (v *village) wants() int {
	if v.rnd.IntN(2) == 0 {
		return v.rnd.IntN(villageItems)
	}
	return int(math.Exp(v.rnd.Float64()*math.Log(villageItems))) - 1
}

// read is a page of a kind that a reader opens at an address.
func (v *village) read(reader identity.Subject, id [16]byte, kind, page int) {
	v.at = v.at.Add(200 * time.Millisecond)
	e := reading(v.at, page, id)
	e.Path, e.PathShape = tally.Fold(uint64(kind+1)<<32|uint64(page+1), 0xd1b54a32d192ed03)*0x9e3779b97f4a7c15, tally.Fold(uint64(kind)+1, 0x9e3779b97f4a7c15)
	e.Target = e.Path
	if reader.Kind == identity.KindIP { // a name
		e.Agent, e.Client = uint64(reader.ID[15])+7, uint32(reader.ID[15])+7
		v.p.Process(e)
		return
	}
	e.Subjects[1], e.Subjects[0], e.N = e.Subjects[0], reader, 2
	v.p.Process(e)
	for i := range 3 {
		p := picture(reading(v.at, 1_000_000+i, id))
		p.Subjects[1], p.Subjects[0], p.N = p.Subjects[0], reader, 2
		v.p.Process(p)
	}
}

func villageHome(n int) [16]byte {
	return [16]byte{10: 0xff, 11: 0xff, 12: 77, 13: byte(n), 14: byte(n >> 8), 15: 9}
}

const (
	anItem = iota
	anOrder
)

// live lets people read at home for a while: items, and each its own orders.
func (v *village) live(homes, pages int) {
	for n := range homes {
		for i := range pages {
			v.read(cookie(n), villageHome(n), anItem, v.wants())
			if i%4 == 0 {
				v.read(cookie(n), villageHome(n), anOrder, n*100+i)
			}
		}
	}
}

// crowd lets so many readers of one address read in turn, until somebody is asked because they share nothing, and returns after how
// many pages; 0: nobody was. Questions for strangers alone don't count.
func (v *village) crowd(readers, pages int, each func(reader, i int) (kind, page int)) int {
	office := [16]byte{10: 0xff, 11: 0xff, 12: 203, 13: 0, 14: 113, 15: 9}
	v.a.questions = nil
	for i := range pages {
		for n := range readers {
			kind, page := each(n, i)
			v.read(cookie(10_000+n), office, kind, page)
			for _, q := range v.a.questions {
				if q.Apart && q.All && q.Prefix.Bits == 128 {
					return i*readers + n + 1
				}
			}
		}
	}
	return 0
}

// TestOverlap: clients of an address who divide a list of pages among them are one reader, however little each reads and however
// well each is known. People of an office are not, nor are people who read what only they can read.
func TestOverlap(t *testing.T) {
	for seed := range uint64(4) {
		v := newVillage(t, seed, nil)
		v.live(400, 20)
		if n := v.crowd(100, 30, func(int, int) (int, int) { return anItem, v.wants() }); n != 0 {
			t.Errorf("seed %d: people of an office are asked after %d pages", seed, n)
		}
		if n := v.crowd(100, 30, func(reader, i int) (int, int) { return anOrder, 1_000_000 + reader*100 + i }); n != 0 {
			t.Errorf("seed %d: people who read their orders are asked after %d", seed, n)
		}
		if n := v.crowd(100, 30, func(int, int) (int, int) { return anItem, v.rnd.IntN(villageItems) }); n != 0 {
			t.Errorf("seed %d: people of an office who want nothing that is popular are asked after %d pages", seed, n)
		}
		v = newVillage(t, seed, nil)
		v.live(400, 20)
		n := v.crowd(100, 60, func(reader, i int) (int, int) { return anItem, (i*100 + reader) * 7 % (villageItems * 5) })
		if n < 100 || n > 1200 {
			t.Errorf("seed %d: a hundred who divide a list are asked after %d pages", seed, n)
		}
	}
	v := newVillage(t, 7, func(c *Config) { c.Budget.Overlap = 0 })
	v.live(400, 20)
	if n := v.crowd(100, 60, func(reader, i int) (int, int) { return anItem, i*100 + reader }); n != 0 {
		t.Errorf("switched off, they are asked after %d pages", n)
	}
}

// TestOverlapAtASmallSite: forty people who each read five pages on two days are enough to tell forty cookies of one address that were
// seen on the same days, with all parts of their pages, from people.
func TestOverlapAtASmallSite(t *testing.T) {
	const items, clients = 150, 40
	farm := [16]byte{10: 0xff, 11: 0xff, 12: 203, 13: 0, 14: 113, 15: 9}
	for seed := range uint64(4) {
		v := newVillage(t, seed, nil)
		first := v.at.Truncate(24 * time.Hour)
		for day := range 2 {
			v.at = first.Add(time.Duration(24*day+1) * time.Hour)
			for n := range clients {
				v.read(cookie(10_000+n), farm, anItem, v.rnd.IntN(items))
			}
			for i := range clients * 5 {
				v.read(cookie(i%clients), villageHome(i%clients), anItem, v.rnd.IntN(items))
			}
		}
		v.at, v.a.questions = first.Add(49*time.Hour), nil
		pages := 0
		for ; pages < 1500 && len(v.a.questions) == 0; pages++ { // a page in 13 minutes from each; people go on, too
			v.at = v.at.Add(20 * time.Second)
			v.read(cookie(10_000+pages%clients), farm, anItem, 1000+pages)
			v.read(cookie(pages%clients), villageHome(pages%clients), anItem, v.rnd.IntN(items))
		}
		if pages > 400 || !v.a.questions[0].Apart || v.a.questions[0].Prefix.ID != farm {
			t.Errorf("seed %d: they have read %d pages, asked: %+v", seed, pages, v.a.questions)
		}
	}
}

// TestOverlapOfPeopleBesideARobot: a robot at the address of an office that reads a list, under many names or with a cookie, does not make
// people there share less.
func TestOverlapOfPeopleBesideARobot(t *testing.T) {
	office := [16]byte{10: 0xff, 11: 0xff, 12: 203, 13: 0, 14: 113, 15: 9}
	for name, robot := range map[string]func(i int) identity.Subject{
		"names": func(i int) identity.Subject {
			return identity.Subject{Kind: identity.KindIP, ID: [16]byte{15: byte(i % 60)}}
		},
		"one cookie": func(int) identity.Subject { return cookie(50_000) },
	} {
		v := newVillage(t, 3, nil)
		v.live(400, 20)
		list := 0
		n := v.crowd(100, 30, func(int, int) (int, int) {
			for range 3 {
				v.read(robot(list), office, anItem, list*7%(villageItems*5))
				list++
			}
			return anItem, v.wants()
		})
		if n != 0 {
			t.Errorf("%s: people of an office are asked after %d pages", name, n)
		}
	}
}

// TestTastesAreThePeoples: what people have in common doesn't become less because robots among them, at one address, read a list.
func TestTastesAreThePeoples(t *testing.T) {
	chance := func(farm bool) float32 {
		v := newVillage(t, 5, nil)
		v.live(400, 20)
		for i := range 5000 {
			if farm {
				v.read(cookie(20_000+i%400), [16]byte{10: 0xff, 11: 0xff, 12: 93, 13: 1, 14: 1, 15: 1}, anItem, i)
			}
		}
		e := reading(v.at, 1, villageHome(1))
		e.Path, e.PathShape = 1, tally.Fold(anItem+1, 0x9e3779b97f4a7c15)
		c, known := v.p.service(0).people.tastes.Share(e)
		if !known {
			t.Error("unknown")
		}
		return c
	}
	if with, without := chance(true), chance(false); without < 1./villageItems || with < 0.9*without {
		t.Errorf("two people read the same page with a chance of %v, beside a farm of cookies %v", without, with)
	}
}

// TestTastesFade: what nobody has read for a day is not expected of anybody.
func TestTastesFade(t *testing.T) {
	v := newVillage(t, 6, nil)
	v.live(200, 20)
	e := reading(v.at, 1, villageHome(1))
	e.Path, e.PathShape = 1, tally.Fold(anItem+1, 0x9e3779b97f4a7c15)
	tastes := &v.p.service(0).people.tastes
	if _, known := tastes.Share(e); !known {
		t.Error("unknown after a day of reading")
	}
	if e.At = e.At.Add(25 * time.Hour); e.Verdict != verdict.Human {
		t.Fatal("the event is no person's")
	}
	if c, known := tastes.Share(e); known {
		t.Errorf("%v after a day of silence", c)
	}
}
