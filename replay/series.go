package replay

import (
	"time"

	"antirobot/verdict"
)

// maxBuckets bounds the buckets of a Series; when there are more, they become wider.
const maxBuckets = 240

// widths of buckets, each a multiple of the previous one.
var widths = [...]time.Duration{
	time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 10 * time.Minute,
	30 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour,
	28 * 24 * time.Hour,
	364 * 24 * time.Hour, 3640 * 24 * time.Hour,
}

// Series is the traffic over time, in buckets of equal width. The zero value is empty and ready to use.
type Series struct {
	Seconds int64    `json:"bucket_seconds"`
	Begins  int64    `json:"begins"` // unix seconds
	Buckets []Bucket `json:"buckets,omitempty"`

	width int
}

// Bucket counts the requests in a period by their verdict.
type Bucket struct {
	Human   uint64 `json:"human"`
	Robot   uint64 `json:"robot"`
	Blocked uint64 `json:"blocked"`
}

// add counts a request; times never go back.
func (s *Series) add(at time.Time, is verdict.Verdict) {
	unix := at.Unix()
	if len(s.Buckets) == 0 {
		s.Seconds = int64(widths[s.width] / time.Second)
		s.Begins = unix
	}
	for (unix-s.Begins)/s.Seconds >= maxBuckets && s.width+1 < len(widths) {
		s.widen()
	}
	i := min(int((unix-s.Begins)/s.Seconds), maxBuckets-1)
	for len(s.Buckets) <= i {
		s.Buckets = append(s.Buckets, Bucket{})
	}
	b := &s.Buckets[i]
	switch is {
	case verdict.Human:
		b.Human++
	case verdict.Robot, verdict.Unsure:
		b.Robot++
	default:
		b.Blocked++
	}
}

// widen makes the buckets wider, and aligns them to a round time.
func (s *Series) widen() {
	old := *s
	s.width++
	s.Seconds = int64(widths[s.width] / time.Second)
	s.Begins = old.Begins - mod(old.Begins, s.Seconds)
	s.Buckets = nil
	for i, b := range old.Buckets {
		k := int((old.Begins + int64(i)*old.Seconds - s.Begins) / s.Seconds)
		for len(s.Buckets) <= k {
			s.Buckets = append(s.Buckets, Bucket{})
		}
		s.Buckets[k].Human += b.Human
		s.Buckets[k].Robot += b.Robot
		s.Buckets[k].Blocked += b.Blocked
	}
}

func mod(a, b int64) int64 { return ((a % b) + b) % b }
