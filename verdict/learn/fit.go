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
	binsMost  = 5    // quantile bins of a feature
	folds     = 5    // of the cross-validation
	usual     = 0.95 // this share of the known people is usual
	fewest    = 10   // visitors of each side without which nothing is fitted
	voteShare = 0.01 // of the contrast that one network may have

	opinionPeople = 200 // known people, one for each network, before there is an opinion
	opinionArea   = 0.6 // and the least lower bound of the area
)

// ridges are the strengths of the penalty to choose from, by cross-validation.
var ridges = [...]float64{100, 10, 1, 0.1}

// Sample is a vector of a visitor, who may have several: they share its weight, and are all of one kind.
type Sample struct {
	Subject uint64    // a hash: it decides the fold
	Network uint64    // a hash; 0: unknown, and without a bound
	Known   bool      // a known person; in a labelled fit a person
	X       []float32 // in the order of Features; NaN: missing
}

// Options are what a fit is made with.
type Options struct {
	Service  string
	At       time.Time
	Labelled bool   // the samples that are not known are robots: nothing is trimmed, and networks have no bound
	Pause    func() // called after each pass over the samples, to let others work; nil: nothing
}

// ErrFew says that there is too little to learn from.
var ErrFew = errors.New("too few samples to learn from")

// Fit learns from samples. It returns the card, and for each sample a score by a fit that has not seen its visitor:
// log-odds, high for unusual ones.
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
		if scores, err = t.outOfFold(ridge); err != nil {
			return nil, nil, err
		}
	}
	beta, err := t.fit(ridge, func(int) bool { return true }, nil)
	if err != nil {
		return nil, nil, err
	}
	t.describe(c, beta, scores)
	return c, scores, c.compile()
}

// table is the samples with their features in bins.
type table struct {
	ctx     context.Context
	samples []Sample
	edges   [][]float32 // of each feature, where the next bin begins
	first   []int       // of each feature, the coefficient of its first bin
	size    int         // coefficients
	people  int         // known
	others  int
	column  []uint16  // of each sample, the coefficient of each feature
	weight  []float64 // of a sample
	trains  []bool    // the sample is learnt from; false: trimmed
	fold    []uint8
	pause   func()
}

func newTable(ctx context.Context, samples []Sample, o Options) (*table, error) {
	var sides [2]map[uint64]bool
	for k := range sides {
		sides[k] = map[uint64]bool{}
	}
	for i := range samples {
		if len(samples[i].X) != len(Features) {
			return nil, fmt.Errorf("a vector has %d features instead of %d", len(samples[i].X), len(Features))
		}
		sides[side(&samples[i])][samples[i].Subject] = true
	}
	if people, others := len(sides[0]), len(sides[1]); min(people, others) < fewest {
		return nil, fmt.Errorf("%w: %d known people and %d others", ErrFew, people, others)
	}
	n, d := len(samples), len(Features)
	t := &table{
		ctx: ctx, pause: o.Pause, samples: samples, people: len(sides[0]), others: len(sides[1]), size: ownCoefficients,
		column: make([]uint16, n*d), weight: make([]float64, n), trains: make([]bool, n), fold: make([]uint8, n),
	}
	if t.pause == nil {
		t.pause = func() {}
	}
	for i := range samples {
		t.fold[i] = uint8(mix(samples[i].Subject) % folds)
		t.trains[i] = true
	}
	t.weigh(o.Labelled)
	values := make([]float32, 0, n)
	for j := range d {
		values = values[:0]
		for i := range samples {
			if x := samples[i].X[j]; x == x {
				values = append(values, x)
			}
		}
		t.edges = append(t.edges, edgesOf(values))
		t.first = append(t.first, t.size)
		t.size += len(t.edges[j]) + 1
		for i := range samples {
			t.column[i*d+j] = uint16(t.columnOf(j, samples[i].X[j]))
		}
		t.pause()
	}
	return t, nil
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

// weigh gives each visitor a weight of one, divided among its samples, and a network that has more visitors than its
// share no more than that.
func (t *table) weigh(labelled bool) {
	type vote struct {
		network uint64
		side    int
	}
	samples, visitors := map[uint64]int{}, map[vote]int{}
	var sides [2]int
	for i := range t.samples {
		s := &t.samples[i]
		if samples[s.Subject]++; samples[s.Subject] == 1 {
			visitors[vote{s.Network, side(s)}]++
			sides[side(s)]++
		}
	}
	most := [2]float64{1, max(1, voteShare*float64(sides[1]))}
	for i := range t.samples {
		s := &t.samples[i]
		t.weight[i] = 1 / float64(samples[s.Subject])
		if n := float64(visitors[vote{s.Network, side(s)}]); s.Network != 0 && !labelled && n > most[side(s)] {
			t.weight[i] *= most[side(s)] / n
		}
	}
}

// edgesOf returns where the bins after the first begin: at quantiles, and never within equal values. It sorts values.
func edgesOf(values []float32) []float32 {
	slices.Sort(values)
	var edges []float32
	for q := 1; q < binsMost && len(values) > 0; q++ {
		edge := values[q*len(values)/binsMost]
		if edge == values[0] {
			next := sort.Search(len(values), func(i int) bool { return values[i] > edge })
			if next == len(values) {
				break
			}
			edge = values[next]
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

func (t *table) columnOf(feature int, x float32) int {
	if x != x || len(t.edges[feature]) == 0 { // or the same for all
		return missing
	}
	return t.first[feature] + binOf(t.edges[feature], x)
}

// fit returns the coefficients with the least weighted loss and penalty over the samples that are picked, beginning
// with others (nil: zeros).
func (t *table) fit(ridge float64, pick func(i int) bool, from []float64) ([]float64, error) {
	var rows []int
	for i := range t.samples {
		if t.trains[i] && pick(i) {
			rows = append(rows, i)
		}
	}
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
		loss = t.loss(beta, gradient, rows, ridge)
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

// loss returns the logistic loss of samples with the penalty, and sets its gradient.
func (t *table) loss(beta, gradient []float64, rows []int, ridge float64) (loss float64) {
	clear(gradient)
	for _, i := range rows {
		z, w := t.score(i, beta), t.weight[i]
		y := float64(side(&t.samples[i]))
		loss += w * logLoss(z, y)
		g := w * (1/(1+math.Exp(-z)) - y)
		gradient[bias] += g
		for _, c := range t.columns(i) {
			gradient[c] += g
		}
	}
	gradient[missing] = 0
	for k := ownCoefficients; k < t.size; k++ {
		loss += ridge / 2 * beta[k] * beta[k]
		gradient[k] += ridge * beta[k]
	}
	return loss
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

// chooseRidge returns the penalty with the least loss of samples that a fit has not seen, and their scores.
func (t *table) chooseRidge() (ridge float64, scores []float32, err error) {
	of := make([][]float32, len(ridges))
	for i := range of {
		of[i] = make([]float32, len(t.samples))
	}
	for f := range uint8(folds) {
		var beta []float64
		for k, r := range ridges { // from one to the next: they are near each other
			if beta, err = t.fit(r, func(i int) bool { return t.fold[i] != f }, beta); err != nil {
				return 0, nil, err
			}
			t.scoreFold(of[k], f, beta)
		}
	}
	least := math.Inf(1)
	for k, s := range of {
		var loss float64
		for i := range t.samples {
			loss += t.weight[i] * logLoss(float64(s[i]), float64(side(&t.samples[i])))
		}
		if loss < least {
			least, ridge, scores = loss, ridges[k], s
		}
	}
	return ridge, scores, nil
}

// outOfFold returns the scores of all samples, each by a fit without its fold.
func (t *table) outOfFold(ridge float64) ([]float32, error) {
	scores := make([]float32, len(t.samples))
	for f := range uint8(folds) {
		beta, err := t.fit(ridge, func(i int) bool { return t.fold[i] != f }, nil)
		if err != nil {
			return nil, err
		}
		t.scoreFold(scores, f, beta)
	}
	return scores, nil
}

func (t *table) scoreFold(scores []float32, fold uint8, beta []float64) {
	for i := range scores {
		if t.fold[i] == fold {
			scores[i] = float32(t.score(i, beta))
		}
	}
}

// trim takes the known people who are unusual out of the training: robots may be among them.
func (t *table) trim(scores []float32) (trimmed int) {
	limit := quantile(t.known(scores), usual)
	for i := range t.samples {
		if t.samples[i].Known && scores[i] > limit {
			t.trains[i] = false
			trimmed++
		}
	}
	return trimmed
}

// known returns the scores of the known people.
func (t *table) known(scores []float32) []weighed {
	var list []weighed
	for i := range t.samples {
		if t.samples[i].Known {
			list = append(list, weighed{scores[i], t.weight[i]})
		}
	}
	return list
}

// describe fills in the card.
func (t *table) describe(c *Card, beta []float64, scores []float32) {
	known := t.known(scores)
	var others []weighed
	for i := range t.samples {
		if !t.samples[i].Known {
			others = append(others, weighed{scores[i], t.weight[i]})
		}
	}
	l := &c.Learnt
	l.Known, l.Others, l.Networks = t.people, t.others, int(math.Round(total(known)))
	l.Area, l.Low = area(known, others)
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
		for i := range t.samples {
			if x := t.samples[i].X[j]; t.samples[i].Known && x == x {
				values = append(values, weighed{x, t.weight[i]})
			}
		}
		c.Features = append(c.Features, f)
		l.Typical = append(l.Typical, Typical{Name: name, Value: quantile(values, 0.5)})
	}
}

// weighed is a score with its weight.
type weighed struct {
	score  float32
	weight float64
}

func total(list []weighed) (sum float64) {
	for _, w := range list {
		sum += w.weight
	}
	return sum
}

// quantile returns the least score that a share of the weight does not exceed. It sorts the list.
func quantile(list []weighed, share float64) float32 {
	slices.SortFunc(list, func(a, b weighed) int { return cmp.Compare(a.score, b.score) })
	left := share * total(list) * (1 - 1e-12) // the last one is reached in spite of rounding
	for _, w := range list {
		if left -= w.weight; left <= 0 {
			return w.score
		}
	}
	return float32(math.NaN())
}

// area returns the probability that one of the others scores above a known person, ties counted as half, and the lower
// bound of its 95 % interval by Hanley and McNeil (1982).
func area(known, others []weighed) (a, low float64) {
	byScore := func(a, b weighed) int { return cmp.Compare(a.score, b.score) }
	slices.SortFunc(known, byScore)
	slices.SortFunc(others, byScore)
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
	n, m := total(known), total(others)
	a = sum / n / m
	q1, q2 := a/(2-a), 2*a*a/(1+a)
	variance := (a*(1-a) + (m-1)*(q1-a*a) + (n-1)*(q2-a*a)) / (n * m)
	return a, max(a-1.96*math.Sqrt(max(variance, 0)), 0)
}
