package message

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/store"
)

// Model classifies texts and learns them. What it learnt is in the store: a snapshot of the counts, and the texts since
// then, each a key of its own, written before Train returns. From time to time one gateway makes a new snapshot.
//
//	…head          number of the snapshot and of its pieces
//	…snap/N/I      a piece of snapshot N
//	…done/N        the keys of the texts that snapshot N holds: they may still be there after a crash
//	…text/KEY      a text with its marker; KEY begins with the time
//
// Safe for concurrent use.
type Model struct {
	store   store.Store
	prefix  string
	kind    string
	limit   int // features
	maxText int // bytes of a text that are learnt
	node    uint32

	learner atomic.Pointer[learner]
	since   atomic.Int64 // texts that are not in the snapshot
	serial  atomic.Uint32

	mu      sync.Mutex // of what follows, and of replacing the learner
	applied map[string]struct{}
	earlier map[string]struct{} // applied before the last snapshot: a late message of the feed may still name them
}

const (
	modelPiece = 64 << 10 // bytes
	// compactAfter texts a new snapshot is made. Loading them takes a fraction of a second.
	compactAfter = 4096
	// compactLease is how long a gateway may take to make a snapshot before another one tries.
	compactLease = 5 * time.Minute
)

func newModel(st store.Store, prefix string, cfg PropertyConfig, maxText int, node uint32) *Model {
	m := &Model{store: st, prefix: prefix, kind: cfg.Model, limit: cfg.Features, maxText: maxText, node: node}
	m.use(newLearner(m.kind, m.limit), nil, 0)
	return m
}

// use replaces what the model knows.
func (m *Model) use(l learner, applied map[string]struct{}, since int) {
	if applied == nil {
		applied = make(map[string]struct{})
	}
	m.learner.Store(&l)
	m.applied, m.earlier = applied, nil
	m.since.Store(int64(since))
}

// forget lets go of the keys before the last snapshot; since texts are not in the present one.
func (m *Model) forget(since int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applied, m.earlier = make(map[string]struct{}), m.applied
	m.since.Store(int64(since))
}

// Good says whether the text is good; one of unknown words is.
func (m *Model) Good(text string) bool { return m.Score(text) <= 0.5 }

// Score returns how bad the text looks, 0 to 1. Above 0.5 it is bad.
func (m *Model) Score(text string) float64 { return (*m.learner.Load()).score(text) }

// Explain returns the tokens of the text that the model knows, the most telling first.
func (m *Model) Explain(text string) []Spoke { return (*m.learner.Load()).explain(text) }

// ModelSize is how much a model knows.
type ModelSize struct {
	Good, Bad uint32 // texts
	Features  int
	Bytes     int64 // of memory
}

// Size returns how much the model knows.
func (m *Model) Size() ModelSize {
	t := (*m.learner.Load()).table()
	texts := t.texts.Load()
	n, bytes := t.size()
	return ModelSize{uint32(texts >> 32), uint32(texts), n, bytes}
}

// Train learns a text. It returns when the text is in the store; record is what other gateways apply.
func (m *Model) Train(ctx context.Context, text string, good bool, at time.Time) (record trainRecord, err error) {
	record = trainRecord{Key: m.newKey(at), Text: cutText(text, m.maxText), Good: good}
	if err := m.store.Put(ctx, []byte(m.prefix+"text/"+record.Key), record.value(), 0); err != nil {
		return record, fmt.Errorf("train: %w", err)
	}
	m.apply(record)
	return record, nil
}

// trainRecord is a text that was learnt.
type trainRecord struct {
	Key  string `json:"k"`
	Text string `json:"t"`
	Good bool   `json:"g"`
}

func (r trainRecord) value() []byte {
	marker := byte('b')
	if r.Good {
		marker = 'g'
	}
	return append([]byte{marker}, r.Text...)
}

func (m *Model) newKey(at time.Time) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(at.UnixMicro()))
	binary.BigEndian.PutUint32(b[8:], m.node)
	binary.BigEndian.PutUint32(b[12:], m.serial.Add(1))
	return fmt.Sprintf("%x", b)
}

// apply learns a record once, however often it comes.
func (m *Model) apply(r trainRecord) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, again := m.applied[r.Key]
	if _, earlier := m.earlier[r.Key]; again || earlier {
		return
	}
	m.applied[r.Key] = struct{}{}
	(*m.learner.Load()).train(r.Text, r.Good)
	m.since.Add(1)
}

type modelHead struct {
	number, pieces int
}

func (h modelHead) value() []byte { return fmt.Appendf(nil, "%d %d", h.number, h.pieces) }

func (m *Model) head(ctx context.Context) (h modelHead, raw []byte, err error) {
	raw, err = m.store.Get(ctx, nil, []byte(m.prefix+"head"))
	if errors.Is(err, store.ErrNotFound) {
		return h, nil, nil
	}
	if err != nil {
		return h, nil, err
	}
	if _, err := fmt.Sscanf(string(raw), "%d %d", &h.number, &h.pieces); err != nil {
		return h, nil, errState
	}
	return h, raw, nil
}

// stored is what the store knows of a model.
type storedModel struct {
	learner learner
	head    modelHead
	raw     []byte              // of the head
	keys    map[string]struct{} // of the texts that were applied
	old     []string            // texts that the snapshot holds already
}

// read reads snapshot and texts from the store into a new learner.
func (m *Model) read(ctx context.Context) (s storedModel, err error) {
	s = storedModel{learner: newLearner(m.kind, m.limit), keys: make(map[string]struct{})}
	if s.head, s.raw, err = m.head(ctx); err != nil {
		return s, err
	}
	done := make(map[string]struct{})
	if s.raw != nil {
		var state []byte
		for i := range s.head.pieces {
			if state, err = m.store.Get(ctx, state, m.pieceKey(s.head.number, i)); err != nil {
				return s, fmt.Errorf("piece %d of snapshot %d: %w", i, s.head.number, err)
			}
		}
		if err := s.learner.loadState(state); err != nil {
			return s, err
		}
		list, err := m.store.Get(ctx, nil, m.doneKey(s.head.number))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return s, err
		}
		for ; len(list) >= 32; list = list[32:] {
			done[string(list[:32])] = struct{}{}
		}
	}
	var records []trainRecord
	prefix := []byte(m.prefix + "text/")
	err = m.store.Scan(ctx, prefix, func(k, v []byte, _ time.Duration) error {
		key := string(k[len(prefix):])
		if _, again := done[key]; again {
			s.old = append(s.old, key)
		} else if len(v) > 0 {
			records = append(records, trainRecord{key, string(v[1:]), v[0] == 'g'})
		}
		return nil
	})
	slices.SortFunc(records, func(a, b trainRecord) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
	for _, r := range records {
		s.learner.train(r.Text, r.Good)
		s.keys[r.Key] = struct{}{}
	}
	return s, err
}

// load replaces what the model knows by what the store knows.
func (m *Model) load(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.read(ctx)
	if err != nil && s.raw != nil {
		// A new snapshot may have come in between: the old one's pieces are gone.
		s, err = m.read(ctx)
	}
	if err != nil {
		return fmt.Errorf("load the model %s: %w", m.prefix, err)
	}
	m.use(s.learner, s.keys, len(s.keys))
	return nil
}

func (m *Model) pieceKey(number, piece int) []byte {
	return []byte(m.prefix + "snap/" + strconv.Itoa(number) + "/" + strconv.Itoa(piece))
}

func (m *Model) doneKey(number int) []byte { return []byte(m.prefix + "done/" + strconv.Itoa(number)) }

// compact makes a new snapshot if there are many texts since the last one and nobody else is at it.
func (m *Model) compact(ctx context.Context, least int64) error {
	if m.since.Load() < least {
		return nil
	}
	var token [8]byte
	_, _ = rand.Read(token[:])
	lease := []byte(m.prefix + "lease")
	if mine, err := m.store.Swap(ctx, lease, nil, token[:], compactLease); err != nil || !mine {
		return err
	}
	s, err := m.read(ctx)
	switch {
	case err != nil:
	case int64(len(s.keys)) < least: // another gateway made it
		m.forget(len(s.keys))
	default:
		if err = m.snapshot(ctx, s); err == nil {
			m.forget(0)
		}
	}
	return errors.Join(err, m.store.Delete(ctx, lease))
}

// snapshot writes what s holds as the next snapshot, and removes what it replaces. A crash at any point leaves a model
// that reads the same.
func (m *Model) snapshot(ctx context.Context, s storedModel) error {
	state := s.learner.appendState(nil)
	next := modelHead{number: s.head.number + 1}
	for piece := range slices.Chunk(state, modelPiece) {
		if err := m.store.Put(ctx, m.pieceKey(next.number, next.pieces), piece, 0); err != nil {
			return err
		}
		next.pieces++
	}
	texts := slices.AppendSeq(s.old, maps.Keys(s.keys))
	var done []byte
	for _, key := range texts {
		done = append(done, key...)
	}
	if err := m.store.Put(ctx, m.doneKey(next.number), done, 0); err != nil {
		return err
	}
	if swapped, err := m.store.Swap(ctx, []byte(m.prefix+"head"), s.raw, next.value(), 0); err != nil || !swapped {
		return err
	}
	for _, key := range texts {
		if err := m.store.Delete(ctx, []byte(m.prefix+"text/"+key)); err != nil {
			return err
		}
	}
	if s.raw == nil {
		return nil
	}
	for i := range s.head.pieces {
		if err := m.store.Delete(ctx, m.pieceKey(s.head.number, i)); err != nil {
			return err
		}
	}
	return m.store.Delete(ctx, m.doneKey(s.head.number))
}
