package processor

import (
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
)

const (
	sessionShards = 64
	sessionChunk  = 256 // sessions are allocated by the chunk, so that growth copies nothing
	maxOffences   = 16
)

// role says what a session counts.
type role uint8

const (
	roleSubject role = iota
	roleCrowd        // an address, over all requests that brought cookies
	roleNetwork      // a /24 or /48
)

type sessionKey struct {
	role    role
	kind    identity.Kind
	service uint16
	id      [16]byte
}

// window counts in the current stretch of its length and the one before; the sliding count takes of the latter the part
// that the window still covers, as if its events had been spread evenly.
type window struct {
	no        uint32 // number of the current stretch since the epoch
	cur, prev uint32
}

// roll brings the window to stretch no. Events that come a little late count as if they were on time.
func (w *window) roll(no uint32) {
	switch {
	case no == w.no || no+1 == w.no:
	case no == w.no+1:
		w.no, w.prev, w.cur = no, w.cur, 0
	default:
		*w = window{no: no}
	}
}

func (w *window) estimate(part float32) float32 { return float32(w.cur) + float32(w.prev)*(1-part) }

// stretch returns the number of the stretch of a window's length that a time lies in, and which part of it is over.
func stretch(at time.Time, length time.Duration) (no uint32, part float32) {
	ms, l := at.UnixMilli(), length.Milliseconds()
	return uint32(ms / l), float32(ms%l) / float32(l)
}

// session is what is counted of one key.
type session struct {
	key        sessionKey
	referenced bool
	offences   uint8
	total      uint32
	last       uint32 // unix seconds of the last event
	banned     uint32 // unix seconds at which the last ban ends; 0: none
	sentenced  uint32 // its length in seconds
	agentsNo   uint32 // hour of agents
	agents     uint64 // a bit for each User-Agent, by its hash; of this hour
	agentsPrev uint64 // of the hour before
	windows    [verdict.MaxLimits]window
}

// glance is what a judgement reads of a session.
type glance struct {
	total  uint32
	agents int
}

// sessions keeps a bounded number of them. A full shard drops one that has not been touched since its hand came by last.
type sessions struct {
	seed    maphash.Seed
	each    uint32 // most in one shard
	live    atomic.Int64
	evicted atomic.Uint64
	shards  [sessionShards]sessionShard
}

type sessionShard struct {
	mu     sync.Mutex
	index  map[sessionKey]uint32
	chunks [][]session
	used   uint32 // places of chunks that were ever used
	free   []uint32
	hand   uint32
	_      [8]byte
}

func newSessions(most int) *sessions {
	t := &sessions{seed: maphash.MakeSeed(), each: uint32((most + sessionShards - 1) / sessionShards)}
	for i := range t.shards {
		t.shards[i].index = make(map[sessionKey]uint32)
	}
	return t
}

func (t *sessions) shard(k sessionKey) *sessionShard {
	return &t.shards[maphash.Comparable(t.seed, k)%sessionShards]
}

func (sh *sessionShard) at(i uint32) *session { return &sh.chunks[i/sessionChunk][i%sessionChunk] }

// add counts an event for the key, and sets seen to the sliding counts with it.
func (t *sessions) add(k sessionKey, e *verdict.Event, limits []limit, seen *[verdict.MaxLimits]float32) glance {
	sh := t.shard(k)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s := t.open(sh, k)
	s.referenced = true
	s.total++
	s.last = uint32(e.At.Unix())
	if hour := s.last / 3600; hour > s.agentsNo {
		s.agentsPrev = s.agents
		if hour != s.agentsNo+1 {
			s.agentsPrev = 0
		}
		s.agents, s.agentsNo = 0, hour
	}
	if e.Agent != 0 {
		s.agents |= 1 << (e.Agent & 63)
	}
	for i := range limits {
		no, part := stretch(e.At, limits[i].Window)
		w := &s.windows[i]
		w.roll(no)
		w.cur++
		if w.no != no {
			part = 0 // late: the stretch has only begun
		}
		seen[i] = w.estimate(part)
	}
	return s.glance()
}

func (s *session) glance() glance {
	return glance{total: s.total, agents: bits.OnesCount64(s.agents | s.agentsPrev)}
}

// read sets seen to the sliding counts of a key at a time.
func (t *sessions) read(k sessionKey, at time.Time, limits []limit, seen *[verdict.MaxLimits]float32) (glance, bool) {
	sh := t.shard(k)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	i, ok := sh.index[k]
	if !ok {
		return glance{}, false
	}
	s := sh.at(i)
	for i := range limits {
		no, part := stretch(at, limits[i].Window)
		w := s.windows[i]
		w.roll(no)
		seen[i] = w.estimate(part)
	}
	return s.glance(), true
}

// open returns the session of a key, a new one if there is none. The caller holds the lock.
func (t *sessions) open(sh *sessionShard, k sessionKey) *session {
	if i, ok := sh.index[k]; ok {
		return sh.at(i)
	}
	var i uint32
	switch {
	case len(sh.free) > 0:
		i = sh.free[len(sh.free)-1]
		sh.free = sh.free[:len(sh.free)-1]
		t.live.Add(1)
	case sh.used < t.each:
		i = sh.used
		sh.used++
		if int(i/sessionChunk) == len(sh.chunks) {
			sh.chunks = append(sh.chunks, make([]session, sessionChunk))
		}
		t.live.Add(1)
	default:
		i = sh.victim()
		delete(sh.index, sh.at(i).key)
		t.evicted.Add(1)
	}
	s := sh.at(i)
	*s = session{key: k}
	sh.index[k] = i
	return s
}

// victim finds the session that makes room; every place of a full shard is in use.
func (sh *sessionShard) victim() uint32 {
	for {
		i := sh.hand
		if sh.hand++; sh.hand == sh.used {
			sh.hand = 0
		}
		s := sh.at(i)
		if !s.referenced {
			return i
		}
		s.referenced = false
	}
}

// sentence returns how long the key is banned now; false if more than half of the last ban is still ahead.
func (t *sessions) sentence(k sessionKey, at time.Time, first, most, forget time.Duration, flat bool) (time.Duration, bool) {
	sh := t.shard(k)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	i, ok := sh.index[k]
	if !ok { // it made room for another meanwhile
		return min(first, most), true
	}
	s := sh.at(i)
	now := uint32(at.Unix())
	if s.banned > now && s.banned-now > s.sentenced/2 {
		return 0, false
	}
	if s.banned < now && now-s.banned > uint32(forget/time.Second) {
		s.offences = 0
	}
	length := min(first, most)
	if !flat {
		for range s.offences {
			length = min(2*length, most)
		}
		s.offences = min(s.offences+1, maxOffences)
	}
	s.sentenced = uint32(length / time.Second)
	s.banned = now + s.sentenced
	return length, true
}

// sweep drops the sessions whose windows have run out, and whose offences are forgotten.
func (t *sessions) sweep(at time.Time, longest, forget time.Duration) {
	now := at.Unix()
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.Lock()
		for k, j := range sh.index {
			s := sh.at(j)
			idle := now - int64(s.last)
			if idle <= int64(2*longest/time.Second) || s.banned != 0 && now-int64(s.banned) <= int64(forget/time.Second) {
				continue
			}
			delete(sh.index, k)
			*s = session{}
			sh.free = append(sh.free, j)
			t.live.Add(-1)
		}
		sh.mu.Unlock()
	}
}
