package captcha

import (
	"context"
	"encoding/binary"
	"math"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"antirobot/templates"
)

// Passes beyond those that a household may earn as fast as it likes come by turns: one in each moment. A moment is at
// most a share of the hour (hour/passes_per_hour) because of what the address earned in an hour, and at most
// longest_wait because of what it or a network around it earned in a day. It grows with the square of what is beyond, from a
// moment that is longer than it takes to read a picture, and doubles each time: turns are counted by their moment, which has to
// stay the same from one pass to the next. A turn may be taken while its picture would still be read, so that what is shown is
// taken at once, however quickly it is answered.

// moments is how often a moment doubles until it is the longest.
const moments = 8

// reading is the time that it takes to read a picture and to type what it shows: nobody waits so long.
const reading = 10 * time.Second

// momentOf returns the interval between passes where so many were earned in the past hour and day, per household.
func (c *Config) momentOf(inHour, inDay float64) time.Duration {
	step := func(n float64, free int64, longest time.Duration) time.Duration {
		over := n - float64(free) + 1
		if over <= 0 {
			return 0
		}
		share := min(over/float64(free), 1)
		_, doublings := math.Frexp(2 * share * share) // the power of two that it does not reach
		return longest >> min(max(-doublings, 0), moments)
	}
	return max(step(inHour, c.PassesPerHour, hour/time.Duration(c.PassesPerHour)), step(inDay, c.PassesPerDay, c.LongestWait))
}

// turnOf returns the number of the turn that may be taken at a time, and how long it is until the next.
func turnOf(at time.Time, moment time.Duration) (n int64, left time.Duration) {
	return windowOf(at.Add(reading), moment)
}

// moment returns the interval between passes at a level with the given counts: a network of several households has as
// many turns more. An interval that passes while a picture is read is none.
func (c *Config) moment(e *earned, i int, inHour, inDay float64) time.Duration {
	var moment time.Duration
	if i == 0 {
		moment = c.momentOf(inHour, inDay)
	} else {
		moment = time.Duration(float64(c.momentOf(0, inDay)) / e.levels[i].places)
	}
	if moment <= reading {
		return 0
	}
	return moment
}

// takePass counts a pass of the address that a right answer's challenge was made for, or returns how long it has to wait
// for the next one.
func (c *Captcha) takePass(ctx context.Context, q *Request, r *result, at time.Time) (e earned, wait time.Duration, err error) {
	e.levelsOf(r.key.addr, c.visitors)
	c.cfg.asMachine(&e, r.key.kind, r.took)
	c.asStranger(&e, q.Service.name, r.key.addr)
	counts := int64(c.cfg.Steps.Worth(r.key.step(), r.key.asked, whole))
	if err = c.add(ctx, &e, at, counts); err != nil {
		return e, 0, err
	}
	before := max(e.hour-float64(counts)/whole/e.levels[0].places, 0)
	for i := range e.n {
		wait, err = c.takeTurn(ctx, &e.levels[i], c.cfg.moment(&e, i, before, e.levels[i].before()), at)
		if err != nil {
			return e, 0, err
		}
		if wait > 0 {
			return e, wait, c.uncount(ctx, &e, at)
		}
	}
	for i := range e.n { // a pass just earned counts in the next one's moment
		if next := c.cfg.moment(&e, i, e.hour, e.levels[i].day); next > 0 {
			n, _ := turnOf(at, next)
			if _, err = c.store.Incr(ctx, momentKey(e.levels[i].net, next, n), 1, next); err != nil {
				return e, 0, err
			}
		}
	}
	return e, 0, nil
}

// takeTurn takes the turn of this moment, or returns how long it is until the next.
func (c *Captcha) takeTurn(ctx context.Context, l *level, moment time.Duration, at time.Time) (wait time.Duration, err error) {
	if moment == 0 {
		return 0, nil
	}
	n, left := turnOf(at, moment)
	granted, err := c.store.Take(ctx, momentKey(l.net, moment, n), 1, 1, moment)
	if err != nil || granted > 0 {
		return 0, err
	}
	return left, nil
}

// exhausted returns how long an address must wait for its next pass, so that it is told before doing any work. If the store
// does not answer, nobody waits.
func (c *Captcha) exhausted(q *Request, at time.Time) (wait time.Duration) {
	return c.exhaustedAt(q, q.ID.Addr, at)
}

// early reports whether a right answer comes before its turn, and sets how long it is until then: it is not spent, so that nobody
// reads a second picture for having been too quick with the first. A spent answer has no turn to wait for.
func (c *Captcha) early(q *Request, r *result, at time.Time) bool {
	k := &r.key
	if c.spent.has(k.nonce) || q.earned(k) || k.kind == moveCode || k.kind == movingCode && !lastRound(k) {
		return false
	}
	r.wait = c.exhaustedAt(q, k.addr, at)
	r.early = r.wait > 0
	return r.early
}

// againURL is where whoever has to wait tries again: with the same answer, if it was right and is not spent.
func (q *Request) againURL(p *params, l *link, r *result) string {
	page := q.Service.showURL(l)
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
	return q.Service.prefix + "/checkcaptcha?" + answer.Encode() + "&" + rest
}

// limitedForm answers whoever has to wait with a form that is carried: the page carries it on, with the answer if r has one that
// is right and not spent.
func (c *Captcha) limitedForm(q *Request, p *params, token string, wait time.Duration, r *result) Response {
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
	a := c.messagePage(q, p, 429, verdictCaptcha, &templates.MessagePage{
		Message: templates.Limited, Wait: wait, SendURL: q.Service.prefix + "/checkcaptcha", Hidden: fields,
	})
	a.set("Referrer-Policy", "same-origin") // the form says where it comes from
	a.after(wait)
	a.Outcome = OutcomeLimited
	return a
}

func (c *Captcha) exhaustedAt(q *Request, addr netip.Addr, at time.Time) (wait time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.StoreTimeout)
	defer cancel()
	e, err := c.earned(ctx, q.Service.name, addr, at)
	if err != nil {
		return 0
	}
	for i := range e.n {
		moment := c.cfg.moment(&e, i, e.hour, e.levels[i].day)
		if moment == 0 {
			continue
		}
		n, left := turnOf(at, moment)
		if taken, err := c.store.Incr(ctx, momentKey(e.levels[i].net, moment, n), 0, moment); err == nil && taken > 0 {
			wait = max(wait, left)
		}
	}
	return wait
}

// momentKey is the key of the counter of passes that a prefix earned in a moment.
func momentKey(net netip.Prefix, moment time.Duration, n int64) []byte {
	as := net.Addr().As16()
	b := append(append([]byte("captcha/share/"), as[:]...), byte(net.Bits()))
	b = binary.BigEndian.AppendUint64(b, uint64(moment)) //nolint:gosec // positive
	return binary.BigEndian.AppendUint64(b, uint64(n))   //nolint:gosec // positive
}
