package processor

import (
	"math/rand/v2"
	"testing"
	"time"

	"antirobot/verdict/bans"
)

// TestPortionOfAnIdentity: visitors whom the site knows read some pages a day, a hundred of them. One that reads hundreds is
// asked, and only it, however many share its address; a page that is read again and again is one; the asking ends with its day.
func TestPortionOfAnIdentity(t *testing.T) {
	keeper := &villager{}
	p := newProcessorFor(t, keeper, nil)
	at := time.Unix(1.8e9, 0)
	read := func(n, i int) {
		e := reading(at, i, [16]byte{10: 0xff, 11: 0xff, 12: 77, 13: byte(n), 14: 1, 15: 9})
		e.Subjects[1], e.Subjects[0], e.N = e.Subjects[0], cookie(n), 2
		p.Process(e)
		p.Process(picture(reading(at, 1_000_000+i, e.Subjects[1].ID)))
	}
	day := func(heavy int) {
		for n := range 100 {
			for i := range 4 + n%10 {
				at = at.Add(time.Second)
				read(n, i)
			}
		}
		for i := range heavy {
			at = at.Add(10 * time.Second)
			read(3, 10_000+i)
			read(4, 7)
		}
	}
	day(50)
	for range 3 {
		at = at.Add(24 * time.Hour)
		day(0)
	}
	most := p.service(0).people.appetite.most.Load()
	if most < 13 || most > 60 {
		t.Fatalf("people read at most %d pages a day", most)
	}
	if len(keeper.bans) > 0 {
		t.Fatalf("asked: %+v", keeper.bans)
	}
	at = at.Add(24 * time.Hour)
	begun := at
	day(600)
	var asked []bans.Ban
	for _, b := range keeper.bans {
		if b.Factors[0].Name == "documents_1d" {
			asked = append(asked, b)
		}
	}
	if len(asked) != 1 || asked[0].Subject != cookie(3) || asked[0].Until.After(begun.Add(25*time.Hour)) || asked[0].Factors[0].Value > 300 {
		t.Errorf("people read at most %d; asked: %+v", most, asked)
	}
}

// TestAppetiteIsThePeoples: the figure follows people and not the robots that are known among them: seven robots in a hundred move it
// little, a network with many of them not at all, and with few visitors nothing is said.
func TestAppetiteIsThePeoples(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var usual uint32
	fill := func(robots int, network func(i int) uint64) uint32 {
		var a appetite
		for d := range 5 {
			for i := range 400 {
				a.vote(uint64(i+1)<<20, uint32(4+rnd.ExpFloat64()*8), int64(d)*86400)
			}
			for i := range robots {
				a.vote(network(i), 20_000, int64(d)*86400)
			}
		}
		usual = a.usual
		return a.most.Load()
	}
	people := fill(0, nil)
	if usual < 16 || usual > 50 { // the 95th is 28
		t.Errorf("nineteen of twenty read up to %d", usual)
	}
	if people < 40 || people > 160 { // the 99.9th percentile of these is 59
		t.Errorf("people read up to %d", people)
	}
	if n := fill(30, func(i int) uint64 { return uint64(i+1) << 40 }); float64(n) > 1.6*float64(people) {
		t.Errorf("with robots: %d, people %d", n, people)
	}
	if n := fill(5000, func(int) uint64 { return 1 << 50 }); float64(n) > 1.2*float64(people) {
		t.Errorf("with robots of one network: %d, people %d", n, people)
	}
	var few appetite
	for i := range appetiteFrom - 1 {
		few.vote(uint64(i)<<20, 5, 0)
	}
	if n := few.most.Load(); n != 0 {
		t.Errorf("%d is said of few", n)
	}
}
