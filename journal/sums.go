package journal

import "strings"

// Sums are figures added up.
type Sums struct {
	Requests   map[string]float64 // by verdict
	Total      float64
	Challenges map[string]float64 // shown, and by outcome: passed, failed and others
}

// Sum adds up the figures of requests and challenges.
func Sum(all []Figures) Sums {
	s := Sums{Requests: map[string]float64{}, Challenges: map[string]float64{}}
	for _, f := range all {
		for name, n := range f.Counts {
			of, rest, more := strings.Cut(name, "/")
			first, _, _ := strings.Cut(rest, "/")
			switch {
			case of == "shown":
				s.Challenges["shown"] += n
			case of == "answers" && more:
				s.Challenges[first] += n
			case of == "requests" && more:
				s.Requests[first] += n
				s.Total += n
			}
		}
	}
	return s
}
