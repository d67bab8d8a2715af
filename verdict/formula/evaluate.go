package formula

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// Sample is one labelled score.
type Sample struct {
	Score float32
	Robot bool
}

// Evaluation says how well scores distinguish robots from people.
type Evaluation struct {
	Robots int `json:"robots"`
	People int `json:"people"`

	// AUC is the probability that a robot scores above a person, ties counted as half. Low and High are its 95 %
	// interval by Hanley and McNeil (1982). NaN (null in JSON) without robots or without people.
	AUC  Figure `json:"auc"`
	Low  Figure `json:"auc_low"`
	High Figure `json:"auc_high"`

	// Average is the average precision: the area under the curve of precision and recall. Low and High are its 95 %
	// interval, by drawing the samples again.
	Average     Figure `json:"average_precision"`
	AverageLow  Figure `json:"average_precision_low"`
	AverageHigh Figure `json:"average_precision_high"`

	Calibration      []Bin  `json:"calibration"`
	CalibrationError Figure `json:"calibration_error"` // mean distance between a score and how often it is right

	LogLoss Figure `json:"log_loss"` // mean, natural logarithm
	Brier   Figure `json:"brier"`    // mean squared distance of the score from the label

	Points []Point `json:"points"` // by threshold, from 0.05 to 0.95, and a few near 1
	Curve  []Point `json:"curve"`  // the whole ROC curve, thinned to at most 200 points

	RobotScores  [20]int `json:"robot_scores"` // counts of scores by twentieths
	PeopleScores [20]int `json:"people_scores"`
}

// Figure is a number that may be unknown: NaN, null in JSON.
type Figure float64

// MarshalJSON implements json.Marshaler.
func (f Figure) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(f), 'g', 6, 64), nil
}

// Point is what a threshold does: a score above it bans.
type Point struct {
	Threshold float32 `json:"threshold"`
	Banned    int     `json:"banned_robots"`
	Wronged   int     `json:"banned_people"`
	Precision Figure  `json:"precision"` // the share of robots among those banned; NaN if nobody is
	Recall    Figure  `json:"recall"`    // the share of the robots that is banned
	FPR       Figure  `json:"false_positive_rate"`
}

// Suggestion is the lowest threshold that keeps to the wanted false-positive rate on the data.
type Suggestion struct {
	Wanted float64 `json:"wanted_false_positive_rate"`
	Point
	// Bound is an upper bound on the true rate, with 95 % confidence (Wilson's interval, one-sided): with few people in
	// the data it is far above the observed rate.
	Bound Figure `json:"false_positive_rate_bound"`
}

// Evaluate compares scores with labels. It sorts samples.
func Evaluate(samples []Sample) *Evaluation {
	slices.SortFunc(samples, func(a, b Sample) int { return cmp.Compare(b.Score, a.Score) })
	e := &Evaluation{}
	var loss, brier float64
	for _, s := range samples {
		p := min(max(float64(s.Score), 1e-7), 1-1e-7)
		bin := min(int(s.Score*20), 19)
		if s.Robot {
			e.Robots++
			e.RobotScores[bin]++
			loss -= math.Log(p)
			brier += (1 - float64(s.Score)) * (1 - float64(s.Score))
		} else {
			e.People++
			e.PeopleScores[bin]++
			loss -= math.Log(1 - p)
			brier += float64(s.Score) * float64(s.Score)
		}
	}
	n := float64(len(samples))
	e.LogLoss, e.Brier = Figure(loss/n), Figure(brier/n)
	e.auc(samples)
	e.precision(samples)
	e.Calibration = bins(samples)
	e.CalibrationError = calibrationError(e.Calibration)
	e.curve(samples)
	for _, t := range []float32{
		.05, .1, .15, .2, .25, .3, .35, .4, .45, .5, .55, .6, .65, .7, .75, .8, .85, .9, .95, .97, .98, .99, .995, .999,
	} {
		e.Points = append(e.Points, e.at(samples, t))
	}
	return e
}

// auc counts, for every robot, the people that score below it: the Mann-Whitney statistic.
func (e *Evaluation) auc(samples []Sample) {
	if e.Robots == 0 || e.People == 0 {
		e.AUC, e.Low, e.High = Figure(math.NaN()), Figure(math.NaN()), Figure(math.NaN())
		return
	}
	var sum float64
	above := 0 // robots seen so far
	for i := 0; i < len(samples); {
		j, robots, people := i, 0, 0
		for ; j < len(samples) && samples[j].Score == samples[i].Score; j++ {
			if samples[j].Robot {
				robots++
			} else {
				people++
			}
		}
		sum += float64(people) * (float64(above) + float64(robots)/2)
		above += robots
		i = j
	}
	a, r, p := sum/float64(e.Robots)/float64(e.People), float64(e.Robots), float64(e.People)
	q1, q2 := a/(2-a), 2*a*a/(1+a)
	variance := (a*(1-a) + (r-1)*(q1-a*a) + (p-1)*(q2-a*a)) / (r * p)
	half := 1.96 * math.Sqrt(max(variance, 0))
	e.AUC, e.Low, e.High = Figure(a), Figure(max(a-half, 0)), Figure(min(a+half, 1))
}

// at returns what a threshold does to samples sorted by descending score.
func (e *Evaluation) at(samples []Sample, threshold float32) Point {
	n, _ := slices.BinarySearchFunc(samples, threshold, func(s Sample, t float32) int {
		if s.Score > t {
			return -1
		}
		return 1
	})
	robots := 0
	for _, s := range samples[:n] {
		if s.Robot {
			robots++
		}
	}
	return e.point(threshold, robots, n-robots)
}

func (e *Evaluation) point(threshold float32, robots, people int) Point {
	return Point{
		Threshold: threshold, Banned: robots, Wronged: people,
		Precision: share(robots, robots+people), Recall: share(robots, e.Robots), FPR: share(people, e.People),
	}
}

func share(part, of int) Figure {
	if of == 0 {
		return Figure(math.NaN())
	}
	return Figure(float64(part) / float64(of))
}

// curve adds a point after each group of equal scores, and thins the points out.
func (e *Evaluation) curve(samples []Sample) {
	all := []Point{e.point(1, 0, 0)}
	robots, people := 0, 0
	for i, s := range samples {
		if s.Robot {
			robots++
		} else {
			people++
		}
		if i+1 == len(samples) || samples[i+1].Score != s.Score {
			below := float32(0)
			if i+1 < len(samples) {
				below = samples[i+1].Score
			}
			all = append(all, e.point(below, robots, people))
		}
	}
	const most = 200
	if len(all) <= most {
		e.Curve = all
		return
	}
	for i := range most {
		e.Curve = append(e.Curve, all[i*(len(all)-1)/(most-1)])
	}
}

// Suggest returns the lowest threshold at which at most the wanted share of the people is banned; samples must have
// been sorted by Evaluate.
func (e *Evaluation) Suggest(samples []Sample, wanted float64) Suggestion {
	threshold, people := float32(0), 0
	for _, s := range samples {
		if s.Robot {
			continue
		}
		people++
		if float64(people) > wanted*float64(e.People) {
			threshold = s.Score // this one must not be above the threshold, so nobody below it is either
			break
		}
	}
	out := e.At(samples, threshold)
	out.Wanted = wanted
	return out
}

// At returns what a given threshold does; samples must have been sorted by Evaluate.
func (e *Evaluation) At(samples []Sample, threshold float32) Suggestion {
	p := e.at(samples, threshold)
	return Suggestion{Wanted: float64(p.FPR), Point: p, Bound: Figure(wilson(p.Wronged, e.People))}
}

// wilson is the upper end of the one-sided 95 % score interval of a share.
func wilson(part, of int) float64 {
	if of == 0 {
		return 1
	}
	const z = 1.645
	p, n := float64(part)/float64(of), float64(of)
	return min(1, (p+z*z/(2*n)+z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n)))/(1+z*z/n))
}
