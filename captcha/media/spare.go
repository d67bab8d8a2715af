package media

import (
	"math/rand/v2"
	"sync"
)

// spares are recently made pictures, or sounds, of digits. While more are asked for than can be made, a new challenge
// asks for the digits of one of them: its visitor does not wait, and the rendering is shared. An answer is worth the
// same, since it is given to a key. Safe for concurrent use.
type spares struct {
	most int

	mu   sync.Mutex
	all  []*spare
	next int // the oldest
}

type spare struct {
	level  uint8
	voice  string // the language of a sound
	digits string
	body   []byte
	shown  int
}

const (
	sparePictures = 1024 // some 5 kB each
	spareSounds   = 64   // some 130 kB each
	spareShows    = 64   // times that one is shown after the first
)

func (s *spare) suits(level uint8, voice string) bool { return s.level == level && s.voice == voice }

// add keeps a medium. The oldest gives way to it if it was shown often enough, or if none has this level and language.
func (s *spares) add(level uint8, voice string, digits, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	alone := true
	for _, o := range s.all {
		if o.suits(level, voice) {
			if o.digits == string(digits) {
				return
			}
			alone = false
		}
	}
	one := &spare{level: level, voice: voice, digits: string(digits), body: body}
	switch {
	case len(s.all) < s.most:
		s.all = append(s.all, one)
	case alone || s.all[s.next].shown >= spareShows:
		s.all[s.next] = one
		s.next = (s.next + 1) % s.most
	}
}

// take returns the digits of a medium that may be shown once more, and for which ok holds; nil if there is none.
func (s *spares) take(level uint8, voice string, ok func(digits []byte) bool) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return nil
	}
	from := rand.IntN(len(s.all))
	for i := range s.all {
		o := s.all[(from+i)%len(s.all)]
		if o.shown >= spareShows || !o.suits(level, voice) {
			continue
		}
		if digits := []byte(o.digits); ok(digits) {
			return digits
		}
	}
	return nil
}

// find returns the medium of these digits, or nil; show counts that it is shown.
func (s *spares) find(level uint8, voice string, digits []byte, show bool) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.all {
		if o.digits == string(digits) && o.suits(level, voice) {
			if show {
				o.shown++
			}
			return o.body
		}
	}
	return nil
}
