package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// Deps is what the listener shows and changes. Parts that are nil answer 501; all must be safe for concurrent use.
// Subjects are written kind:id throughout, as in the logs: ip:203.0.113.7, spravka:9f3c….
type Deps struct {
	Version string
	Started time.Time
	Now     func() time.Time // nil: time.Now

	Sets      []*metrics.Set // shown on /metrics beside the server's own
	Bans      Bans
	Lists     Lists
	Passes    Passes
	Decisions Decisions
	Subjects  Subjects
	Reload    func(ctx context.Context) error // applies the configuration anew; the error has all problems joined
	Services  func() []Service
	Store     func() StoreHealth
	Ready     func() []Check // what /readyz asks for; ready when all are OK
}

// Bans keeps the live bans.
type Bans interface {
	// Ban makes or replaces the ban of b.Subject on b.Service (empty: everywhere) and returns it as it is kept, the
	// subject in its canonical form. It returns when the ban is durable. A subject or service that is not understood
	// is an Invalid error.
	Ban(ctx context.Context, b Ban) (Ban, error)
	// Lift ends the ban of subject on service (empty: the one that holds everywhere); false: there was none.
	Lift(ctx context.Context, subject, service string) (bool, error)
	// EachBan calls f for the live bans in any order until it returns false.
	EachBan(f func(Ban) bool)
}

// Ban is a conclusion about one subject until a time.
type Ban struct {
	Subject string    `json:"subject"`
	Service string    `json:"service,omitempty"` // empty: everywhere
	Source  string    `json:"source,omitempty"`  // who made it: api, or a part of the gateway
	Reason  string    `json:"reason,omitempty"`
	Made    time.Time `json:"made,omitzero"`
	Until   time.Time `json:"until"`
	Score   float64   `json:"score,omitzero"`
	Factors []string  `json:"factors,omitempty"`
	Model   string    `json:"model,omitempty"`
}

// Lists is the block base and the white list.
type Lists interface {
	// Add makes or replaces a run-time entry of a list (block, ban, white) and returns it as it is kept, in its
	// canonical form. It returns when the entry is durable. Until zero means for ever.
	Add(ctx context.Context, list string, e Entry) (Entry, error)
	// Remove deletes a run-time entry; false: there was none. Entries of files and URLs can't be removed here.
	Remove(ctx context.Context, list, entry string) (bool, error)
	// EachEntry calls f for the live run-time entries of a list in any order until it returns false.
	EachEntry(list string, f func(Entry) bool)
	// Sources describes every source of entries.
	Sources() []Source
}

// Entry is one run-time entry of a list.
type Entry struct {
	Entry  string    `json:"entry"`
	Reason string    `json:"reason,omitempty"`
	Made   time.Time `json:"made,omitzero"`
	Until  time.Time `json:"until,omitzero"` // zero: for ever
}

// Source is a file, a URL, or the run-time entries of one list.
type Source struct {
	Name    string    `json:"name"`
	Flag    string    `json:"flag"`             // block, ban or white
	From    string    `json:"from,omitempty"`   // path or URL, without credentials
	Entries int       `json:"entries"`          // in use
	Skipped int       `json:"skipped,omitzero"` // lines that were not understood
	Loaded  time.Time `json:"loaded,omitzero"`  // when its content was last found or confirmed
	Age     float64   `json:"age_seconds"`      // filled by the server from Loaded; -1: never loaded
	Copy    bool      `json:"last_good_copy"`   // in use is the copy on disk, not what the source says now
	Error   string    `json:"error,omitempty"`  // of the last refresh
}

// Passes revokes passes.
type Passes interface {
	// Revoke makes one pass worthless, durably.
	Revoke(ctx context.Context, id [16]byte) error
	// RevokeBefore makes all passes worthless that were born before t, durably.
	RevokeBefore(ctx context.Context, t time.Time) error
}

// Decisions remembers the recent decisions.
type Decisions interface {
	// Decision returns what was decided about one request, and why, as a value that is shown as JSON. It holds no cookie
	// and no answer.
	Decision(requestID string) (any, bool)
}

// Subjects tells what is known of one subject.
type Subjects interface {
	// Subject returns an Invalid error when the text is no subject. What is not known of it is left nil.
	Subject(ctx context.Context, subject string) (SubjectInfo, error)
}

// SubjectInfo is what is known of one subject.
type SubjectInfo struct {
	Subject   string     `json:"subject"`
	Bans      []Ban      `json:"bans"`
	Allowance *Allowance `json:"allowance,omitempty"`
	Session   any        `json:"session,omitempty"`
}

// Allowance is what a pass may still pay for. Limit and Expires are known for passes that this node has seen.
type Allowance struct {
	Limit   int64     `json:"limit,omitzero"`
	Spent   int64     `json:"spent"`
	Revoked bool      `json:"revoked"`
	Expires time.Time `json:"expires,omitzero"`
}

// Service is one protected site, as /api/status shows it.
type Service struct {
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

// Invalid returns the error by which a part of Deps refuses a field of the caller's JSON or query.
func Invalid(field, format string, args ...any) error { return badField(field, format, args...) }

// Full returns the error by which a part of Deps says that its bound is reached.
func Full(format string, args ...any) error {
	return &problem{status: 507, Code: "full", Message: fmt.Sprintf(format, args...)}
}
