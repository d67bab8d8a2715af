package captcha

import (
	"context"
	"encoding/binary"
	"net/netip"
	"time"

	"antirobot/identity"
)

// An address earns so many passes in an hour as the configuration says, and then, so that nobody is left without a way,
// one in each further share of the hour. These late ones are worth lateShare of the smallest allowance: the price rises,
// and falls again with the next hour.
const lateShare = 4

// takePass counts a pass of an address (IPv6: a /64), or says how long it has to wait for the next one.
func (c *Captcha) takePass(ctx context.Context, a netip.Addr, at time.Time) (late bool, wait time.Duration, err error) {
	hour, left := hourOf(at)
	granted, err := c.store.Take(ctx, passesKey(a, hour), 1, c.cfg.PassesPerHour, time.Hour)
	if err != nil {
		return false, 0, err
	}
	share, n, rest := c.shareOf(at)
	if granted > 0 {
		_, err = c.store.Incr(ctx, shareKey(a, n), 1, share)
		return false, 0, err
	}
	granted, err = c.store.Take(ctx, shareKey(a, n), 1, 1, share)
	if err != nil {
		return true, 0, err
	}
	if granted <= 0 {
		return true, min(rest, left), nil
	}
	_, err = c.store.Incr(ctx, passesKey(a, hour), 1, time.Hour) // the price of work follows
	return true, 0, err
}

// exhausted says how long an address must wait for its next pass: told before anybody works. Without an answer of the
// store nobody waits.
func (c *Captcha) exhausted(q *Request, at time.Time) time.Duration {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.StoreTimeout)
	defer cancel()
	hour, left := hourOf(at)
	n, err := c.store.Incr(ctx, passesKey(q.ID.Addr, hour), 0, time.Hour)
	if err != nil || n < c.cfg.PassesPerHour {
		return 0
	}
	share, nth, rest := c.shareOf(at)
	if n, err = c.store.Incr(ctx, shareKey(q.ID.Addr, nth), 0, share); err != nil || n == 0 {
		return 0
	}
	return min(rest, left)
}

// shareOf returns how long a share of the hour is, the number of the present one, and what is left of it.
func (c *Captcha) shareOf(at time.Time) (share time.Duration, n int64, left time.Duration) {
	share = max(time.Hour/time.Duration(c.cfg.PassesPerHour), time.Second)
	now := at.UnixNano()
	return share, now / int64(share), share - time.Duration(now%int64(share))
}

// shareKey is the counter of the passes that an address earned in a share of an hour.
func shareKey(a netip.Addr, n int64) []byte {
	s := identity.AddrSubject(a)
	b := append([]byte("captcha/share/"), s.ID[:]...)
	return binary.BigEndian.AppendUint64(b, uint64(n))
}

// allowance is what the nth pass of a network in 24 hours is worth.
func (c *Config) allowance(kind byte, nth int64, late bool) uint32 {
	n := c.allowanceOf(kind, nth)
	if late {
		n = max(1, min(n, uint32(c.Pass.AllowanceFloor)/lateShare)) //nolint:gosec // validated to be small
	}
	return n
}
