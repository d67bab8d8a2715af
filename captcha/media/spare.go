package media

import (
	"math/rand/v2"
	"sync"

	"antirobot/captcha/style"
)

// spares are pictures of digits that were made of late. While more are asked for than can be made, from however many networks, a
// new challenge asks for the digits of one that is there: nobody waits for their picture, and what is made is shared by a few. An
// answer is worth the same, since it is given to a key. Safe for concurrent use.
type spares struct {
	mu   sync.Mutex
	rows [style.MaxLevel + 1]spareRow
}

// spareRow is the spares of a level.
type spareRow struct {
	all  []*spare
	next int // the oldest, which gives way to a new one if it has been shown often enough
	by   map[string]*spare
}

type spare struct {
	digits string
	body   []byte
	shown  int
}

const (
	spareMost  = 256 // of a level, some 5 kB each
	spareShows = 64  // times that one is shown besides the first
	spareTries = 4   // spares that are looked at to find one that may be shown
)

// add keeps a picture, if there is room for it.
func (s *spares) add(level uint8, digits, body []byte) {
	if level > style.MaxLevel {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.rows[level]
	if r.by[string(digits)] != nil {
		return
	}
	one := &spare{digits: string(digits), body: body}
	if len(r.all) < spareMost {
		r.all = append(r.all, one)
	} else {
		old := r.all[r.next]
		if old.shown < spareShows {
			return
		}
		delete(r.by, old.digits)
		r.all[r.next] = one
		r.next = (r.next + 1) % spareMost
	}
	if r.by == nil {
		r.by = map[string]*spare{}
	}
	r.by[string(digits)] = one
}

// take returns the digits of a picture that may be shown once more, or nil.
func (s *spares) take(level uint8) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.rows[level].all
	for range min(spareTries, len(all)) {
		if one := all[rand.IntN(len(all))]; one.shown < spareShows {
			return []byte(one.digits)
		}
	}
	return nil
}

// find returns the picture of these digits, or nil.
func (s *spares) find(level uint8, digits []byte) []byte {
	if level > style.MaxLevel {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.rows[level].by[string(digits)]
	if one == nil {
		return nil
	}
	one.shown++
	return one.body
}

// has reports whether there is a picture of these digits.
func (s *spares) has(level uint8, digits []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows[level].by[string(digits)] != nil
}
