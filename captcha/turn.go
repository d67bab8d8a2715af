package captcha

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"antirobot/store"
	"antirobot/templates"
)

// Passes beyond those that a household may earn as fast as it likes come one at a time: each at least an interval after the one
// before. It is at most a share of the hour (hour/passes_per_hour) because of what the address earned in an hour, and at most
// longest_wait because of what it or a network around it earned in a day. It grows with the square of what is beyond, from no more
// than it takes to read a picture, and falls again with it. A pass may be earned early by the time in which its picture would still be
// read, so that what is shown is taken at once, however quickly it is answered.

// reading is the time that it takes to read a picture and to type what it shows: nobody waits so long.
const reading = 10 * time.Second

// intervalOf returns the interval between passes where so many were earned in the past hour and day, per household.
func (c *Config) intervalOf(inHour, inDay float64) time.Duration {
	grown := func(n float64, free int64, longest time.Duration) time.Duration {
		over := max(n-float64(free)+1, 0) / float64(free)
		return time.Duration(min(over*over, 1) * float64(longest))
	}
	return max(grown(inHour, c.PassesPerHour, hour/time.Duration(c.PassesPerHour)), grown(inDay, c.PassesPerDay, c.LongestWait))
}

// interval returns the interval before a pass at a level with the given counts: a network of several households has as
// many passes more, and a pass that counts for a share of one (shareOf) comes after that share of the interval. An interval that passes
// while a picture is read is none.
func (c *Config) interval(e *earned, i int, inHour, inDay, share float64) time.Duration {
	var d time.Duration
	switch {
	case e.levels[i].hourly: // nobody waits for it
		return 0
	case i == 0:
		d = c.intervalOf(inHour, inDay)
	default:
		d = time.Duration(float64(c.intervalOf(0, inDay)) / e.levels[i].places)
	}
	if d = time.Duration(float64(d) * share); d <= reading {
		return 0
	}
	return d
}

// shareOf is how much of a pass an answer to step counts for, when asked was asked for.
func shareOf(step, asked Step) float64 {
	return float64(worthOf(step, asked, whole)) / whole
}

// takePass counts a pass of the address that a right answer's challenge was made for, or returns how long it has to wait
// for the next one.
func (pr *prices) takePass(ctx context.Context, q *Request, r *result, at time.Time) (e earned, wait time.Duration, err error) {
	e.levelsOf(r.key.addr, pr.visitors)
	pr.cfg.asMachine(&e, r.key.kind, r.took)
	pr.asStranger(&e, q.Service.name, r.key.addr)
	counts := int64(worthOf(r.key.step(), r.key.asked, whole))
	if err = pr.add(ctx, &e, at, counts); err != nil {
		return e, 0, err
	}
	before := max(e.hour-float64(counts)/whole/e.levels[0].places, 0)
	for i := range e.n {
		l := &e.levels[i]
		due := pr.cfg.interval(&e, i, before, l.before(), float64(counts)/whole)
		if due == 0 && pr.cfg.interval(&e, i, e.hour, l.day, 1) == 0 {
			continue // nobody waits for the next one, either
		}
		wait, err = pr.takeTurn(ctx, l, due, at)
		if err != nil {
			return e, 0, err
		}
		if wait > 0 {
			return e, wait, pr.uncount(ctx, &e, at)
		}
	}
	return e, 0, nil
}

// takeTurn records that a pass is earned now, an interval after the one before, or returns how long it is until that.
func (pr *prices) takeTurn(ctx context.Context, l *level, interval time.Duration, at time.Time) (wait time.Duration, err error) {
	key, now := lastKey(l.net), binary.BigEndian.AppendUint64(nil, uint64(at.UnixNano())) //nolint:gosec // after 1970
	for {
		last, left, err := pr.sinceLast(ctx, l, interval, at)
		if err != nil || left > 0 {
			return left, err
		}
		// Of several at once one is the next; where nobody has to wait yet, the order does not matter.
		done, err := pr.store.Swap(ctx, key, last, now, max(pr.cfg.LongestWait, hour))
		if done || err != nil || interval == 0 {
			return 0, err
		}
	}
}

// sinceLast returns when the last pass of a level was earned, as it is stored (nil: long ago), and how long it is until the next
// one may be.
func (pr *prices) sinceLast(ctx context.Context, l *level, interval time.Duration, at time.Time) (last []byte, wait time.Duration, err error) {
	last, err = pr.store.Get(ctx, nil, lastKey(l.net))
	if errors.Is(err, store.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil || len(last) != 8 {
		return last, 0, err
	}
	then := time.Unix(0, int64(binary.BigEndian.Uint64(last))) //nolint:gosec // after 1970
	if then.After(at.Add(interval)) {
		return last, 0, nil // a clock was wrong
	}
	return last, max(then.Add(interval-reading).Sub(at), 0), nil
}

// exhausted returns how long an address must wait for its next pass by a step, so that it is told before doing any work. If the store
// does not answer, nobody waits.
func (pr *prices) exhausted(q *Request, step Step, at time.Time) (wait time.Duration) {
	return pr.exhaustedAt(q, q.ID.Addr, shareOf(step, step), at)
}

// early reports whether a right answer comes before its turn, and sets how long it is until then: it is not spent, so that nobody
// reads a second picture for having been too quick with the first. A spent answer has no turn to wait for.
func (an *answers) early(q *Request, r *result, at time.Time) bool {
	k := &r.key
	if an.spent.Has(k.nonce) || q.earned(k) || k.kind == moveCode || k.kind == movingCode && !lastRound(k) {
		return false
	}
	r.wait = an.prices.exhaustedAt(q, k.addr, shareOf(k.step(), k.asked), at)
	r.early = r.wait > 0
	return r.early
}

// againURL is where whoever has to wait tries again: with the same answer, if it was right and is not spent.
func (q *Request) againURL(p *params, l *link, r *result) string {
	page := q.showPath(l)
	if !r.early {
		return page
	}
	answer := url.Values{"key": {p.key}, "rep": {p.rep}}
	if p.proof != "" {
		answer.Set(fieldProof, p.proof)
	}
	if p.back != "" {
		answer.Set(fieldBack, p.back)
	}
	_, rest, _ := strings.Cut(page, "?")
	return q.prefix() + "/checkcaptcha?" + answer.Encode() + "&" + rest
}

// limitedForm answers whoever has to wait with a form that is carried: the page carries it on, with the answer if r has one that
// is right and not spent.
func (fs *forms) limitedForm(q *Request, p *params, token string, wait time.Duration, r *result) Response {
	fields := []templates.HiddenField{hidden(fieldSaved, token)}
	switch {
	case r == nil || !r.early:
		fields = append(fields, hidden(fieldFresh, "1"))
	case p.proof != "":
		fields = append(fields, hidden("key", p.key), hidden("rep", p.rep), hidden(fieldProof, p.proof))
	default:
		fields = append(fields, hidden("key", p.key), hidden("rep", p.rep))
	}
	if p != nil && p.lang != "" {
		fields = append(fields, hidden("lang", p.lang))
	}
	a := fs.pages.messagePage(q, p, 429, verdictCaptcha, &templates.MessagePage{
		Message: templates.Limited, Wait: wait, SendURL: q.prefix() + "/checkcaptcha", Hidden: fields,
	})
	a.set("Referrer-Policy", "same-origin") // the form says where it comes from
	a.after(wait)
	a.Outcome = OutcomeLimited
	return a
}

func (pr *prices) exhaustedAt(q *Request, addr netip.Addr, share float64, at time.Time) (wait time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), pr.patience)
	defer cancel()
	e, err := pr.earned(ctx, q.Service.name, addr, at)
	if err != nil {
		return 0
	}
	for i := range e.n {
		interval := pr.cfg.interval(&e, i, e.hour, e.levels[i].day, share)
		if interval == 0 {
			continue
		}
		if _, left, err := pr.sinceLast(ctx, &e.levels[i], interval, at); err == nil {
			wait = max(wait, left)
		}
	}
	return wait
}

// lastKey is the key of the time at which a prefix earned its last pass.
func lastKey(net netip.Prefix) []byte {
	as := net.Addr().As16()
	return append(append([]byte("captcha/last/"), as[:]...), byte(net.Bits()))
}
