package formula

import (
	"math"
	"math/rand/v2"
	"slices"
)

// How many times samples are drawn again for an interval: fewer of many samples, whose interval is narrow.
const (
	resamples    = 200
	resamplesMin = 20
	resampleWork = 4_000_000
)

// Bin is how often scores of a range are right: of a calibrated model, Robots of Count is about Score.
type Bin struct {
	From   Figure `json:"from"`  // scores from this …
	Score  Figure `json:"score"` // … have this mean
	Count  int    `json:"count"`
	Robots int    `json:"robots"`
}

// bins sorts samples into ten bins of equal width; those without samples are left out.
func bins(samples []Sample) []Bin {
	var all [10]Bin
	for _, s := range samples {
		b := &all[min(max(int(s.Score*10), 0), 9)]
		b.Score += Figure(s.Score)
		b.Count++
		if s.Robot {
			b.Robots++
		}
	}
	out := []Bin{}
	for i, b := range all {
		if b.Count > 0 {
			b.From, b.Score = Figure(i)/10, b.Score/Figure(b.Count)
			out = append(out, b)
		}
	}
	return out
}

// calibrationError is the mean distance of the bins' scores from their shares of robots.
func calibrationError(all []Bin) Figure {
	var sum, n float64
	for _, b := range all {
		sum += math.Abs(float64(b.Score)*float64(b.Count) - float64(b.Robots))
		n += float64(b.Count)
	}
	return Figure(sum / n)
}

// precision sets the average precision and its interval, by drawing the samples again; they are sorted by descending
// score. The same samples give the same interval.
func (e *Evaluation) precision(samples []Sample) {
	times := make([]int, len(samples))
	for i := range times {
		times[i] = 1
	}
	e.Average = averagePrecision(samples, times)
	e.AverageLow, e.AverageHigh = e.Average, e.Average
	if math.IsNaN(float64(e.Average)) {
		return
	}
	chance := rand.New(rand.NewPCG(1, uint64(len(samples)))) //nolint:gosec // nothing secret: the same each time
	var drawn []float64
	for range min(resamples, max(resamplesMin, resampleWork/len(samples))) {
		clear(times)
		for range samples {
			times[chance.IntN(len(samples))]++
		}
		if a := float64(averagePrecision(samples, times)); !math.IsNaN(a) {
			drawn = append(drawn, a)
		}
	}
	slices.Sort(drawn)
	if n := len(drawn); n > 0 {
		e.AverageLow, e.AverageHigh = Figure(drawn[n*25/1000]), Figure(drawn[(n-1)*975/1000])
	}
}

// averagePrecision is the mean, over the robots, of the precision at their score: the area under the curve of precision
// and recall. times says how often each sample counts. Samples of one score are one step.
func averagePrecision(samples []Sample, times []int) Figure {
	var robots, all, sum float64
	for i := 0; i < len(samples); {
		j, here := i, 0.0
		for ; j < len(samples) && samples[j].Score == samples[i].Score; j++ {
			all += float64(times[j])
			if samples[j].Robot {
				here += float64(times[j])
			}
		}
		robots += here
		if all > 0 {
			sum += here * robots / all
		}
		i = j
	}
	return Figure(sum / robots) // NaN without robots
}

// BetterThanChance reports whether the scores tell robots from people at all, with 95 % confidence. Of a few samples
// even a perfect order may be luck.
func (e *Evaluation) BetterThanChance() bool {
	if e.Robots == 0 || e.People == 0 || !(e.Low > 0.5) {
		return false
	}
	r, _ := math.Lgamma(float64(e.Robots + 1))
	p, _ := math.Lgamma(float64(e.People + 1))
	n, _ := math.Lgamma(float64(e.Robots + e.People + 1))
	return n-r-p >= math.Log(1/0.025) // as many orders there are; one of them is perfect
}
