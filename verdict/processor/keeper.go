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
	KnownAt(addr [16]byte) int
	IsKnown(e *verdict.Event) bool
	Returns(e *verdict.Event) bool
	Exceeds(x *verdict.Excess)
	KnowReader(client, group uint32, record, near bool, until time.Time)
	Doubt(d *verdict.Doubt)
	AskArrivals(x *verdict.Campaign)
	KnowsPlace(addr [16]byte, at time.Time) bool
	Meet(addr [16]byte, at time.Time)
	Mistrust(addr [16]byte)
	Paths() *verdict.Paths
	Forgot() bool
	Recall(ctx context.Context, s identity.Subject, service string) (int, error)
}
