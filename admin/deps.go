package admin

import (
	"context"
	"crypto/tls"
	"io"
	"net/netip"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/admin/peers"
	"antirobot/alarm"
	"antirobot/captcha/outcomes"
	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/bans"
	"antirobot/verdict/label"
	"antirobot/verdict/learn"
	"antirobot/verdict/ledger"
	"antirobot/verdict/processor"
	"antirobot/verdict/training"
)

// Deps is what the listener shows and changes. Token and Metrics are required. Parts that are nil answer 501, or are left
// out of what is shown; all must be safe for concurrent use.
type Deps struct {
	Token   string      // that callers must have
	TLS     *tls.Config // nil: plain HTTP
	Version string
	Started time.Time
	Now     func() time.Time // nil: time.Now
	Log     zerolog.Logger
	Metrics *metrics.Set // the server's own go there too; shown on /metrics

	Gateway   Gateway
	Bans      Bans
	Passes    Passes
	Decisions Decisions
	Lists     ListEditor
	Counters  CounterStore
	Messages  MessageSource
	Queue     Queue // of messages that wait for a person
	Sessions  Sessions
	Training  Training // nil: there is no training log
	Labels    Labels
	Learning  Learning
	Attack    Attack
	Pushes    Pushes // nil: this gateway takes no configuration from the store
	Journal   Journal
	Alarms    Alarms
	Peers     Peers // nil: no other gateway is asked
	// Forget forgets what memory and the store know of a subject beside bans and labels; nil: nothing is known.
	Forget func(ctx context.Context, s identity.Subject) error
	// Challenges returns what became of the challenges of late; nil: nobody counts them.
	Challenges func() outcomes.Challenges

	// MessagesOpen says that Messages may be asked without the token: its partners have keys, or the listener is on
	// loopback.
	MessagesOpen bool
	// TracePage is where people look at a trace, with {trace} for its ID; empty: nowhere.
	TracePage string
	// MaxMessage bounds the body of a request to Messages, in bytes.
	MaxMessage int64
}

// Gateway is the running gateway as a whole.
type Gateway interface {
	// Reload applies the configuration anew and names the keys whose new values wait for a restart. Its error has all
	// problems joined.
	Reload(ctx context.Context) (needRestart []string, err error)
	// Backup writes a copy of the data directory into dir, which it makes, while the gateway runs.
	Backup(dir string) error
	Services() []ServiceStatus
	Store() StoreHealth
	// Stream is how the way is between gateways and processors; nil: this process is both.
	Stream() *StreamHealth
	// Certificates says for which hosts no certificate could be obtained, and why.
	Certificates() []string
	// Ready returns what /readyz asks for, beside the lists, which the server looks at itself.
	Ready() []Check
}

// Peers asks the other gateways that share the store. *peers.Peers does.
type Peers interface {
	Here() peers.Peer
	Ask(ctx context.Context, target string) ([]peers.Answer, error)
	// Asked returns which of them asks, by its field Authorization.
	Asked(field []byte, target string) (name string, ok bool)
}

// MessageSource has the message firewall, or says why it is not there: it may wait for a shared store.
type MessageSource interface {
	Messages() (Messages, error)
}

// Sessions tells what the slow half knows of a subject. *processor.Processor does.
type Sessions interface {
	Session(s identity.Subject, at time.Time) (processor.SessionView, bool)
	Spares(netip.Addr) bool // an address that processor.exempt names
}

// Training writes the training log as CSV. *processor.Processor does.
type Training interface {
	ExportTraining(w io.Writer, o training.ExportOptions, now time.Time) (training.Exported, error)
}

// Labels keeps what operators and services say of subjects. *processor.Processor does.
type Labels interface {
	Label(ctx context.Context, e label.Entry) error
	Unlabel(ctx context.Context, s identity.Subject, at time.Time) (bool, error)
	Labels() []label.Entry
}

// Learning knows what was learnt of each service's visitors. *learn.Collector does.
type Learning interface {
	States(ctx context.Context) ([]learn.State, error)
	RollBack(ctx context.Context, service string) (*learn.Card, error)
}

// Attack is the switch "under attack". *verdict.Cacher is.
type Attack interface {
	Attack(ctx context.Context, until time.Time) (over time.Time, err error)
	UnderAttack() verdict.AttackState
}

// Alarms watches, and tells webhooks. *alarm.Watch does.
type Alarms interface {
	Active() []alarm.Alarm
	Hooks() []alarm.HookState
	Test(ctx context.Context, at time.Time) []alarm.HookState
}

// Bans keeps the live bans. *verdict.Cacher does.
type Bans interface {
	Ban(ctx context.Context, b bans.Ban) error
	Unban(ctx context.Context, s identity.Subject, service string) (int, error)
	Bans(f verdict.BanFilter) []bans.Ban
}

// Passes revokes passes, and knows what they may pay for. *verdict.Cacher does.
type Passes interface {
	Allowance(id [16]byte) (ledger.Allowance, bool)
	RevokePass(ctx context.Context, id [16]byte, ttl time.Duration) error
	RevokePassesBornBefore(ctx context.Context, at time.Time) error
	RevokeCampaign(ctx context.Context, n netip.Prefix, agent uint64, at time.Time) error
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
	Lines(list string, f func(*cbb.Line)) bool
	Naming(sub identity.Subject, services []string, at time.Time) []*cbb.Entry
	Describe(e *cbb.Entry, addr netip.Addr) string
	Counts() map[string]cbb.ListCount
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

// StreamHealth says how the way is on which events go from gateways to processors.
type StreamHealth struct {
	Role       string  `json:"role"` // gateway or processor
	Healthy    bool    `json:"healthy"`
	Error      string  `json:"error,omitempty"`
	Partitions int     `json:"partitions,omitempty"`  // that this processor judges
	Lag        float64 `json:"lag_seconds,omitempty"` // how far this processor is behind
}

// Check is one condition of readiness.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}
