package bench

import (
	"math"
	"slices"
)

const z = 1.959964 // of a normal distribution, 95 % lie within

// area is the area under the ROC curve with the variance of its estimate: how often a robot has a higher score than a person.
type area struct{ value, variance float64 }

// areaOf estimates the area as DeLong, DeLong and Clarke-Pearson do (Biometrics 44, 1988). Without two of either class
// nothing is known: not a number.
func areaOf(visitors []visitor) area {
	var people, robots []float64
	for _, v := range visitors {
		if v.robot {
			robots = append(robots, v.score)
		} else {
			people = append(people, v.score)
		}
	}
	slices.Sort(people)
	slices.Sort(robots)
	value, ofRobots := placed(robots, people)
	_, ofPeople := placed(people, robots)
	return area{value, ofRobots + ofPeople}
}

// placed is which share of the others lies below one of these in the mean (of equals: half), and the variance of that mean.
func placed(these, others []float64) (mean, variance float64) {
	n := float64(len(these))
	shares := make([]float64, len(these))
	for i, x := range these {
		below, _ := slices.BinarySearch(others, x)
		upTo, _ := slices.BinarySearch(others, math.Nextafter(x, math.Inf(1)))
		shares[i] = float64(below+upTo) / 2 / float64(len(others))
		mean += shares[i] / n
	}
	for _, s := range shares {
		variance += (s - mean) * (s - mean) / (n - 1) / n
	}
	return mean, variance
}

// meanArea is the mean of areas of logs that have nobody in common.
func meanArea(areas []area) area {
	n := float64(len(areas))
	var mean area
	for _, a := range areas {
		mean.value += a.value / n
		mean.variance += a.variance / n / n
	}
	return mean
}

// interval is where the area lies with 95 %.
func (a area) interval() (low, high float64) {
	d := z * math.Sqrt(a.variance)
	return max(0, a.value-d), min(1, a.value+d)
}

// wilson is where a share lies with 95 % of which k of n were seen.
func wilson(k, n int) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	p, m := float64(k)/float64(n), float64(n)
	middle := p + z*z/(2*m)
	d := z * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return max(0, (middle-d)/(1+z*z/m)), min(1, (middle+d)/(1+z*z/m))
}
