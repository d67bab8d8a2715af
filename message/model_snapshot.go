package message

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"antirobot/message/learn"
	"antirobot/store"
)

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
