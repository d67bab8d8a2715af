package outcomes

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"antirobot/spravka"
	"antirobot/store"
)

// Gateways publish their answers by network, kind of browser and shape over the store's feed. The counts of other
// gateways are kept apart, so that a gateway's report is its own.

const (
	answersTopic = "challenges"
	tellEvery    = time.Second
	followAgain  = time.Second // after the feed has failed
	tellPatience = 5 * time.Second
	maxTallyName = 64 // bytes of a network, a campaign or a shape
	answersBatch = 32 << 10
)

// judged reports whether rows of a kind are published.
func (k kind) judged() bool { return k == ofNetwork || k == ofCampaign || k == ofShape }

// Share exchanges answers with the other gateways of the store until ctx ends, and publishes the rest. Without a
// shared store it returns at once. failed is called when the store fails.
func (t *Tally) Share(ctx context.Context, st store.Store, now func() time.Time, failed func()) {
	if !st.Shared() {
		return
	}
	s := sharing{t, st, now, failed, spravka.NewID()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.hear(ctx)
	}()
	t.share(true)
	every := time.NewTicker(tellEvery)
	defer every.Stop()
	for ctx.Err() == nil {
		select {
		case <-every.C:
			s.tell(ctx)
		case <-ctx.Done():
		}
	}
	<-done
	t.share(false)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellPatience)
	defer cancel()
	s.tell(last)
}

// sharing is a Tally that exchanges answers.
type sharing struct {
	*Tally
	store  store.Store
	clock  func() time.Time
	failed func()
	node   [16]byte
}

func (t *Tally) share(on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shared = on
}

// tell publishes new counts. If the store fails, they are published with the next.
func (s *sharing) tell(ctx context.Context) {
	s.mu.Lock()
	untold := s.untold
	s.untold = nil
	s.mu.Unlock()
	for len(untold) > 0 {
		msg := binary.BigEndian.AppendUint64(s.node[:], uint64(s.clock().UnixMilli())) //nolint:gosec // after 1970
		told := make([]Name, 0, len(untold))
		for k, n := range untold {
			msg = appendAnswers(msg, k, &n)
			if told = append(told, k); len(msg) > answersBatch {
				break
			}
		}
		if s.store.Append(ctx, answersTopic, msg) != nil {
			s.failed()
			s.mu.Lock()
			for k, n := range untold {
				s.toTell(k, &n)
			}
			s.mu.Unlock()
			return
		}
		for _, k := range told {
			delete(untold, k)
		}
	}
}

// toTell notes an answer to publish. The caller holds mu.
func (t *Tally) toTell(k Name, more *Count) {
	n, known := t.untold[k]
	if !known && len(t.untold) >= mostRows {
		return // the store has been away for long
	}
	if t.untold == nil {
		t.untold = map[Name]Count{}
	}
	n.Tried, n.Solved, n.Quick = n.Tried+more.Tried, n.Solved+more.Solved, n.Quick+more.Quick
	t.untold[k] = n
}

// hear takes over published counts until ctx ends: first those that the feed still has, then new ones.
func (s *sharing) hear(ctx context.Context) {
	from := "0"
	for ctx.Err() == nil {
		err := s.store.Follow(ctx, answersTopic, from, func(pos string, msg []byte) error {
			from = pos
			s.heard(msg, s.node, s.clock())
			return nil
		})
		if errors.Is(err, store.ErrGap) || errors.Is(err, store.ErrPosition) {
			from = "0"
			s.forgetOthers()
		}
		store.Pause(ctx, followAgain)
	}
}

func (t *Tally) forgetOthers() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.others = [2]span{}
}

// appendAnswers appends a row: kind, name, and the numbers of answers, right ones and quick ones.
func appendAnswers(dst []byte, k Name, n *Count) []byte {
	dst = append(append(dst, byte(k.of), byte(len(k.name))), k.name...)
	for _, v := range [...]int64{n.Tried, n.Solved, n.Quick} {
		dst = binary.AppendUvarint(dst, uint64(v)) //nolint:gosec // counts are not negative
	}
	return dst
}

// heard adds another gateway's counts, unless they are too old. It stops at malformed data.
func (t *Tally) heard(msg []byte, node [16]byte, now time.Time) {
	if len(msg) < 16+8 || [16]byte(msg) == node {
		return
	}
	at := time.UnixMilli(int64(binary.BigEndian.Uint64(msg[16:]))) //nolint:gosec // any time will do
	msg = msg[16+8:]
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(now)
	in := &t.others[0]
	if at.Before(t.at) {
		if in = &t.others[1]; now.Sub(at) >= 2*spanFor {
			return
		}
	}
	for len(msg) > 2 {
		of, size := kind(msg[0]), int(msg[1])
		if msg = msg[2:]; size == 0 || size > maxTallyName || size > len(msg) {
			return
		}
		name := string(msg[:size])
		msg = msg[size:]
		var v [3]int64
		for i := range v {
			n, w := binary.Uvarint(msg)
			if w <= 0 || n > maxAnswers {
				return
			}
			v[i], msg = int64(n), msg[w:] //nolint:gosec // small
		}
		if of < kinds && of.judged() && v[1] <= v[0] && v[2] <= v[1] {
			in.add(of, name, &Count{Tried: v[0], Solved: v[1], Quick: v[2]})
		}
	}
}

// maxAnswers bounds what one row of a message may count.
const maxAnswers = 1 << 32

// elsewhere returns the other gateways' counts of a row. The caller holds mu.
func (t *Tally) elsewhere(of kind, name string) Count {
	sum := t.others[0][of][name]
	was := t.others[1][of][name]
	sum.add(&was)
	return sum
}
