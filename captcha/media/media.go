// Package media makes the pictures and sounds of challenges, which cost a gateway more than all else that it does for strangers.
//
// Rules:
//  1. Few are made at once. Who waits for one is of a bounded number, for a bounded time, and networks take turns (gate.go).
//  2. Each is made once, however often it is asked for, as long as there is room to keep it (cache.go).
//  3. While more are asked for than can be made, new challenges ask for digits of which a picture or a sound is there
//     (spare.go, sparesound.go): so everybody gets one.
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

// ErrBusy says that somebody has waited for a place in vain, or could not even wait.
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
	spares *spares
	sounds *spareSounds
}

// New makes a Maker.
func New(cfg Config) *Maker {
	places := cfg.Places
	if places == 0 {
		places = max(1, runtime.GOMAXPROCS(0)/2)
	}
	return &Maker{cfg: cfg, gate: newGate(places, cfg.Queue, cfg.Wait), made: newCache(cfg.Cache), spares: new(spares), sounds: new(spareSounds)}
}

// Inherit takes over what the Maker before a reload has, where the bounds are the same. alike says that what either makes looks and
// sounds alike.
func (m *Maker) Inherit(p *Maker, alike bool) {
	if m.cfg.Places == p.cfg.Places && m.cfg.Queue == p.cfg.Queue && m.cfg.Wait == p.cfg.Wait {
		m.gate = p.gate
	}
	if !alike {
		return
	}
	m.spares, m.sounds = p.spares, p.sounds
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
	Digits []byte // what it shows or says, if what another challenge has of the same digits will do; nil: it will not
}

// Make returns an item that a network asks for: it calls render unless it is there already. result says how it came about: made,
// again or shared. The body must not be changed.
func (m *Maker) Make(it *Item, net uint64, render func() ([]byte, error)) (body []byte, result string, err error) {
	result = "again"
	body, err = m.made.get(cacheKey{it.Nonce, it.Medium, it.Voice}, m.cfg.Wait, func() ([]byte, error) {
		if it.Digits != nil && m.gate.crowded(it.Medium) {
			if body := m.find(it); body != nil {
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
			m.keep(it, body)
		}
		return body, err
	})
	return body, result, err
}

func (m *Maker) find(it *Item) []byte {
	if it.Medium == Sound {
		return m.sounds.find(it.Level, it.Voice, it.Digits)
	}
	return m.spares.find(it.Level, it.Digits)
}

func (m *Maker) keep(it *Item, body []byte) {
	if it.Medium == Sound {
		m.sounds.add(it.Level, it.Voice, it.Digits, body)
		return
	}
	m.spares.add(it.Level, it.Digits, body)
}

// Digits returns the digits that a new challenge should ask for, as what is there of them need not be made; nil: any others. What is
// there is the sound in the visitor's language where sounds are asked for too often, which few others want at that time, and the
// picture.
func (m *Maker) Digits(level uint8, voice func() string) []byte {
	pictures := m.gate.crowded(Picture)
	if m.gate.crowded(Sound) {
		suit := func(digits []byte) bool { return !pictures || m.spares.has(level, digits) }
		if digits := m.sounds.take(level, voice(), suit); digits != nil {
			return digits
		}
	}
	if pictures {
		return m.spares.take(level)
	}
	return nil
}
