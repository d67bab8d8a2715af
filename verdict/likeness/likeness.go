// Package likeness remembers how the latest visitors of a service behave and how each of them is judged by itself, and says of a visitor how
// those are judged who behave most like it. A program that runs at many addresses behaves alike at each, however little one visit shows,
// and what is odd about somebody weighs less where those who behave like that are not odd otherwise.
package likeness

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
)

// MaxTraits is how many traits of a visitor are compared at most.
const MaxTraits = 64 * words

const (
	words   = 2
	levels  = 4    // a trait is compared by the quarter of all visitors that its value is in
	nearest = 8    // visitors whose judgement is taken
	enough  = 24   // visitors that must be known before anything is said
	unlike  = 1.6  // levels that two visitors differ by in a trait that is known of one of them
	latest  = 0.36 // weight of the latest judgement of a visitor in the mean of them: it is compared when its visit has grown by a quarter
	sampled = 256  // visitors by which the quarters are found, at most
)

// Visitors are those of one service that were compared last. Safe for concurrent use; 280 bytes a visitor, for 100 traits.
type Visitors struct {
	mu     sync.Mutex
	most   int
	traits int
	rng    *rand.Rand
	at     map[uint64]int32 // place of a visitor
	all    []visitor
	values []value // of all visitors, those of each in a row
	codes  []code
	bounds [][levels - 1]value // of each trait; none as long as too few are known
	ranks  []float32           // the judgements of all, in order, when the bounds were found
	clock  uint32
	renew  uint32 // when the bounds are found again
}

type visitor struct {
	id    uint64
	judge float32 // mean of how it is judged by itself, as log-odds
	clock uint32  // when it was compared last
}

// value is the upper half of a float32: it has the same order, and three digits are enough.
type value int16

const none value = math.MinInt16

func valueOf(x float32) value {
	if x != x {
		return none
	}
	b := int32(math.Float32bits(x)) //nolint:gosec // the bits
	if b < 0 {
		b = -(b & math.MaxInt32) // negative numbers, in order
	}
	return value(b >> 16) //nolint:gosec // fits
}

// code is what is compared: which traits are known, and which are above each of the bounds.
type code struct {
	known [words]uint64
	above [levels - 1][words]uint64
}

// New returns visitors of whom the most latest are remembered, by so many traits.
func New(most, traits int) *Visitors {
	return &Visitors{most: most, traits: min(traits, MaxTraits), rng: rand.New(rand.NewPCG(1, 2)), at: make(map[uint64]int32)} //nolint:gosec // no secret
}

// Compare records how a visitor behaves, NaN for traits that are not known, and how it is judged by itself, as log-odds. It returns how those
// others are judged that behave most like it: the mean of the shares of all visitors that are judged better, between 0 and 1; NaN as
// long as too few are known.
func (v *Visitors) Compare(id uint64, traits []float32, judge float32) float32 {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clock++
	if v.clock >= v.renew && len(v.all) >= enough {
		v.divide()
	}
	at, known := v.at[id]
	if !known {
		at = v.place(id)
	}
	is := &v.all[at]
	if known {
		judge = is.judge + (judge-is.judge)*latest
	}
	*is = visitor{id: id, judge: judge, clock: v.clock}
	row := v.row(at)
	for i := range row {
		row[i] = valueOf(traits[i])
	}
	if v.bounds == nil {
		return float32(math.NaN())
	}
	v.codes[at] = v.encode(row)
	return v.standing(at)
}

func (v *Visitors) row(at int32) []value { return v.values[int(at)*v.traits:][:v.traits] }

// place gives a new visitor a place: while there are any a free one, then that of whoever was compared less lately, of two.
func (v *Visitors) place(id uint64) (at int32) {
	if len(v.all) < v.most {
		at = int32(len(v.all)) //nolint:gosec // bounded by most
		v.all = append(v.all, visitor{})
		v.codes = append(v.codes, code{})
		v.values = append(v.values, make([]value, v.traits)...)
	} else {
		at = int32(v.rng.IntN(v.most))                                                //nolint:gosec // likewise
		if other := int32(v.rng.IntN(v.most)); v.all[other].clock < v.all[at].clock { //nolint:gosec // likewise
			at = other
		}
		delete(v.at, v.all[at].id)
	}
	v.at[id] = at
	return at
}

// divide finds the bounds that divide the visitors into equal parts by each trait, and the order of their judgements.
func (v *Visitors) divide() {
	n := len(v.all)
	v.renew = v.clock + uint32(max(8, n/4)) //nolint:gosec // small
	if v.bounds == nil {
		v.bounds = make([][levels - 1]value, v.traits)
	}
	step := max(1, n/sampled)
	column := make([]value, 0, n/step+1)
	for i := range v.bounds {
		column = column[:0]
		for at := 0; at < n; at += step {
			if x := v.values[at*v.traits+i]; x != none {
				column = append(column, x)
			}
		}
		slices.Sort(column)
		for l := range v.bounds[i] {
			if len(column) > 0 {
				v.bounds[i][l] = column[len(column)*(l+1)/levels]
			}
		}
	}
	v.ranks = v.ranks[:0]
	for at := range v.all {
		v.codes[at] = v.encode(v.row(int32(at))) //nolint:gosec // bounded by most
		v.ranks = append(v.ranks, v.all[at].judge)
	}
	slices.Sort(v.ranks)
}

func (v *Visitors) encode(row []value) (c code) {
	for i, x := range row {
		if x == none {
			continue
		}
		w, bit := i/64, uint64(1)<<(i%64)
		c.known[w] |= bit
		for l := range c.above {
			if x > v.bounds[i][l] {
				c.above[l][w] |= bit
			}
		}
	}
	return c
}

// oneOver is the reciprocals of numbers of traits.
var oneOver = func() (of [MaxTraits + 1]float32) {
	for i := range of {
		of[i] = 1 / float32(i)
	}
	return of
}()

// unlikeness is how much two visitors differ: in levels, for each trait that is known of both, and for those that are known of one.
func (c *code) unlikeness(o *code) float32 {
	of, at := c.known[0]&o.known[0], c.known[1]&o.known[1]
	both := bits.OnesCount64(of) + bits.OnesCount64(at)
	one := bits.OnesCount64(c.known[0]^o.known[0]) + bits.OnesCount64(c.known[1]^o.known[1])
	differ := 0
	for l := range c.above {
		differ += bits.OnesCount64((c.above[l][0]^o.above[l][0])&of) + bits.OnesCount64((c.above[l][1]^o.above[l][1])&at)
	}
	if both == 0 {
		return math.MaxFloat32
	}
	return float32(differ)*oneOver[both] + unlike*float32(one)*oneOver[both+one]
}

// standing is the mean of the ranks of those who are most like the visitor at a place.
func (v *Visitors) standing(at int32) float32 {
	type other struct {
		by float32
		at int32
	}
	var near [nearest]other
	n := 0
	own := v.codes[at]
	for i := range v.codes {
		if i == int(at) {
			continue
		}
		by := own.unlikeness(&v.codes[i])
		if n == nearest {
			if by >= near[n-1].by {
				continue
			}
			n--
		}
		k := n
		for ; k > 0 && near[k-1].by > by; k-- {
			near[k] = near[k-1]
		}
		near[k] = other{by, int32(i)} //nolint:gosec // bounded by most
		n++
	}
	sum := float32(0)
	for _, o := range near[:n] {
		sum += v.rank(v.all[o.at].judge)
	}
	return sum / float32(n)
}

// rank is the share of all visitors that are judged better than this, half of those that are judged the same among them.
func (v *Visitors) rank(judge float32) float32 {
	first, _ := slices.BinarySearch(v.ranks, judge)
	last, _ := slices.BinarySearchFunc(v.ranks, judge, func(r, than float32) int {
		if r <= than {
			return -1
		}
		return 1
	})
	return float32(first+last) / 2 / float32(len(v.ranks))
}
