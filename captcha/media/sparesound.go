package media

import (
	"math/rand/v2"
	"sync"
)

// spareSounds are sounds of digits that were made of late, as spares are pictures: while more are asked for than can be made, a new
// challenge asks for the digits of one that is there in the visitor's language. A sound is some 130 kB, so there are few. Safe for
// concurrent use; the zero value is ready for use.
type spareSounds struct {
	mu   sync.Mutex
	all  []*spareSound
	next int // the oldest
}

type spareSound struct {
	level  uint8
	voice  string
	digits string
	body   []byte
	shown  int
}

// spareSoundMost is how many there are, of all levels and languages.
const spareSoundMost = 64

func (s *spareSound) speaks(level uint8, voice string) bool {
	return s.level == level && s.voice == voice
}

// add keeps a sound. The oldest gives way to it if it has been played often enough, or else if there is none of this level and language.
func (s *spareSounds) add(level uint8, voice string, digits, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	alone := true
	for _, o := range s.all {
		if o.speaks(level, voice) {
			if o.digits == string(digits) {
				return
			}
			alone = false
		}
	}
	one := &spareSound{level: level, voice: voice, digits: string(digits), body: body}
	switch {
	case len(s.all) < spareSoundMost:
		s.all = append(s.all, one)
	case alone || s.all[s.next].shown >= spareShows:
		s.all[s.next] = one
		s.next = (s.next + 1) % spareSoundMost
	}
}

// take returns the digits of a sound that may be played once more, and that suit; nil if there is none.
func (s *spareSounds) take(level uint8, voice string, suit func(digits []byte) bool) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return nil
	}
	from := rand.IntN(len(s.all))
	for i := range s.all {
		o := s.all[(from+i)%len(s.all)]
		if o.shown >= spareShows || !o.speaks(level, voice) {
			continue
		}
		if digits := []byte(o.digits); suit(digits) {
			return digits
		}
	}
	return nil
}

// find returns the sound of these digits, or nil.
func (s *spareSounds) find(level uint8, voice string, digits []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.all {
		if o.digits == string(digits) && o.speaks(level, voice) {
			o.shown++
			return o.body
		}
	}
	return nil
}
