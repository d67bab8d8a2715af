package likeness

import (
	"math"
	"math/rand/v2"
	"testing"
)

const width = 40

// sort is a way to behave: the mean of each trait, and by how much visitors differ in it.
type sort struct{ mean, differ float32 }

// behave draws the traits of somebody of a sort; one in eight is not known.
func (s sort) behave(rng *rand.Rand) []float32 {
	x := make([]float32, width)
	for i := range x {
		x[i] = s.mean*float32(i%5) + s.differ*float32(rng.NormFloat64())
		if rng.IntN(8) == 0 {
			x[i] = float32(math.NaN())
		}
	}
	return x
}

// TestCompare: who behaves like those that are judged robots is told from who behaves like those that are judged people, whatever is known of
// it itself, and is in between where nobody like it is judged differently from all others.
func TestCompare(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	v := New(400, width)
	people, program, others := sort{0, 1}, sort{1, 0.3}, sort{-1, 0.3}
	var last [3]float32
	for id := range uint64(900) {
		judged := -4 + float32(rng.NormFloat64()) // by itself; what is odd about a program shows with some of its visits
		switch id % 3 {
		case 0:
			last[0] = v.Compare(id, people.behave(rng), judged)
		case 1:
			last[1] = v.Compare(id, program.behave(rng), judged+3*rng.Float32())
		case 2:
			last[2] = v.Compare(id, others.behave(rng), judged-3*rng.Float32())
		}
	}
	if !(last[1] > 0.65) || !(last[0] > 0.35 && last[0] < 0.65) || !(last[2] < 0.35) {
		t.Errorf("like a program %.2f, like people %.2f, like calm people %.2f", last[1], last[0], last[2])
	}
	if len(v.all) != 400 || len(v.at) != 400 || len(v.codes) != 400 || len(v.values) != 400*width {
		t.Errorf("%d visitors, %d places, %d codes, %d values are remembered, want 400 of each", len(v.all), len(v.at), len(v.codes), len(v.values))
	}
	for id, at := range v.at {
		if v.all[at].id != id {
			t.Fatalf("visitor %d is at the place of %d", id, v.all[at].id)
		}
	}
}

// TestNotByItself: what somebody is judged by itself moves those who behave alike, and not what is said of it.
func TestNotByItself(t *testing.T) {
	say := func(judged float32) (own, next float32) {
		rng := rand.New(rand.NewPCG(3, 4))
		v := New(400, width)
		for id := range uint64(60) {
			v.Compare(id, sort{float32(id % 2), 0.3}.behave(rng), -4+float32(rng.NormFloat64()))
		}
		x := sort{4, 0.01}.behave(rng)
		own = v.Compare(100, x, judged)
		for range 20 {
			v.Compare(100, x, judged)
		}
		return own, v.Compare(101, x, -4)
	}
	good, next := say(-9)
	bad, after := say(9)
	if good != bad {
		t.Errorf("judged well it stands at %v, judged badly at %v", good, bad)
	}
	if !(after > next+0.05) {
		t.Errorf("who behaves like somebody judged well stands at %v, like somebody judged badly at %v", next, after)
	}
}

// TestTooFew: nothing is said before others are known; nor are there others where one visitor is compared again and again.
func TestTooFew(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	v := New(400, width)
	for i := range 500 {
		if got := v.Compare(1, sort{0, 1}.behave(rng), float32(i)); got == got {
			t.Fatalf("alone, it stands at %v", got)
		}
	}
	for id := range uint64(enough) {
		if got := v.Compare(id+1, sort{0, 1}.behave(rng), 0); got == got {
			t.Fatalf("among %d, it stands at %v", id+1, got)
		}
	}
	if got := v.Compare(1000, sort{0, 1}.behave(rng), 0); !(got >= 0 && got <= 1) {
		t.Errorf("among %d others it stands at %v", enough, got)
	}
}

// TestOddTraits: traits that nobody has, that all have alike, and infinite ones are compared without harm; the order of values is that of their halves.
func TestOddTraits(t *testing.T) {
	v := New(64, width)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for id := range uint64(200) {
		x := make([]float32, width)
		for i := range x {
			x[i] = []float32{nan, 1, inf, -inf, float32(id)}[i%5]
		}
		if got := v.Compare(id, x, float32(id)); id > enough && !(got >= 0 && got <= 1) {
			t.Fatalf("visitor %d stands at %v", id, got)
		}
	}
	all := make([]float32, width)
	for i := range all {
		all[i] = nan
	}
	if got := v.Compare(1000, all, 0); !(got >= 0 && got <= 1) {
		t.Errorf("of whom nothing is known stands at %v", got)
	}
	order := []float32{-inf, -3e38, -2, -1, -1e-30, 0, 1e-30, 0.5, 1, 1.5, 1000, 3e38, inf}
	for i := 1; i < len(order); i++ {
		if !(valueOf(order[i-1]) < valueOf(order[i])) {
			t.Errorf("%v comes not before %v", order[i-1], order[i])
		}
	}
	if valueOf(nan) != none || valueOf(-inf) == none {
		t.Error("what is not known is a value")
	}
}

// BenchmarkCompare is one comparison with a thousand visitors: budget 20 µs, for one page in a few.
func BenchmarkCompare(b *testing.B) {
	rng := rand.New(rand.NewPCG(7, 8))
	v := New(1024, 85)
	x := make([]float32, 85)
	for id := range uint64(4096) {
		for i := range x {
			x[i] = rng.Float32()
		}
		v.Compare(id, x, rng.Float32())
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		v.Compare(uint64(i)*7919%4096, x, 0)
	}
}
