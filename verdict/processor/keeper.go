package processor

import (
	"context"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/bans"
)

// BanKeeper is where bans are made and standings are kept: verdict.Cacher. No method except Recall waits for a store.
type BanKeeper interface {
	BanSoon(b bans.Ban) error
	Observe(e *verdict.Event)
	Trust(e *verdict.Event, since time.Time, parts bool)
	EstablishedAt(addr [16]byte) int
	ReturnedAt(addr [16]byte, at time.Time) int
	ProvenAt(addr [16]byte) int
	Stands(e *verdict.Event) bool
	Returns(e *verdict.Event) bool
	Company(e *verdict.Event) int
	Ask(q *verdict.Question)
	Doubt(d *verdict.Doubt)
	AskArrivals(x *verdict.Campaign)
	ListBare(client uint32, until time.Time)
	Barely(x identity.Prefix, share float64, at time.Time)
	Near(x identity.Prefix, until time.Time)
	Portion(group, docs uint32, at time.Time)
	KnowsPlace(addr [16]byte, at time.Time) bool
	Meet(addr [16]byte, at time.Time)
	Mistrust(addr [16]byte)
	Paths() *verdict.Paths
	Forgot() bool
	Recall(ctx context.Context, s identity.Subject, service string) (int, error)
}
