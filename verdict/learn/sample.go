package learn

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"antirobot/identity"
	"antirobot/store"
)

// The sample of a service is the visitors whose keyed hashes are the smallest: a visitor stays in it from day to day, and
// cannot choose to be in it. Known people and others have half of the places each.
const (
	places   = 50_000 // vectors
	chunks   = 64     // parts that are locked and written as one
	perSide  = places / vectorsMost / chunks / 2
	keepDays = 30 // without a new vector
)

// chunk is the visitors whose hashes have the same second byte.
type chunk struct {
	mu    sync.Mutex
	m     map[uint64]*entry
	sides [2]int    // how many are known, and how many are not
	limit [2]uint64 // the largest hash of a side that is full; 0: it is not
	dirty bool
}

// entry is one visitor.
type entry struct {
	network uint64
	vectors Vectors // from before it was known
	day     uint16  // of the last one
	last    uint16  // the last day with subresources
	days    uint8   // days with subresources
	known   bool
	always  bool // known from its first vector on: all count
}

func (e *entry) side() int {
	if e.known {
		return 0
	}
	return 1
}

func dayOf(at time.Time) uint16 { return uint16(at.Unix() / 86400) }

func (s *site) chunk(key uint64) *chunk { return &s.chunks[key>>8%chunks] }

// keep records a visit, if the visitor is in the sample.
func (s *site) keep(secret *[32]byte, v *Visit, x []float32) {
	address := v.Subjects[len(v.Subjects)-1].ID
	network := keyed(secret, 0, identity.NetworkOf(address))
	key := subjectKey(secret, v.Subjects[0])
	s.chunk(key).see(key, network, v, x)
	if v.Evidence&Vouched == 0 {
		return
	}
	for _, o := range v.Subjects[1:] { // what it did before it signed in was done under a cookie
		if o.Kind == identity.KindI || o.Kind == identity.KindFuid {
			key := subjectKey(secret, o)
			s.chunk(key).see(key, network, &Visit{At: v.At, Evidence: Vouched}, nil)
		}
	}
}

// see records a visit.
func (c *chunk) see(key, network uint64, v *Visit, x []float32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.m[key]
	day, known := dayOf(v.At), v.Evidence&(Solved|Vouched) != 0
	if e == nil {
		if x == nil {
			return
		}
		e = &entry{network: network, day: day, known: known, always: known}
		if !c.add(key, e) {
			return
		}
	}
	c.dirty = true
	if v.Evidence&Subresources != 0 && e.last < day {
		e.last = day
		e.days = min(e.days+1, personDays)
		known = known || e.days == personDays
	}
	switch {
	case known && !e.known:
		c.remove(key)
		e.known = true
		c.add(key, e)
	case x != nil && (!e.known || e.always):
		e.vectors.Add(x)
		e.day, e.network = day, network
	}
}

// add adds a visitor, in the place of the one with the largest hash if its side is full, and reports whether it is in.
func (c *chunk) add(key uint64, e *entry) bool {
	side := e.side()
	if limit := c.limit[side]; limit != 0 {
		if rank(key) >= rank(limit) {
			return false
		}
		c.remove(limit)
	}
	if c.m == nil {
		c.m = map[uint64]*entry{}
	}
	c.m[key] = e
	c.sides[side]++
	if c.sides[side] < perSide {
		return true
	}
	for k, o := range c.m {
		if o.side() == side && rank(k) >= rank(c.limit[side]) {
			c.limit[side] = k
		}
	}
	return true
}

// rank is the part of a hash that says who is in the sample; the rest chooses the chunk.
func rank(key uint64) uint64 { return key >> 16 }

// remove removes a visitor who is there.
func (c *chunk) remove(key uint64) {
	side := c.m[key].side()
	delete(c.m, key)
	c.sides[side]--
	c.limit[side] = 0
}

func (s *site) counts() (n Counts) {
	for i := range s.chunks {
		c := &s.chunks[i]
		c.mu.Lock()
		n.Known += c.sides[0]
		n.Others += c.sides[1]
		c.mu.Unlock()
	}
	return n
}

// samples returns all visitors.
func (s *site) samples() (list []Sample) {
	for i := range s.chunks {
		c := &s.chunks[i]
		c.mu.Lock()
		for key, e := range c.m {
			list = append(list, Sample{Subject: key, Network: e.network, Known: e.known, Vectors: e.vectors.clone()})
		}
		c.mu.Unlock()
	}
	return list
}

// expire forgets vectors that are too old.
func (s *site) expire(at time.Time) {
	today := int(dayOf(at))
	for i := range s.chunks {
		c := &s.chunks[i]
		c.mu.Lock()
		for key, e := range c.m {
			if today-int(e.day) > keepDays {
				c.remove(key)
				c.dirty = true
			}
		}
		c.mu.Unlock()
	}
}

// save writes the chunks that have changed to the store, together with what others have written there, and takes that
// over; all: the others, too.
func (s *site) save(ctx context.Context, st store.KV, all bool) error {
	for i := range s.chunks {
		c := &s.chunks[i]
		c.mu.Lock()
		due := c.dirty || all
		c.mu.Unlock()
		if !due {
			continue
		}
		if err := c.save(ctx, st, s.chunkKey(i), 0); err != nil {
			return fmt.Errorf("save what is learnt from: %w", err)
		}
	}
	return nil
}

// chunkKey is where the store has a chunk.
func (s *site) chunkKey(i int) []byte { return append([]byte(keyVisitors+s.name+"/"), byte(i)) }

// save writes the chunk as site.save does, without a visitor who is to be forgotten (0: none).
func (c *chunk) save(ctx context.Context, st store.KV, key []byte, forget uint64) error {
	for {
		old, err := st.Get(ctx, nil, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if errors.Is(err, store.ErrNotFound) {
			old = nil
		}
		c.mu.Lock()
		c.merge(old)
		if c.m[forget] != nil {
			c.remove(forget)
		}
		text, was := c.append(nil), c.dirty
		c.dirty = false
		c.mu.Unlock()
		if bytes.Equal(text, old) || old == nil && len(text) == len(header) {
			return nil
		}
		done, err := st.Swap(ctx, key, old, text, (keepDays+1)*24*time.Hour)
		if done && err == nil {
			return nil
		}
		c.mu.Lock()
		c.dirty = c.dirty || was
		c.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// header begins a chunk: records with other features are ignored.
var header = binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(strings.Join(Features, " "))))

// recordHead is the bytes of a record before its vectors.
const recordHead = 27

// append appends the visitors in the order of their hashes.
func (c *chunk) append(b []byte) []byte {
	b = append(b, header...)
	for _, key := range slices.Sorted(maps.Keys(c.m)) {
		e := c.m[key]
		b = binary.BigEndian.AppendUint64(b, key)
		b = binary.BigEndian.AppendUint64(b, e.network)
		b = binary.BigEndian.AppendUint16(b, e.day)
		b = binary.BigEndian.AppendUint16(b, e.last)
		flags := byte(0)
		if e.known {
			flags |= 1
		}
		if e.always {
			flags |= 2
		}
		b = append(b, e.days, flags, byte(e.vectors.Len()))
		b = binary.BigEndian.AppendUint32(b, e.vectors.seen)
		for _, x := range e.vectors.x {
			b = binary.BigEndian.AppendUint32(b, math.Float32bits(x))
		}
	}
	return b
}

// merge takes over what append has written elsewhere. Of two records of a visitor that of a known person counts, and
// otherwise the one with more vectors.
func (c *chunk) merge(b []byte) {
	if !bytes.HasPrefix(b, header) {
		return
	}
	for b = b[len(header):]; len(b) >= recordHead; {
		key := binary.BigEndian.Uint64(b)
		e := &entry{
			network: binary.BigEndian.Uint64(b[8:]), day: binary.BigEndian.Uint16(b[16:]),
			last: binary.BigEndian.Uint16(b[18:]), days: b[20], known: b[21]&1 != 0, always: b[21]&2 != 0,
		}
		n := min(int(b[22]), vectorsMost) * len(Features)
		e.vectors.seen = binary.BigEndian.Uint32(b[23:])
		if b = b[recordHead:]; len(b) < 4*n {
			return
		}
		x := b[:4*n]
		b = b[4*n:]
		if old := c.m[key]; old != nil {
			if old.known && !e.known || old.known == e.known && old.vectors.seen >= e.vectors.seen {
				continue
			}
			c.remove(key)
		}
		for ; len(x) > 0; x = x[4:] {
			e.vectors.x = append(e.vectors.x, math.Float32frombits(binary.BigEndian.Uint32(x)))
		}
		c.add(key, e)
	}
}
