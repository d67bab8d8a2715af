// Package media makes the pictures and sounds of challenges, the most expensive thing that a gateway does for
// strangers.
//
// Rules:
//  1. Few are made at once. A bounded number of requests waits for a bounded time, and networks take turns (gate.go).
//  2. Each is made once, as long as there is room to keep it.
//  3. While more are asked for than can be made, new challenges ask for digits of which a picture or a sound is kept.
//     An answer is worth the same, since it is given to a key.
package media

import (
	"errors"
	"runtime"
	"sync"
	"time"
)

// Medium is a form in which a challenge is presented.
type Medium uint8

// The media, and how many there are.
const (
	Picture Medium = iota
	Sound
	Count
)

// String returns the medium's name in paths and metrics.
func (m Medium) String() string { return [...]string{"image", "audio"}[m] }

// ErrBusy says that there was no place in time, or no room to wait.
var ErrBusy = errors.New("too much is rendered at once")

// Config says what the making may cost.
type Config struct {
	Places int // how many are made at once; 0: one per two cores
	Queue  int // how many requests wait for a picture, and how many for a sound
	Wait   time.Duration
	Cache  int64 // bytes that are kept, half of them pictures
}

// Maker makes pictures and sounds. It is safe for concurrent use; made by New.
type Maker struct {
	cfg  Config
	gate *gate
	made *[Count]shelf
}

// New makes a Maker.
func New(cfg Config) *Maker {
	places := cfg.Places
	if places == 0 {
		places = max(1, runtime.GOMAXPROCS(0)/2)
	}
	m := &Maker{cfg: cfg, gate: &gate{free: places, queue: cfg.Queue, wait: cfg.Wait}, made: new([Count]shelf)}
	for i := range m.made {
		m.made[i].most, m.made[i].all = int(cfg.Cache)/int(Count), map[contents]*item{}
	}
	return m
}

// Inherit takes over the state of the Maker before a reload where the bounds are the same. alike says that both make
// the same pictures and sounds.
func (m *Maker) Inherit(p *Maker, alike bool) {
	if m.cfg.Places == p.cfg.Places && m.cfg.Queue == p.cfg.Queue && m.cfg.Wait == p.cfg.Wait {
		m.gate = p.gate
	}
	if alike && m.cfg.Cache == p.cfg.Cache {
		m.made = p.made
	}
}

// Item is a picture or a sound of a challenge.
type Item struct {
	Medium Medium
	Nonce  [16]byte // the challenge's
	Voice  string   // the language of a sound
	Level  uint8
	Digits []byte // its contents, if another challenge with the same digits may share it; nil: none may
}

// contents say which items are the same.
type contents struct {
	nonce  [16]byte // zero: others may share the digits
	digits string
	voice  string
	level  uint8
}

func (it *Item) contents() contents {
	if it.Digits == nil {
		return contents{nonce: it.Nonce, voice: it.Voice, level: it.Level}
	}
	return contents{digits: string(it.Digits), voice: it.Voice, level: it.Level}
}

// shelf keeps items within a bound of bytes.
type shelf struct {
	mu   sync.Mutex
	all  map[contents]*item
	used int
	most int
}

// item is rendered, or being rendered until done is closed.
type item struct {
	done  chan struct{}
	body  []byte
	err   error
	nonce [16]byte // of the first challenge
	lent  int      // times that it was shown for others
}

const (
	itemCost = 256 // bytes of an item in addition to its body
	mostLent = 64  // after that, no new challenge asks for the same digits
)

// Make returns an item that a network asks for, calling render unless it is there already. result is made, again or
// shared. The body must not be changed.
func (m *Maker) Make(it *Item, net uint64, render func() ([]byte, error)) (body []byte, result string, err error) {
	s := &m.made[it.Medium]
	i, fresh := s.open(it)
	if !fresh {
		if !i.rendered() {
			t := time.NewTimer(m.cfg.Wait)
			defer t.Stop()
			select {
			case <-i.done:
			case <-t.C:
				return nil, "", ErrBusy
			}
		}
		if i.nonce != it.Nonce {
			return i.body, "shared", i.err
		}
		return i.body, "again", i.err
	}
	i.err = ErrBusy // if render panics
	defer s.close(it.contents(), i)
	if m.gate.enter(it.Medium, net) {
		defer m.gate.leave()
		i.body, i.err = render()
	}
	return i.body, "made", i.err
}

func (s *shelf) open(it *Item) (i *item, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := it.contents()
	i, ok := s.all[c]
	if !ok {
		i = &item{done: make(chan struct{}), nonce: it.Nonce}
		s.all[c] = i
	}
	if i.nonce != it.Nonce {
		i.lent++
	}
	return i, !ok
}

// close keeps a rendered item. Others make room for it.
func (s *shelf) close(c contents, i *item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(i.done)
	delete(s.all, c)
	size := len(i.body) + itemCost
	if i.err != nil || size > s.most {
		return
	}
	for other, o := range s.all { // in random order
		if s.used+size <= s.most {
			break
		}
		if o.rendered() {
			s.used -= len(o.body) + itemCost
			delete(s.all, other)
		}
	}
	s.all[c] = i
	s.used += size
}

func (i *item) rendered() bool {
	select {
	case <-i.done:
		return true
	default:
		return false
	}
}

// Digits returns digits of which a sound in the visitor's language, or a picture, exists while these are crowded; nil:
// any digits.
func (m *Maker) Digits(level uint8, voice func() string) []byte {
	pictures := m.gate.crowded(Picture)
	if m.gate.crowded(Sound) {
		if digits := m.made[Sound].lend(level, voice(), func(c contents) bool {
			c.voice = ""
			return !pictures || m.made[Picture].has(c)
		}); digits != nil {
			return digits
		}
	}
	if pictures {
		return m.made[Picture].lend(level, "", func(contents) bool { return true })
	}
	return nil
}

// lend returns the digits of a random item for which ok holds; nil if there is none.
func (s *shelf) lend(level uint8, voice string, ok func(contents) bool) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, i := range s.all {
		if c.digits != "" && c.level == level && c.voice == voice && i.lent < mostLent && i.rendered() && ok(c) {
			return []byte(c.digits)
		}
	}
	return nil
}

func (s *shelf) has(c contents) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.all[c]
	return ok && i.rendered()
}
