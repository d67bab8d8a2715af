package formula

import (
	"math"
)

// A score card is a YAML file such as
//
//	version: shop-3
//	bias: -4                      # the raw score of a subject of which nothing is known
//	factors:
//	  - name: pages_1m
//	    why: pages in a minute    # shown in explanations; may be left out
//	    unknown: 0                # what NaN adds; 0 if left out
//	    bins:                     # at most one applies; outside all of them the factor adds 0
//	      - {from: 30, below: 60, weight: 1.5}   # 30 ≤ x < 60
//	      - {from: 60, weight: 3}
//	      - {is: 0, weight: -0.5}                # x = 0
//	groups:                       # of entries that add to no more than so much together; may be left out
//	  - {name: missing, most: 3}  # entries and rules join one by group: missing
//	  - {name: typed, most: 2, family: entry}      # of the groups of a family, each another sign of one thing, only the one that
//	  - {name: within, most: 2.5, family: entry}   # adds the most counts, and only the one that takes off the most
//	rules:                        # for what is suspicious only together; may be left out
//	  - name: many pages and no pictures
//	    weight: 2
//	    all:
//	      - {factor: pages_1h, from: 20}
//	      - {factor: resource_share, below: 0.05, unknown: false}   # whether NaN fits; false if left out
//
// All numbers are log-odds: the raw score is bias plus the weights that apply, and Score its logistic function. What a
// rule adds is credited to its factors in equal parts.

// Bounds of a score card.
const (
	maxCardFactors = 1024
	maxCardBins    = 64
	maxCardRules   = 1024
	maxCardTerms   = 16
	maxCardGroups  = 16
	maxCardWeight  = 100
)

type card struct {
	bias    float64
	factors []cardFactor
	rules   []cardRule
	most    []float32 // by group, the most that it adds; group 0 is for entries without a group, and has no bound
	family  []uint8   // by group; 0: none
}

type cardFactor struct {
	factor  int
	group   int
	unknown float32
	bins    []cardBin // by from, without overlap
}

// span is from ≤ x < below.
type span struct{ from, below float32 }

type cardBin struct {
	span
	weight float32
}

type cardRule struct {
	weight float32
	group  int
	terms  []cardTerm
}

type cardTerm struct {
	span
	factor  int
	unknown bool // NaN matches
}

func (s span) has(x float32) bool { return x >= s.from && x < s.below }

func (f *cardFactor) weight(x float32) float32 {
	if x != x { // NaN is the only value that differs from itself; this compiles to no call
		return f.unknown
	}
	for i := range f.bins {
		if f.bins[i].has(x) {
			return f.bins[i].weight
		}
	}
	return 0
}

func (r *cardRule) applies(x []float32) bool {
	for i := range r.terms {
		t := &r.terms[i]
		v := x[t.factor]
		unknown := v != v
		if unknown && !t.unknown || !unknown && !t.has(v) {
			return false
		}
	}
	return true
}

// sums adds up what applies, by group.
func (c *card) sums(x []float32) (sums [maxCardGroups + 1]float64) {
	for i := range c.factors {
		f := &c.factors[i]
		sums[f.group] += float64(f.weight(x[f.factor]))
	}
	for i := range c.rules {
		if r := &c.rules[i]; r.applies(x) {
			sums[r.group] += float64(r.weight)
		}
	}
	return sums
}

func (c *card) raw(x []float32) float32 {
	sums := c.sums(x)
	part := c.parts(&sums)
	sum := c.bias
	for g := range c.most {
		sum += sums[g] * part[g]
	}
	return float32(sum)
}

// parts returns how much of the sum of each group counts: what is beyond its maximum does not, and of the groups of a family only
// the one that adds the most does, and the one that takes off the most.
func (c *card) parts(sums *[maxCardGroups + 1]float64) (part [maxCardGroups + 1]float64) {
	part[0] = 1
	var high, low [maxCardGroups + 1]uint8 // by family, the group
	for g := 1; g < len(c.most); g++ {
		part[g] = 1
		if most := float64(c.most[g]); sums[g] > most {
			part[g] = most / sums[g]
		}
		f := c.family[g]
		if f == 0 {
			continue
		}
		best := &high[f]
		if sums[g] < 0 {
			best = &low[f]
		}
		switch rival := int(*best); {
		case rival == 0:
			*best = uint8(g)
		case math.Abs(sums[g]*part[g]) > math.Abs(sums[rival]*part[rival]):
			part[rival], *best = 0, uint8(g)
		default:
			part[g] = 0
		}
	}
	return part
}

// explain cuts what does not count of a group, each entry in proportion.
func (c *card) explain(dst, x []float32) {
	sums := c.sums(x)
	part := c.parts(&sums)
	for i := range c.factors {
		f := &c.factors[i]
		dst[f.factor] += f.weight(x[f.factor]) * float32(part[f.group])
	}
	for i := range c.rules {
		r := &c.rules[i]
		if !r.applies(x) {
			continue
		}
		for k := range r.terms {
			dst[r.terms[k].factor] += r.weight * float32(part[r.group]) / float32(len(r.terms))
		}
	}
}

// importance adds up the distance between the lowest and the highest weight of each factor.
func (c *card) importance(weight []float32) {
	for i := range c.factors {
		f := &c.factors[i]
		low, high := min(0, f.unknown), max(0, f.unknown)
		for k := range f.bins {
			low, high = min(low, f.bins[k].weight), max(high, f.bins[k].weight)
		}
		weight[f.factor] += high - low
	}
	for i := range c.rules {
		r := &c.rules[i]
		for k := range r.terms {
			weight[r.terms[k].factor] += abs(r.weight) / float32(len(r.terms))
		}
	}
}

// everything is the span of a bin or a term without bounds.
func everything() span { return span{from: float32(math.Inf(-1)), below: float32(math.Inf(1))} }

// just is the span of one value.
func just(v float32) span { return span{from: v, below: math.Nextafter32(v, float32(math.Inf(1)))} }
