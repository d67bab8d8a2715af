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

	"antirobot/message/learn"
	"antirobot/rules"
	"antirobot/store"
)

// Model classifies and learns texts. The store has a snapshot of the counts and the texts learnt since, each
// written before Train returns; from time to time one gateway makes a new snapshot.
//
//	PREFIX head          number of the snapshot and of its pieces
//	PREFIX snap/N/I      a piece of snapshot N
//	PREFIX done/N        keys of the texts in snapshot N, which may still exist after a crash
//	PREFIX text/KEY      a text with its marker; KEY begins with the time
//	PREFIX taught/PRINT  the fuzzy hash of a bad text; it expires
//
// Safe for concurrent use.
type Model struct {
	store   store.Store
	prefix  string
	kind    string
	limit   int
	maxText int
	node    uint32

	start *learn.Start
	now   func() time.Time

	taught *learn.Prints

	learner atomic.Pointer[learn.Learner]
	since   atomic.Int64 // not in the snapshot
	serial  atomic.Uint32

	mu      sync.Mutex // of the following, and of replacing the learner
	applied map[string]struct{}
	earlier map[string]struct{} // applied before the last snapshot: a late feed message may name them
}

const (
	modelPiece = 64 << 10
	// compactAfter texts a new snapshot is made.
	compactAfter = 4096
	// compactLease is how long a gateway may take before another one tries.
	compactLease = 5 * time.Minute
)

func newModel(deps Deps, prefix string, cfg PropertyConfig, maxText int, node uint32, start *learn.Start) *Model {
	m := &Model{
		store: deps.Store, now: deps.Now, prefix: prefix, kind: cfg.Model, limit: maxFeatures, maxText: maxText,
		node:   node,
		taught: learn.NewPrints(maxTaught),
	}
	if cfg.Start != StartNone && cfg.Model != learn.Robinson {
		m.start = start
	}
	m.use(learn.New(m.kind, m.limit), nil, 0)
	return m
}

func (m *Model) use(l learn.Learner, applied map[string]struct{}, since int) {
	if applied == nil {
		applied = make(map[string]struct{})
	}
	m.learner.Store(&l)
	m.applied, m.earlier = applied, nil
	m.since.Store(int64(since))
}

func (m *Model) forget(since int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applied, m.earlier = make(map[string]struct{}), m.applied
	m.since.Store(int64(since))
}

// Size returns how much the model knows.
func (m *Model) Size() learn.Size { return (*m.learner.Load()).Size() }

// train learns a text durably; other gateways apply the record.
func (m *Model) train(ctx context.Context, text string, good bool, at time.Time) (record trainRecord, err error) {
	record = trainRecord{Key: m.newKey(at), Text: rules.Clip(text, m.maxText), Good: good}
	if err := m.store.Put(ctx, []byte(m.prefix+"text/"+record.Key), record.value(), 0); err != nil {
		return record, fmt.Errorf("train: %w", err)
	}
	if err := m.keepPrint(ctx, record, at); err != nil {
		return record, fmt.Errorf("train: %w", err)
	}
	m.apply(record)
	return record, nil
}

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

func (m *Model) apply(r trainRecord) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, again := m.applied[r.Key]
	if _, earlier := m.earlier[r.Key]; again || earlier {
		return
	}
	m.applied[r.Key] = struct{}{}
	(*m.learner.Load()).Train(r.Text, r.Good)
	m.since.Add(1)
	m.applyPrint(r)
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
		return h, nil, learn.ErrState
	}
	return h, raw, nil
}

type storedModel struct {
	learner learn.Learner
	head    modelHead
	raw     []byte // of the head
	keys    map[string]struct{}
	old     []string
}

func (m *Model) read(ctx context.Context) (s storedModel, err error) {
	s = storedModel{learner: learn.New(m.kind, m.limit), keys: make(map[string]struct{})}
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
		if err := s.learner.LoadState(state); err != nil {
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
		s.learner.Train(r.Text, r.Good)
		s.keys[r.Key] = struct{}{}
	}
	return s, err
}

func (m *Model) load(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.read(ctx)
	if err != nil && s.raw != nil {
		// A new snapshot may have replaced the old one's pieces.
		s, err = m.read(ctx)
	}
	if err != nil {
		return fmt.Errorf("load the model %s: %w", m.prefix, err)
	}
	m.use(s.learner, s.keys, len(s.keys))
	return m.loadPrints(ctx)
}

func (m *Model) pieceKey(number, piece int) []byte {
	return []byte(m.prefix + "snap/" + strconv.Itoa(number) + "/" + strconv.Itoa(piece))
}

func (m *Model) doneKey(number int) []byte { return []byte(m.prefix + "done/" + strconv.Itoa(number)) }

// compact makes a new snapshot if there are enough texts and no other gateway does.
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
	case int64(len(s.keys)) < least:
		m.forget(len(s.keys))
	default:
		if err = m.snapshot(ctx, s); err == nil {
			m.forget(0)
		}
	}
	return errors.Join(err, m.store.Delete(ctx, lease))
}

// snapshot writes s as the next snapshot and removes the replaced keys. A crash at any point leaves a model that
// reads the same.
func (m *Model) snapshot(ctx context.Context, s storedModel) error {
	state := s.learner.AppendState(nil)
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
