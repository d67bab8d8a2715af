package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"antirobot/identity"
	"antirobot/verdict/words"
)

// Result is what a replay found. It is what --json prints.
type Result struct {
	Log        Counts      `json:"log"`
	Report     *Report     `json:"report"`
	Against    *Report     `json:"against,omitempty"`
	Difference *Difference `json:"difference,omitempty"`
}

// Difference is what the second configuration does differently from the first.
type Difference struct {
	RequestsStopped uint64 `json:"requests_newly_stopped"`
	RequestsFree    uint64 `json:"requests_newly_free"`
	RequestsBoth    uint64 `json:"requests_stopped_by_both"`
	Stopped         []Stop `json:"newly_stopped,omitempty"` // subjects that only the second stops, as stopped by it
	Free            []Stop `json:"newly_free,omitempty"`    // subjects that only the first stops, as stopped by it
	Both            int    `json:"subjects_stopped_by_both"`
}

// Runner runs a log through one configuration, or two.
type Runner struct {
	Gateway *Gateway
	Against *Gateway // nil: only one
	Host    []byte   // for requests whose record names none; empty: the configuration's, or the log's own
	Factors *Factors // nil: none are written; otherwise the Observer of Gateway's Processor tells it

	Visitors *Visitors // nil: their scores are not collected; otherwise the same
	Labels   Labels    // of visitors, for Factors; may be nil

	// Serving is told before each record whether its visitor is signed in (Options.Signed), and its name, which is valid
	// during the call; may be nil.
	Serving func(visitor string, signed bool)
}

// Run reads the log to its end. If ctx ends earlier, the error is that of ctx and the Result covers the lines until
// then.
func (u *Runner) Run(ctx context.Context, log *Log) (*Result, error) {
	first := newTally(u.Gateway)
	first.asks = log.opts.Identity.kind != identity.KindNone
	var second *tally
	diff := &Difference{}
	if u.Against != nil {
		second = newTally(u.Against)
		second.asks = first.asks
	}
	in := &ahead{log: log}
	in.look()
	agents := slices.ContainsFunc(in.first, func(r *Record) bool { return r.Agent() != nil })
	host := u.host(in)
	met := map[string]bool{}
	front := front{in: in, host: host, judges: []*Gateway{u.Gateway}}
	if second != nil {
		front.judges = append(front.judges, u.Against)
	}
	stop := front.start(ctx)
	defer stop()
	for batch := range front.ready {
		if ctx.Err() != nil {
			break
		}
		for i := range batch {
			a := &batch[i]
			r := a.Record
			if u.Factors != nil {
				u.Factors.label(r, u.Gateway, u.Labels, agents)
			}
			if u.Serving != nil {
				u.Serving(r.visitor(), r.Signed)
			}
			if u.Visitors != nil {
				u.Visitors.serving = r
			}
			u.Labels.meet(r, met)
			s := u.Gateway.record(&a.view, &r.Answer, a.who, a.asks)
			first.add(a, a.crawler[0], s)
			if second != nil {
				o := u.Against.record(&a.view, &r.Answer, a.who, a.asks)
				second.add(a, a.crawler[1], o)
				diff.request(s.Stopped, o.Stopped)
			}
		}
		front.done <- batch
	}
	stop()
	err := cmp.Or(ctx.Err(), front.err)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	res := &Result{Log: log.counted(), Report: first.finish()}
	res.Report.Notes = append(res.Report.Notes, u.Labels.notMet(len(met))...)
	if second != nil {
		res.Against, res.Difference = second.finish(), diff
		diff.subjects(first, second)
	}
	return res, err
}

// host is for requests whose record names none.
func (u *Runner) host(in *ahead) []byte {
	if len(u.Host) > 0 {
		return u.Host
	}
	if u.Gateway.anyHost {
		if own := in.ownHost(); own != nil {
			return own
		}
	}
	return []byte(u.Gateway.Host)
}

func (d *Difference) request(first, second bool) {
	switch {
	case first && second:
		d.RequestsBoth++
	case second:
		d.RequestsStopped++
	case first:
		d.RequestsFree++
	}
}

func (d *Difference) subjects(first, second *tally) {
	for sub, s := range second.stops {
		if first.stops[sub] == nil {
			d.Stopped = append(d.Stopped, *s)
		} else {
			d.Both++
		}
	}
	for sub, s := range first.stops {
		if second.stops[sub] == nil {
			d.Free = append(d.Free, *s)
		}
	}
	for _, l := range [][]Stop{d.Stopped, d.Free} {
		slices.SortFunc(l, func(a, b Stop) int {
			return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Subject, b.Subject))
		})
	}
}

// notes are what a reader should know before trusting the figures.
func (t *tally) notes() {
	p := &t.report
	t.unknown()
	if p.Requests >= 1000 && t.busiest*2 > p.Requests {
		p.Notes = append(p.Notes, fmt.Sprintf("%s made %s: if that is a balancer, let it log the client's address",
			t.busy, percent(t.busiest, p.Requests)+" of all requests"))
	}
	if t.apart > 0 {
		p.Notes = append(p.Notes, words.Sprintf(words.English,
			"%d {request has|requests have} no address, or that of nearly all the others: each visitor that "+
				"--identity names got one of its own, of fd00::/8", t.apart))
	}
	if t.named > 0 {
		p.Notes = append(p.Notes, words.Sprintf(words.English,
			"%d {request has|requests have} the name of a machine, or nothing, instead of an address: each name, or "+
				"else each User-Agent, "+
				"got an address of fd00::/8", t.named))
	}
	if p.Unrouted > 0 {
		p.Notes = append(p.Notes, words.Sprintf(words.English,
			"%d {request was|requests were} to hosts that no service of the configuration has; --host names the one "+
				"to be taken", p.Unrouted))
	}
	if len(t.subjects) >= maxSubjects {
		p.Notes = append(p.Notes, fmt.Sprintf("more than %d subjects: the others are counted in the totals alone",
			maxSubjects))
	}
	if len(t.stops) >= maxStops {
		p.Notes = append(p.Notes, fmt.Sprintf("more than %d subjects would have been stopped: the others are counted "+
			"in the totals alone", maxStops))
	}
	var unknown uint64
	for _, c := range t.crawlers {
		unknown += c.UnknownStopped
	}
	if unknown > 0 {
		p.Notes = append(p.Notes, words.Sprintf(words.English,
			"%d of the stopped requests {declares|declare} crawlers whose published ranges are not at hand; "+
				"live, the DNS is asked, and verified ones pass. --ranges NAME=FILE gives the ranges", unknown))
	}
}

// shortLog is too short to learn what the site's people are like.
const (
	shortLog         = 24 * time.Hour
	shortLogRequests = 2000
)

// unknown says what a log can't show, and therefore what the figures can't mean.
func (t *tally) unknown() {
	p := &t.report
	note := func(format string, args ...any) {
		p.Notes = append(p.Notes, words.Sprintf(words.English, format, args...))
	}
	if p.Requests == 0 {
		return
	}
	if t.unread > 0 {
		note("%d {request has|requests have} headers that HAProxy captured: --captures says which they are, as "+
			"Host,Referer,User-Agent", t.unread)
	}
	if t.agents == 0 {
		note("no line has a User-Agent: only the pace and the course of clients can be judged, so a low figure means " +
			"little. Log the combined format, or JSON with user agent and referer")
	}
	if t.agents > 0 && t.referers == 0 {
		note("no line has a Referer: how visitors go from page to page, and what scripts ask for, can't be told, so " +
			"people are taken for robots more often, " +
			"and robots for people. Live, and with a log that has it, the same visitors may be judged otherwise")
	}
	if span := p.To.Sub(p.From); span < shortLog || p.Requests < shortLogRequests {
		note("the log is short (%d {request|requests} in %v): who is established, what the site's people read, and "+
			"budgets by the day are learned over days. "+
			"Live, and over a longer log, the same visitors may be judged otherwise", p.Requests,
			span.Round(time.Second))
	}
	if t.typed == 0 {
		note("no line has the type of the answer: what is a page and what a part of one is guessed from paths")
	}
	if u := t.asks; u && t.who == 0 {
		note("no line says who asked where --identity looks: everybody is their address")
	} else if u {
		note("%s of the requests say who asked (--identity); the others are their address", percent(t.who, p.Requests))
	}
}

func percent(n, of uint64) string {
	if of == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
}
