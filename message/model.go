package message

import (
	"context"
	"encoding/binary"
	"fmt"
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

// apply learns a record once, however often it comes.
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
