package entrances

import (
	"math"
	"sync"
	"time"
)

// rhythm is at which hours of the day people come to a service: those who come in and go on from there. To who works through
// a list all hours are alike. Safe for concurrent use; the zero value knows nothing.
type rhythm struct {
	mu    sync.Mutex
	came  [24]float32 // by the hour
	all   float32
	day   int64 // to which they have faded
	since int64 // unix seconds of the first
}

const (
	enoughCame  = 200 // people needed before anything is said about hours, and a day of them
	rhythmFades = 0.7 // what is left of a count after a day
	anyHour     = 0.1 // of the people may come at any hour
)

// note counts somebody who comes in and goes on.
func (r *rhythm) note(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := at.Unix()
	if r.since == 0 {
		r.since, r.day = now, now/86400
	}
	if day := now / 86400; day > r.day {
		fade := float32(math.Pow(rhythmFades, float64(min(day-r.day, 100))))
		r.all = 0
		for i := range r.came {
			r.came[i] *= fade
			r.all += r.came[i]
		}
		r.day = day
	}
	r.came[now/3600%24]++
	r.all++
}

// odd is by how much likelier the hour is for somebody to whom all hours are alike than for people, as the logarithm of the
// odds; NaN is unknown.
func (r *rhythm) odd(at time.Time) float32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := at.Unix()
	if r.all < enoughCame || now-r.since < 86400 {
		return nan
	}
	h := now / 3600 % 24
	here := (r.came[(h+23)%24] + 2*r.came[h] + r.came[(h+1)%24]) / (4 * r.all)
	return float32(-math.Log(float64(24*(1-anyHour)*here + anyHour)))
}
