package message

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"antirobot/store"
)

// change is a feed message: new rules, or a learnt or unlearnt text.
type change struct {
	Component string       `json:"c"`
	Text      *trainRecord `json:"t,omitempty"`
	Undone    *trainRecord `json:"u,omitempty"` // an unlearnt text
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

func (s *System) heard(ctx context.Context, msg []byte) error {
	var c change
	if err := json.Unmarshal(msg, &c); err != nil {
		return fmt.Errorf("a change of another gateway: %w", err)
	}
	if c.Text != nil {
		if m := s.models[c.Component]; m != nil {
			m.apply(*c.Text)
		}
		return nil
	}
	if c.Undone != nil {
		if m := s.models[c.Component]; m != nil {
			return m.reread(ctx, *c.Undone)
		}
		return nil
	}
	if f, ok := s.firewalls.Load(c.Component); ok {
		if f, ok := f.(*Firewall); ok {
			return f.load(ctx, f.Rules())
		}
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
			if err := s.heard(ctx, msg); err != nil {
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
