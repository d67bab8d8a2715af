package message

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"antirobot/rules"
)

// Train learns a text here and on the other gateways.
func (s *System) Train(ctx context.Context, m *Model, text string, good bool) error {
	record, err := m.train(ctx, text, good, s.deps.Now())
	if err != nil {
		return err
	}
	return s.tell(ctx, change{Component: m.prefix, Text: &record})
}

// Fetch returns the entries of a range of a domain's log, up to maxFetch.
func (s *System) Fetch(ctx context.Context, d *Domain, log string, r Range) ([]Entry, error) {
	l, err := d.messageLog(log)
	if err != nil {
		return nil, err
	}
	r.Limit = min(cmp.Or(r.Limit, maxFetch), maxFetch)
	return l.fetch(ctx, r)
}

// Search returns matching entries of a domain's log (default messageLog).
func (s *System) Search(ctx context.Context, d *Domain, log string, q Query) ([]Entry, error) {
	l, err := d.messageLog(cmp.Or(log, "messageLog"))
	if err != nil {
		return nil, err
	}
	q.Limit = min(cmp.Or(q.Limit, maxFetch), maxFetch)
	return l.search(ctx, q)
}

// Marking is a moderator's mark of a log entry. Empty names are messageLog, model and text.
type Marking struct {
	Log, Model, Attribute string
	ID                    int64
	Good                  bool
}

// Mark teaches a model an entry. It reports false if the same mark exists.
func (s *System) Mark(ctx context.Context, d *Domain, k Marking) (learnt bool, err error) {
	m, text, once, err := s.marked(ctx, d, &k)
	if err != nil {
		return false, err
	}
	keep := s.markedFor(d, &k)
	undone, err := s.deps.Store.Incr(ctx, undoneKey(once), 0, keep)
	if err != nil {
		return false, err
	}
	if undone > 0 { // it may be marked again
		once = fmt.Appendf(once, "/%d", undone)
	}
	if first, err := s.deps.Store.Spend(ctx, once, keep); err != nil || !first {
		return false, err
	}
	return true, s.Train(ctx, m, text, k.Good)
}

// ErrOld says that a text can't be unlearnt: it was not taught so, or is part of a snapshot, which has counts only.
var ErrOld = errors.New("the model has no such text that it could unlearn: it was not taught so, or is part of its " +
	"snapshot by now; teach the opposite")

// unlearned takes back the last Train of a text, here and on the other gateways. Texts that a good one made the
// model forget stay forgotten.
func (s *System) unlearned(ctx context.Context, m *Model, text string, good bool) error {
	record, err := m.unlearn(ctx, text, good)
	if err != nil {
		return err
	}
	return s.tell(ctx, change{Component: m.prefix, Undone: &record})
}

// Unmark takes back a Mark.
func (s *System) Unmark(ctx context.Context, d *Domain, k Marking) error {
	m, text, once, err := s.marked(ctx, d, &k)
	if err != nil {
		return err
	}
	if err := s.unlearned(ctx, m, text, k.Good); err != nil {
		return err
	}
	_, err = s.deps.Store.Incr(ctx, undoneKey(once), 1, s.markedFor(d, &k))
	return err
}

func undoneKey(once []byte) []byte { return append(slices.Clone(once), "/undone"...) }

func (s *System) markedFor(d *Domain, k *Marking) time.Duration {
	l, err := d.messageLog(cmp.Or(k.Log, "messageLog"))
	if err != nil {
		return time.Hour
	}
	return l.chunk*time.Duration(l.numChunks) + time.Hour
}

func (s *System) marked(ctx context.Context, d *Domain, k *Marking) (m *Model, text string, once []byte, err error) {
	l, err := d.messageLog(cmp.Or(k.Log, "messageLog"))
	if err != nil {
		return nil, "", nil, err
	}
	if m, err = d.Model(cmp.Or(k.Model, "model")); err != nil {
		return nil, "", nil, err
	}
	entries, err := l.fetch(ctx, Range{FirstID: k.ID})
	if err != nil {
		return nil, "", nil, err
	}
	at := slices.IndexFunc(entries, func(e Entry) bool { return e.ID == k.ID })
	if at < 0 {
		return nil, "", nil, rules.Faultf(CodeProperty, "the log has no entry %d", k.ID)
	}
	attribute := cmp.Or(k.Attribute, "text")
	v, ok := entries[at].Message.Attribute(attribute)
	if !ok || v.Kind != rules.Text {
		return nil, "", nil, rules.Faultf(CodeAttribute, "entry %d has no text %q", k.ID, attribute)
	}
	return m, v.Text, fmt.Appendf(nil, "%smarked/%d/%s/%s/%t", l.prefix, k.ID, m.prefix, attribute, k.Good), nil
}

func (m *Model) unlearn(ctx context.Context, text string, good bool) (record trainRecord, err error) {
	s, err := m.read(ctx)
	if err != nil {
		return record, fmt.Errorf("unlearn: %w", err)
	}
	want := trainRecord{Text: rules.Clip(text, m.maxText), Good: good}
	others := 0
	prefix := []byte(m.prefix + "text/")
	err = m.store.Scan(ctx, prefix, func(k, v []byte, _ time.Duration) error {
		key := string(k[len(prefix):])
		if _, live := s.keys[key]; !live || string(v) != string(want.value()) {
			return nil
		}
		if record.Key != "" {
			others++
		}
		if key > record.Key {
			record = trainRecord{key, want.Text, good}
		}
		return nil
	})
	switch {
	case err != nil:
		return record, fmt.Errorf("unlearn: %w", err)
	case record.Key == "":
		return record, ErrOld
	}
	if err := m.store.Delete(ctx, []byte(m.prefix+"text/"+record.Key)); err != nil {
		return record, fmt.Errorf("unlearn: %w", err)
	}
	if p, ok := printOf(record.Text); ok && !good && others == 0 {
		if err := m.store.Delete(ctx, m.printKey(p)); err != nil {
			return record, fmt.Errorf("unlearn: %w", err)
		}
	}
	return record, m.reread(ctx, record)
}

func (m *Model) reread(ctx context.Context, gone trainRecord) error {
	if p, ok := printOf(gone.Text); ok && !gone.Good {
		m.taught.Remove(&p, m.now()) // similar ones too: load restores those in the store
	}
	return m.load(ctx)
}
