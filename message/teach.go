package message

import (
	"cmp"
	"context"
	"fmt"
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
