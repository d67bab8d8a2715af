// Package media makes the pictures and sounds of challenges, the most expensive thing that a gateway does for
// strangers.
//
// Rules:
//  1. Few are made at once. A bounded number of requests waits for a bounded time, and networks take turns (gate.go).
//  2. Each is made once, as long as there is room to keep it (cache.go).
//  3. While more are asked for than can be made, new challenges ask for digits of which a picture or a sound is there
//     (spare.go).
package media

import (
	"errors"
	"runtime"
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
	Cache  int64 // bytes that are kept
}

// Maker makes pictures and sounds. It is safe for concurrent use; made by New.
type Maker struct {
	cfg    Config
	gate   *gate
	made   *cache
	spares [Count]*spares
}

// New makes a Maker.
func New(cfg Config) *Maker {
	places := cfg.Places
	if places == 0 {
		places = max(1, runtime.GOMAXPROCS(0)/2)
	}
	return &Maker{
		cfg: cfg, gate: newGate(places, cfg.Queue, cfg.Wait), made: newCache(cfg.Cache),
		spares: [Count]*spares{Picture: {most: sparePictures}, Sound: {most: spareSounds}},
	}
}

// Inherit takes over the state of the Maker before a reload where the bounds are the same. alike says that both make
// the same pictures and sounds.
func (m *Maker) Inherit(p *Maker, alike bool) {
	if m.cfg.Places == p.cfg.Places && m.cfg.Queue == p.cfg.Queue && m.cfg.Wait == p.cfg.Wait {
		m.gate = p.gate
	}
	if !alike {
		return
	}
	m.spares = p.spares
	if m.cfg.Cache == p.cfg.Cache {
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

// Make returns an item that a network asks for, calling render unless it is there already. result is made, again or
// shared. The body must not be changed.
func (m *Maker) Make(it *Item, net uint64, render func() ([]byte, error)) (body []byte, result string, err error) {
	result = "again"
	body, err = m.made.get(cacheKey{it.Nonce, it.Medium, it.Voice}, m.cfg.Wait, func() ([]byte, error) {
		if it.Digits != nil && m.gate.crowded(it.Medium) {
			if body := m.spares[it.Medium].find(it.Level, it.Voice, it.Digits, true); body != nil {
				result = "shared"
				return body, nil
			}
		}
		if !m.gate.enter(it.Medium, net) {
			return nil, ErrBusy
		}
		defer m.gate.leave()
		result = "made"
		body, err := render()
		if err == nil && it.Digits != nil {
			m.spares[it.Medium].add(it.Level, it.Voice, it.Digits, body)
		}
		return body, err
	})
	return body, result, err
}

// Digits returns digits of which a sound in the visitor's language, or a picture, exists while these are crowded; nil:
// any digits.
func (m *Maker) Digits(level uint8, voice func() string) []byte {
	pictures := m.gate.crowded(Picture)
	if m.gate.crowded(Sound) {
		seen := func(digits []byte) bool {
			return !pictures || m.spares[Picture].find(level, "", digits, false) != nil
		}
		if digits := m.spares[Sound].take(level, voice(), seen); digits != nil {
			return digits
		}
	}
	if pictures {
		return m.spares[Picture].take(level, "", func([]byte) bool { return true })
	}
	return nil
}
