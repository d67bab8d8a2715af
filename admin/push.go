package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/valyala/fasthttp"

	"antirobot/config/pushed"
	"antirobot/journal"
)

// Pushes keeps the configuration that gateways take from the store.
type Pushes interface {
	// Push checks a bundle, keeps it as a version and puts it in force. What can't be used is a *RefusedConfig, and
	// changes nothing.
	Push(ctx context.Context, b *pushed.Bundle, v pushed.Version) (pushed.Version, error)
	// Rollback puts a version in force that is kept, nil: the one before; and returns its number, 0 for the gateways'
	// own files.
	Rollback(ctx context.Context, to *uint64) (uint64, error)
	Pushed(ctx context.Context) (PushState, error)
}

// PushState lists the pushed versions, and which gateway runs which.
type PushState struct {
	InForce  uint64           `json:"in_force"`
	Runs     uint64           `json:"runs"` // this gateway
	Error    string           `json:"error,omitempty"`
	Versions []pushed.Version `json:"versions"`
	Gateways []pushed.Node    `json:"gateways"`
}

// RefusedConfig says why a configuration is not taken.
type RefusedConfig struct{ Err error }

func (e *RefusedConfig) Error() string { return e.Err.Error() }

// Unwrap returns the problem.
func (e *RefusedConfig) Unwrap() error { return e.Err }

// maxNote bounds the note of a version, in bytes.
const maxNote = 500

func (s *gatewayCalls) pushState(c *call) (any, error) {
	state, err := s.deps.Pushes.Pushed(c.work)
	if err != nil {
		return nil, pushFailed(err)
	}
	state.Versions, state.Gateways = append([]pushed.Version{}, state.Versions...),
		append([]pushed.Node{}, state.Gateways...)
	return state, nil
}

func (s *gatewayCalls) push(c *call) (any, error) {
	var in struct {
		Note   string `json:"note"`
		Bundle []byte `json:"bundle"`
	}
	if err := decode(c.RequestCtx, &in); err != nil {
		return nil, err
	}
	if len(in.Note) > maxNote {
		return nil, badField("note", "%d bytes are more than %d", len(in.Note), maxNote)
	}
	b, err := pushed.Decode(in.Bundle)
	if err != nil {
		return nil, badField("bundle", "%v", err)
	}
	v, err := s.deps.Pushes.Push(c.work, b, pushed.Version{By: c.who.Name, Note: in.Note, At: s.now().UTC()})
	var refused *RefusedConfig
	if errors.As(err, &refused) {
		return nil, &problem{
			status: fasthttp.StatusUnprocessableEntity, Code: "config_invalid", Errors: flatten(refused.Err),
			Message: "the configuration was not taken and nothing has changed; mend what errors lists and push again",
		}
	}
	if err != nil {
		return nil, pushFailed(err)
	}
	s.act(c, journal.Act{What: "push", Subject: fmt.Sprintf("version %d", v.Number), Reason: in.Note})
	return v, nil
}

func (s *gatewayCalls) rollback(c *call) (any, error) {
	var in struct {
		To *uint64 `json:"to"`
	}
	if err := decode(c.RequestCtx, &in); err != nil {
		return nil, err
	}
	number, err := s.deps.Pushes.Rollback(c.work, in.To)
	if errors.Is(err, pushed.ErrNoVersion) {
		return nil, badField("to", "%v; GET /api/push lists those that are kept", err)
	}
	if err != nil {
		return nil, pushFailed(err)
	}
	s.act(c, journal.Act{What: "rollback", Subject: fmt.Sprintf("version %d", number)})
	return map[string]uint64{"in_force": number}, nil
}

func pushFailed(err error) error {
	return &problem{
		status: statusUnavailable, Code: "store_failed",
		Message: "the store failed, and what is in force is not certain (see GET /api/push): " + err.Error(),
	}
}
