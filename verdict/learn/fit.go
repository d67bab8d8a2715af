// Package learn learns, for each service, how usual a visitor is for that site, from the site's own people.
//
// Rules:
//  1. Known people are the reference, and all others are the contrast. No robot needs a label, and no verdict of the
//     gateway is one.
//  2. Only behaviour counts: see Features. Identity, proof and the neighbours of a network say nothing here.
//  3. Grades set trust and never ban. A grade above Usual takes evidence that a farm of cookies cannot make.
//  4. A network has one vote among the known people, however many of them it has.
//  5. Without enough known people, or with an area that may be chance, there is no opinion.
package learn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sort"
	"time"

	"gonum.org/v1/gonum/optimize"
)

// Features are the features that are learnt from, all of them behaviour: pace, stays, visits and navigation. Features
// that only tell how much is known of a visitor are left out, and those that prove something are rules.
var Features = []string{
	"pages_1s", "pages_10s", "pages_1m", "pages_10m", "pages_1h", "pages_1d", "client_pages_1h",
	"client_loads_1m", "client_loads_10m", "client_loads_1h", "client_loads_1d", "gap_spread",
	"stay_typical", "stay_spread", "stay_spread_most", "stay_long_share", "stay_longest", "stay_longest_ratio",
	"stay_by_kind",
	"awake", "visits", "return_typical", "return_spread_most", "visit_pages", "visit_hours", "visit_longest",
	"targets", "target_share", "parts_per_page", "parts_missing",
	"referer_none_share", "referer_same_share", "referer_known_share", "referer_foreign_share",
	"refused_share", "not_found_share", "not_modified_share", "data_share", "head_share", "post_share", "feed_share",
	"step_share", "number_share", "load_share", "load_typed_share", "unclicked_share", "uncached_share",
	"revisit_share", "branch_share", "jump_share", "entry_share", "entry_within", "fan", "count_share",
}

const (
	binsMost  = 10   // quantile bins of a feature
	folds     = 10   // of the cross-validation
	usual     = 0.95 // this share of the known people is usual
	fewest    = 10   // visitors of each side without which nothing is fitted
	voteShare = 0.01 // of the contrast that one network may have

	opinionPeople = 200 // known people, one for each network, before there is an opinion
	opinionArea   = 0.6 // and the least lower bound of the area
)

// ridges are the strengths of the penalty to choose from, by cross-validation.
var ridges = [...]float64{100, 10, 1, 0.1}

// Sample is a visitor.
type Sample struct {
	Subject uint64 // a hash: it decides the fold
	Network uint64 // a hash; 0: unknown, and without a bound
	Known   bool   // a known person; in a labelled fit a person
	Vectors Vectors
}

// Vectors are the vectors of a visitor, the oldest first, each in the order of Features; NaN: missing. The zero value
// has none.
type Vectors struct {
	x    []float32
	seen uint32 // by Add
}

// vectorsMost is how many vectors Add keeps.
const vectorsMost = 8

// Add keeps a copy of a vector if its turn has come: those kept are spread evenly over all that were added.
func (v *Vectors) Add(x []float32) {
	v.seen++
	d := uint32(len(x))
	if v.seen%v.every() != 0 {
		return
	}
	if v.Len() == vectorsMost { // every second one makes room
		for k := range uint32(vectorsMost / 2) {
			copy(v.x[k*d:], v.x[(2*k+1)*d:(2*k+2)*d])
		}
		v.x = v.x[:vectorsMost/2*d]
		if v.seen%v.every() != 0 {
			return
		}
	}
	v.x = append(v.x, x...)
}

// every is the distance of the vectors that are kept.
func (v *Vectors) every() uint32 {
	n := uint32(1)
	for v.seen > vectorsMost*n {
		n *= 2
	}
	return n
}

// Append appends a copy of a vector, however many there are.
func (v *Vectors) Append(x []float32) { v.x = append(v.x, x...) }

func (v *Vectors) clone() Vectors { return Vectors{slices.Clone(v.x), v.seen} }

// Len is how many there are.
func (v *Vectors) Len() int { return len(v.x) / len(Features) }

// All yields the vectors with their weights, of which the later ones have more, as they tell more; their sum is 1.
func (v *Vectors) All() iter.Seq2[[]float32, float64] {
	n := float64(v.Len())
	return func(yield func([]float32, float64) bool) {
		k := 0.0
		for x := range slices.Chunk(v.x, len(Features)) {
			if k++; !yield(x, 2*k/n/(n+1)) {
				return
			}
		}
	}
}

// Options are what a fit is made with.
type Options struct {
	Service  string
	At       time.Time
	Labelled bool   // the others are robots: nothing is trimmed, and networks have no bound
	Pause    func() // called after each pass over the samples, to let others work; nil: nothing
}

// ErrFew says that there is too little to learn from.
var ErrFew = errors.New("too few samples to learn from")

// Fit learns from visitors. It returns the card, and for each visitor a score by a fit that has not seen it, the mean of
// its vectors': log-odds, high for unusual ones.
func Fit(ctx context.Context, samples []Sample, o Options) (*Card, []float32, error) {
	t, err := newTable(ctx, samples, o)
	if err != nil {
		return nil, nil, err
	}
	ridge, scores, err := t.chooseRidge()
	if err != nil {
		return nil, nil, err
	}
	c := &Card{Version: "learnt-" + o.At.UTC().Format("20060102")}
	c.Learnt = Learnt{Service: o.Service, At: o.At.UTC().Truncate(time.Second), Ridge: ridge}
	if !o.Labelled {
		c.Learnt.Trimmed = t.trim(scores)
		again, err := t.outOfFold([]float64{ridge})
		if err != nil {
			return nil, nil, err
		}
		scores = again[0]
	}
	beta, err := t.fit(ridge, noFold, nil)
	if err != nil {
		return nil, nil, err
	}
	t.describe(c, beta, scores)
	return c, t.means(scores), c.compile()
}

// table is the visitors, and the bins of their vectors.
type table struct {
	ctx      context.Context
	pause    func()
	visitors []Sample
	sides    [2]int      // how many visitors are known, and how many are not
	votes    [2]float64  // of each side: its visitors, as far as networks allow
	weight   []float64   // of a visitor
	trains   []bool      // the visitor is learnt from; false: trimmed
	fold     []int       // of a visitor
	edges    [][]float32 // of each feature, where the next bin begins
	first    []int       // of each feature, the coefficient of its first bin
	size     int         // coefficients
	rows     []row
	column   []uint16 // of each row, the coefficient of each feature
}

// row is a vector.
type row struct {
	visitor int
	weight  float64 // its share of its visitor's weight
}

func newTable(ctx context.Context, samples []Sample, o Options) (*table, error) {
	t := &table{
		ctx: ctx, pause: o.Pause, visitors: samples, size: ownCoefficients,
		weight: make([]float64, len(samples)), trains: make([]bool, len(samples)), fold: make([]int, len(samples)),
	}
	if t.pause == nil {
		t.pause = func() {}
	}
	for i := range samples {
		t.sides[side(&samples[i])]++
		t.trains[i] = true
		for _, w := range samples[i].Vectors.All() {
			t.rows = append(t.rows, row{i, w})
		}
	}
	if min(t.sides[0], t.sides[1]) < fewest {
		return nil, fmt.Errorf("%w: %d known people and %d others", ErrFew, t.sides[0], t.sides[1])
	}
	t.stratify()
	t.weigh(o.Labelled)
	t.bin()
	return t, nil
}

// stratify divides both sides among the folds: with other shares in one, its scores would be shifted.
func (t *table) stratify() {
	order := make([]int, len(t.visitors))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Compare(mix(t.visitors[a].Subject), mix(t.visitors[b].Subject))
	})
	var n [2]int
	for _, i := range order {
		k := side(&t.visitors[i])
		t.fold[i] = n[k] % folds
		n[k]++
	}
}

// weigh gives each visitor a weight of one, and a network that has more visitors than its share no more than that.
// Unless robots have labels, both sides weigh the same: how many of the people are known says nothing about anyone.
func (t *table) weigh(labelled bool) {
	type vote struct {
		network uint64
		side    int
	}
	visitors := map[vote]int{}
	for i := range t.visitors {
		s := &t.visitors[i]
		visitors[vote{s.Network, side(s)}]++
	}
	most := [2]float64{1, max(1, voteShare*float64(t.sides[1]))}
	for i := range t.visitors {
		s := &t.visitors[i]
		t.weight[i] = 1
		if n := float64(visitors[vote{s.Network, side(s)}]); s.Network != 0 && !labelled && n > most[side(s)] {
			t.weight[i] = most[side(s)] / n
		}
		t.votes[side(s)] += t.weight[i]
	}
	for i := range t.weight {
		if !labelled {
			t.weight[i] *= (t.votes[0] + t.votes[1]) / 2 / t.votes[side(&t.visitors[i])]
		}
	}
}

// bin divides each feature into bins.
func (t *table) bin() {
	d := len(Features)
	t.column = make([]uint16, len(t.rows)*d)
	values := make([]weighed, 0, len(t.rows))
	for j := range d {
		values = values[:0]
		for i := range t.visitors {
			for x, w := range t.visitors[i].Vectors.All() {
				if x[j] == x[j] {
					values = append(values, weighed{x[j], w * t.weight[i]})
				}
			}
		}
		edges := edgesOf(values)
		t.edges, t.first = append(t.edges, edges), append(t.first, t.size)
		k := j
		for i := range t.visitors {
			for x := range t.visitors[i].Vectors.All() {
				t.column[k] = missing
				if x[j] == x[j] && len(edges) > 0 { // and not the same for all
					t.column[k] = uint16(t.size + binOf(edges, x[j]))
				}
				k += d
			}
		}
		t.size += len(edges) + 1
		t.pause()
	}
}

// The coefficients that no bin has. The one of missing values is always 0.
const (
	missing = iota
	bias
	ownCoefficients
)

func side(s *Sample) int {
	if s.Known {
		return 0
	}
	return 1
}

// mix spreads the bits of a hash.
func mix(h uint64) uint64 {
	h = (h ^ h>>31) * 0xbf58476d1ce4e5b9
	return h ^ h>>29
}

// edgesOf returns where the bins after the first begin: at quantiles, and never within equal values. It sorts values.
func edgesOf(values []weighed) []float32 {
	byScore(values)
	var edges []float32
	for q := 1; q < binsMost && len(values) > 0; q++ {
		edge := quantile(values, float64(q)/binsMost)
		if edge == values[0].score {
			next := sort.Search(len(values), func(i int) bool { return values[i].score > edge })
			if next == len(values) {
				break
			}
			edge = values[next].score
		}
		if len(edges) == 0 || edge > edges[len(edges)-1] {
			edges = append(edges, edge)
		}
	}
	return edges
}

// binOf returns the bin of a value.
func binOf(edges []float32, x float32) int {
	n := 0
	for _, e := range edges {
		if x >= e {
			n++
		}
	}
	return n
}

const noFold = -1

// fit returns the coefficients with the least weighted loss and penalty over the visitors outside of a fold, beginning
// with others (nil: zeros).
func (t *table) fit(ridge float64, without int, from []float64) ([]float64, error) {
	if from == nil {
		from = make([]float64, t.size)
	}
	gradient, at := make([]float64, t.size), make([]float64, t.size)
	at[0] = math.NaN() // nothing is computed yet
	var loss float64
	compute := func(beta []float64) {
		if slices.Equal(at, beta) {
			return
		}
		loss = t.loss(beta, gradient, without) + t.penalty(beta, gradient, ridge)
		copy(at, beta)
		t.pause()
	}
	problem := optimize.Problem{
		Func: func(beta []float64) float64 { compute(beta); return loss },
		Grad: func(out, beta []float64) { compute(beta); copy(out, gradient) },
		Status: func() (optimize.Status, error) {
			if err := t.ctx.Err(); err != nil {
				return optimize.Failure, err
			}
			return optimize.NotTerminated, nil
		},
	}
	settings := optimize.Settings{
		MajorIterations: 200, Converger: &optimize.FunctionConverge{Relative: 1e-6, Iterations: 3},
	}
	found, err := optimize.Minimize(problem, from, &settings, &optimize.LBFGS{})
	if stop := t.ctx.Err(); stop != nil {
		return nil, stop
	}
	if found == nil || math.IsNaN(found.F) || math.IsInf(found.F, 0) {
		return nil, fmt.Errorf("fit: %w", err)
	}
	return found.X, nil // an error with a location is a line search that ends at the precision of floats
}

// loss returns the logistic loss of the visitors outside of a fold, and sets its gradient.
func (t *table) loss(beta, gradient []float64, without int) (loss float64) {
	clear(gradient)
	for i, r := range t.rows {
		if !t.trains[r.visitor] || t.fold[r.visitor] == without {
			continue
		}
		z, w := t.score(i, beta), r.weight*t.weight[r.visitor]
		y := float64(side(&t.visitors[r.visitor]))
		loss += w * logLoss(z, y)
		g := w * (1/(1+math.Exp(-z)) - y)
		gradient[bias] += g
		for _, c := range t.columns(i) {
			gradient[c] += g
		}
	}
	gradient[missing] = 0
	return loss
}

// penalty returns the penalty of coefficients, and adds its gradient: for each feature the square of the mean, and those
// of the differences between neighbours. So the number of bins hardly matters.
func (t *table) penalty(beta, gradient []float64, ridge float64) (sum float64) {
	for j, first := range t.first {
		n := len(t.edges[j]) + 1
		b, g := beta[first:first+n], gradient[first:first+n]
		mean := 0.0
		for k := range b {
			mean += b[k] / float64(n)
		}
		sum += ridge / 2 * mean * mean
		for k := range b {
			g[k] += ridge * mean / float64(n)
			if k > 0 {
				d := b[k] - b[k-1]
				sum += ridge / 2 * d * d
				g[k] += ridge * d
				g[k-1] -= ridge * d
			}
		}
	}
	return sum
}

// logLoss is the negative logarithm of the likelihood of y, 0 or 1, where the log-odds of 1 are z.
func logLoss(z, y float64) float64 {
	return max(z, 0) - y*z + math.Log1p(math.Exp(-math.Abs(z)))
}

func (t *table) columns(i int) []uint16 { return t.column[i*len(Features) : (i+1)*len(Features)] }

func (t *table) score(i int, beta []float64) float64 {
	z := beta[bias]
	for _, c := range t.columns(i) {
		z += beta[c]
	}
	return z
}

// chooseRidge returns the penalty with the least loss of visitors that a fit has not seen, and the scores of their rows.
func (t *table) chooseRidge() (ridge float64, scores []float32, err error) {
	of, err := t.outOfFold(ridges[:])
	least := math.Inf(1)
	for k, s := range of {
		var loss float64
		for i, mean := range t.means(s) {
			loss += t.weight[i] * logLoss(float64(mean), float64(side(&t.visitors[i])))
		}
		if loss < least {
			least, ridge, scores = loss, ridges[k], s
		}
	}
	return ridge, scores, err
}

// means returns the scores of the visitors whose rows have these scores.
func (t *table) means(scores []float32) []float32 {
	means := make([]float32, len(t.visitors))
	for i, r := range t.rows {
		means[r.visitor] += float32(r.weight) * scores[i]
	}
	return means
}

// outOfFold returns the scores of all rows for each penalty, each by a fit without the fold of its visitor.
func (t *table) outOfFold(penalties []float64) ([][]float32, error) {
	scores := make([][]float32, len(penalties))
	for k := range scores {
		scores[k] = make([]float32, len(t.rows))
	}
	for f := range folds {
		var beta []float64
		for k, ridge := range penalties { // from one to the next: they are near each other
			var err error
			if beta, err = t.fit(ridge, f, beta); err != nil {
				return nil, err
			}
			for i, r := range t.rows {
				if t.fold[r.visitor] == f {
					scores[k][i] = float32(t.score(i, beta))
				}
			}
		}
	}
	return scores, nil
}

// trim takes the known people who are unusual out of the training: robots may be among them.
func (t *table) trim(scores []float32) (trimmed int) {
	means := t.means(scores)
	known, _ := t.split(means)
	limit := quantile(known, usual)
	for i := range t.visitors {
		if t.visitors[i].Known && means[i] > limit {
			t.trains[i] = false
			trimmed++
		}
	}
	return trimmed
}

// split returns the scores of the visitors of both sides, sorted.
func (t *table) split(means []float32) (known, others []weighed) {
	for i := range t.visitors {
		w := weighed{means[i], t.weight[i]}
		if t.visitors[i].Known {
			known = append(known, w)
		} else {
			others = append(others, w)
		}
	}
	byScore(known)
	byScore(others)
	return known, others
}

// describe fills in the card.
func (t *table) describe(c *Card, beta []float64, scores []float32) {
	known, others := t.split(t.means(scores))
	l := &c.Learnt
	l.Known, l.Others, l.Networks = t.sides[0], t.sides[1], int(math.Round(t.votes[0]))
	l.Area, l.Low = area(known, others, t.votes)
	known = known[:0] // a visitor is graded from its first evaluation on: its score varies more than a mean
	for i, r := range t.rows {
		if t.visitors[r.visitor].Known {
			known = append(known, weighed{scores[i], r.weight * t.weight[r.visitor]})
		}
	}
	byScore(known)
	for i := range ranks {
		l.Ranks = append(l.Ranks, quantile(known, float64(i)/(ranks-1)))
	}
	c.Bias = float32(beta[bias])
	var values []weighed
	for j, name := range Features {
		if len(t.edges[j]) == 0 {
			continue
		}
		f := CardFeature{Name: name}
		for k := range len(t.edges[j]) + 1 {
			b := CardBin{Weight: float32(beta[t.first[j]+k])}
			if k > 0 {
				b.From = &t.edges[j][k-1]
			}
			if k < len(t.edges[j]) {
				b.Below = &t.edges[j][k]
			}
			f.Bins = append(f.Bins, b)
		}
		values = values[:0]
		for i := range t.visitors {
			for x, w := range t.visitors[i].Vectors.All() {
				if t.visitors[i].Known && x[j] == x[j] {
					values = append(values, weighed{x[j], w * t.weight[i]})
				}
			}
		}
		byScore(values)
		c.Features = append(c.Features, f)
		l.Typical = append(l.Typical, Typical{Name: name, Value: quantile(values, 0.5)})
	}
}

// weighed is a score with its weight.
type weighed struct {
	score  float32
	weight float64
}

func byScore(list []weighed) {
	slices.SortFunc(list, func(a, b weighed) int { return cmp.Compare(a.score, b.score) })
}

func total(list []weighed) (sum float64) {
	for _, w := range list {
		sum += w.weight
	}
	return sum
}

// quantile returns the least score of a sorted list that a share of the weight does not exceed.
func quantile(list []weighed, share float64) float32 {
	left := share * total(list) * (1 - 1e-12) // the last one is reached in spite of rounding
	for _, w := range list {
		if left -= w.weight; left <= 0 {
			return w.score
		}
	}
	return float32(math.NaN())
}

// area returns the probability that one of the others scores above a known person, ties counted as half, and the lower
// bound of its 95 % interval by Hanley and McNeil (1982), where both sides have so many votes. Both lists are sorted.
func area(known, others []weighed, votes [2]float64) (a, low float64) {
	var sum, below float64
	i := 0
	for j := 0; j < len(others); {
		score, ties, tied := others[j].score, 0.0, 0.0
		for ; i < len(known) && known[i].score < score; i++ {
			below += known[i].weight
		}
		for k := i; k < len(known) && known[k].score == score; k++ {
			tied += known[k].weight
		}
		for ; j < len(others) && others[j].score == score; j++ {
			ties += others[j].weight
		}
		sum += ties * (below + tied/2)
	}
	a = sum / total(known) / total(others)
	n, m := votes[0], votes[1]
	q1, q2 := a/(2-a), 2*a*a/(1+a)
	variance := (a*(1-a) + (m-1)*(q1-a*a) + (n-1)*(q2-a*a)) / (n * m)
	return a, max(a-1.96*math.Sqrt(max(variance, 0)), 0)
}
