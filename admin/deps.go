package admin

import (
	"context"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict"
)

// Deps is what the listener shows and changes. Parts that are nil answer 501, or are left out of what is shown; all must
// be safe for concurrent use.
type Deps struct {
	Version string
	Started time.Time
	Now     func() time.Time // nil: time.Now

	Sets      []*metrics.Set // shown on /metrics beside the server's own
	Bans      Bans
	Passes    Passes
	Decisions Decisions
	Lists     ListEditor
	Counters  CounterStore

	// Messages returns the message firewall; nil while it waits for the shared store.
	Messages func() Messages
	// MessagesOpen says that Messages may be asked without the token: its partners have keys, or the listener is on
	// loopback.
	MessagesOpen bool
	// MaxMessage bounds the body of a request to Messages, in bytes.
	MaxMessage int64

	// Events writes the training log; nil: there is none.
	Events Events
	// Allowance returns what is known of the spending of a pass.
	Allowance func(id [16]byte) (Allowance, bool)
	// Session returns what the slow half knows of a subject, in a form that encoding/json can write; nil: nothing.
	Session func(s identity.Subject) any
	// Reload applies the configuration anew and names the keys whose new values wait for a restart. Its error has all
	// problems joined.
	Reload   func(ctx context.Context) (needRestart []string, err error)
	Services func() []ServiceStatus
	Store    func() StoreHealth
	// Ready returns what /readyz asks for, beside the lists, which the server looks at itself.
	Ready func() []Check
}

// Bans keeps the live bans. *verdict.Cacher does.
type Bans interface {
	Ban(ctx context.Context, b verdict.Ban) error
	Unban(ctx context.Context, s identity.Subject, service string) (int, error)
	Bans(f verdict.BanFilter) []verdict.Ban
}

// Passes revokes passes. *verdict.Cacher does.
type Passes interface {
	RevokePass(ctx context.Context, id [16]byte, ttl time.Duration) error
	RevokePassesBornBefore(ctx context.Context, at time.Time) error
}

// Decisions remembers the recent decisions. *verdict.Recent does.
type Decisions interface {
	Get(id request.ID) (verdict.Story, bool)
	// Messages returns the last decisions about messages of message routes, the newest first.
	Messages(limit int) []verdict.Story
}

// ListEditor is the block base and the white list. *cbb.Lists is.
type ListEditor interface {
	Add(ctx context.Context, list cbb.Flag, entry string, ttl time.Duration, reason, service string) error
	Remove(ctx context.Context, list cbb.Flag, entry, service string) error
	List(list cbb.Flag) []cbb.Entry
	Stats() cbb.Stats
}

// Allowance is what a pass may pay for, as this node knows it.
type Allowance struct {
	Limit   uint32    `json:"limit"`
	Spent   uint32    `json:"spent"`
	Left    uint32    `json:"left"`
	Expires time.Time `json:"expires,omitzero"`
}

// ServiceStatus is one protected site, as /api/status shows it.
type ServiceStatus struct {
	Name      string     `json:"name"`
	Hosts     []string   `json:"hosts,omitempty"`
	Mode      string     `json:"mode"`
	Upstreams []Upstream `json:"upstreams"`
}

// Upstream is one address of a service.
type Upstream struct {
	Address string `json:"address"`
	Healthy bool   `json:"healthy"`
	Active  int    `json:"active"` // requests under way
	Error   string `json:"error,omitempty"`
}

// StoreHealth says how the store is.
type StoreHealth struct {
	Backend string `json:"backend"`
	Shared  bool   `json:"shared"`
	Healthy bool   `json:"healthy"`
	Error   string `json:"error,omitempty"`
}

// Check is one condition of readiness.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}
