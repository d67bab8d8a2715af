package message

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"antirobot/rules"
	"antirobot/store"
)

// Train learns a text here and on the other gateways.
func (s *System) Train(ctx context.Context, m *Model, text string, good bool) error {
	record, err := m.train(ctx, text, good)
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

// marked is the entry of a Marking.
type marked struct {
	model *Model
	text  string
	once  []byte        // key of the mark in the store
	keep  time.Duration // longer than the entry
}

func (s *System) marked(ctx context.Context, d *Domain, k *Marking) (m marked, err error) {
	l, err := d.messageLog(cmp.Or(k.Log, "messageLog"))
	if err != nil {
		return m, err
	}
	if m.model, err = d.Model(cmp.Or(k.Model, "model")); err != nil {
		return m, err
	}
	entries, err := l.fetch(ctx, Range{FirstID: k.ID})
	if err != nil {
		return m, err
	}
	at := slices.IndexFunc(entries, func(e Entry) bool { return e.ID == k.ID })
	if at < 0 {
		return m, rules.Faultf(CodeProperty, "the log has no entry %d", k.ID)
	}
	attribute := cmp.Or(k.Attribute, "text")
	v, ok := entries[at].Message.Attribute(attribute)
	if !ok || v.Kind != rules.Text {
		return m, rules.Faultf(CodeAttribute, "entry %d has no text %q", k.ID, attribute)
	}
	m.text = v.Text
	m.once = fmt.Appendf(nil, "%smarked/%d/%s/%s/%t", l.prefix, k.ID, m.model.prefix, attribute, k.Good)
	m.keep = l.chunk*time.Duration(l.numChunks) + time.Hour
	return m, nil
}

func (m *marked) undone() []byte { return append(slices.Clone(m.once), "/undone"...) }

// Mark teaches a model an entry. It reports false if the same mark exists.
func (s *System) Mark(ctx context.Context, d *Domain, k Marking) (learnt bool, err error) {
	m, err := s.marked(ctx, d, &k)
	if err != nil {
		return false, err
	}
	undone, err := s.deps.Store.Incr(ctx, m.undone(), 0, m.keep)
	if err != nil {
		return false, err
	}
	once := m.once
	if undone > 0 { // it may be marked again
		once = fmt.Appendf(once, "/%d", undone)
	}
	if first, err := s.deps.Store.Spend(ctx, once, m.keep); err != nil || !first {
		return false, err
	}
	return true, s.Train(ctx, m.model, m.text, k.Good)
}

// Unmark takes back a Mark, here and on the other gateways.
func (s *System) Unmark(ctx context.Context, d *Domain, k Marking) error {
	m, err := s.marked(ctx, d, &k)
	if err != nil {
		return err
	}
	if err := m.model.unlearn(ctx, m.text, k.Good); err != nil {
		return err
	}
	if err := s.tell(ctx, change{Component: m.model.prefix, Undone: true}); err != nil {
		return err
	}
	_, err = s.deps.Store.Incr(ctx, m.undone(), 1, m.keep)
	return err
}

// change is a feed message: new rules, a learnt text, or that a text was unlearnt.
type change struct {
	Component string       `json:"c"`
	Text      *trainRecord `json:"t,omitempty"`
	Undone    bool         `json:"u,omitempty"`
}

func (s *System) tell(ctx context.Context, c change) error {
	if !s.deps.Store.Shared() {
		return nil
	}
	msg, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := s.deps.Store.Append(ctx, feedTopic, msg); err != nil {
		s.deps.Log.Warn().Err(err).Msg("publishing a change failed")
	}
	return nil
}

func (s *System) apply(ctx context.Context, msg []byte) error {
	var c change
	if err := json.Unmarshal(msg, &c); err != nil {
		return fmt.Errorf("a change of another gateway: %w", err)
	}
	m := s.models[c.Component]
	switch {
	case m != nil && c.Text != nil:
		m.apply(*c.Text)
		return nil
	case m != nil && c.Undone:
		return m.load(ctx)
	case c.Text != nil || c.Undone:
		return nil
	}
	if f, ok := s.firewalls.Load(c.Component); ok {
		f := f.(*Firewall) //nolint:forcetypeassert // nothing else is put there
		return f.load(ctx, f.Rules())
	}
	return s.rescanFirewalls(ctx)
}

func (s *System) rescanFirewalls(ctx context.Context) error {
	for _, p := range s.partners {
		if err := p.root.walk(func(d *Domain) error { return s.ownFirewalls(ctx, d) }); err != nil {
			return err
		}
	}
	return nil
}

func (s *System) follow(ctx context.Context, position string) {
	for ctx.Err() == nil {
		err := s.deps.Store.Follow(ctx, feedTopic, position, func(pos string, msg []byte) error {
			position = pos
			if err := s.apply(ctx, msg); err != nil {
				s.deps.Log.Error().Err(err).Msg("applying a change of another gateway failed")
			}
			return nil
		})
		if ctx.Err() != nil {
			return
		}
		s.deps.Log.Warn().Err(err).Msg("the feed of messages was interrupted")
		if errors.Is(err, store.ErrGap) {
			if position, err = s.reload(ctx); err != nil {
				s.deps.Log.Error().Err(err).Msg("reloading messages failed")
			}
		}
		store.Pause(ctx, time.Second)
	}
}

func (s *System) reload(ctx context.Context) (position string, err error) {
	if position, err = s.deps.Store.Position(ctx, feedTopic); err != nil {
		return "", err
	}
	for _, m := range s.models {
		if err := m.load(ctx); err != nil {
			return position, err
		}
	}
	s.firewalls.Range(func(_, v any) bool {
		if f, ok := v.(*Firewall); ok {
			err = f.load(ctx, f.Rules())
		}
		return err == nil
	})
	return position, errors.Join(err, s.rescanFirewalls(ctx))
}
