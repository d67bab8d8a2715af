package learn

import (
	"hash/maphash"
	"math"
	"sync/atomic"
	"time"

	"antirobot/identity"
)

// Grade is how usual a visitor is for a site.
type Grade uint8

// The grades.
const (
	NoOpinion Grade = iota // the site is new, or its people do not differ from other visitors
	Unusual
	Usual // as 95 % of the known people are
	Known // it is usual, and the service or an operator vouches for it
)

var gradeNames = [...]string{"no opinion", "unusual", "usual", "known"}

func (g Grade) String() string {
	if int(g) < len(gradeNames) {
		return gradeNames[g]
	}
	return "unknown"
}

// grades remembers the grade of each visitor for a day, in a table of fixed size in which later visitors push out those
// who were graded first. The words are read and written without locks: a lost one costs a grade until the next
// evaluation.
type grades struct {
	seed  maphash.Seed
	words []atomic.Uint64
}

const (
	gradeWays  = 4
	gradePlace = 1 << 18 // buckets of as many: a million visitors, 8 MiB
)

// graded is a word of the table.
//
//	tag 28 bits | score 16 | evaluations 4 | grade 2 | may be checked 1 | hour 13
type graded uint64

// evaluated is the word of a visitor with a further score. The n-th one counts n times, as in Vectors.All; beyond 15 the
// older ones fade.
func (w graded) evaluated(score float32) (graded, float32) {
	n := min(w>>16&15+1, 15)
	mean := float32(w>>20&0xffff)/scoreSteps - scoreMost
	mean += (min(max(score, -scoreMost), scoreMost-1) - mean) * 2 / float32(n+1)
	return graded((mean+scoreMost)*scoreSteps)<<20 | n<<16, mean
}

const (
	scoreMost  = 16 // log-odds
	scoreSteps = 2048
)

func (w graded) with(g Grade, check bool) graded {
	w |= graded(g) << 14
	if check {
		w |= 1 << 13
	}
	return w
}

func (w graded) tag() uint64  { return uint64(w >> 36) }
func (w graded) grade() Grade { return Grade(w >> 14 & 3) }
func (w graded) check() bool  { return w>>13&1 != 0 }

// age is how many hours ago the grade was given; hours are counted modulo 2^13.
func (w graded) age(hour uint16) uint16 { return (hour - uint16(w)) & (1<<13 - 1) }

func hourOf(at time.Time) uint16 { return uint16(at.Unix()/3600) & (1<<13 - 1) }

const gradeHours = 24

func newGrades() *grades {
	return &grades{seed: maphash.MakeSeed(), words: make([]atomic.Uint64, gradePlace*gradeWays)}
}

type gradeKey struct {
	subject identity.Subject
	service string
}

func (t *grades) bucket(s identity.Subject, service string) (b []atomic.Uint64, tag uint64) {
	h := maphash.Comparable(t.seed, gradeKey{s, service})
	i := h % gradePlace * gradeWays
	return t.words[i : i+gradeWays], h >> 36
}

// find returns the word of a visitor; 0: it has none of this day.
func (t *grades) find(s identity.Subject, service string, at time.Time) graded {
	b, tag := t.bucket(s, service)
	hour := hourOf(at)
	for i := range b {
		if w := graded(b[i].Load()); w != 0 && w.tag() == tag && w.age(hour) < gradeHours {
			return w
		}
	}
	return 0
}

// put remembers a word of a visitor.
func (t *grades) put(s identity.Subject, service string, at time.Time, word graded) {
	b, tag := t.bucket(s, service)
	hour, oldest := hourOf(at), 0
	for i := range b {
		w := graded(b[i].Load())
		if w == 0 || w.tag() == tag {
			oldest = i
			break
		}
		if w.age(hour) > graded(b[oldest].Load()).age(hour) {
			oldest = i
		}
	}
	b[oldest].Store(tag<<36 | uint64(word) | uint64(hour))
}

// checks bounds how many visitors of a day may be checked for being unusual alone: the most unusual ones first.
type checks struct {
	day       int64
	visitors  int // of the day
	allowed   int // of them
	now, last [256]int
}

// checkShare is the share of a day's visitors who may be checked for being unusual.
const checkShare = 0.03

// coarse maps a score to 256 steps.
func coarse(score float32) uint8 {
	return uint8(math.Round(math.Min(math.Max(float64(score)+16, 0)*8, 255)))
}

// see counts a visitor once a day, and reports whether it may be checked.
func (c *checks) see(score uint8, at time.Time) bool {
	switch day := at.Unix() / 86400; {
	case day == c.day+1:
		c.day, c.last, c.now, c.visitors, c.allowed = day, c.now, [256]int{}, 0, 0
	case day != c.day:
		*c = checks{day: day}
	}
	c.visitors++
	c.now[score]++
	above, all := 0, 0
	for i := range c.now {
		n := c.now[i] + c.last[i]
		all += n
		if i >= int(score) {
			above += n
		}
	}
	if float64(above) > checkShare*float64(all) || float64(c.allowed+1) > checkShare*float64(c.visitors) {
		return false
	}
	c.allowed++
	return true
}
