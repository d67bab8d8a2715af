// Package captcha issues, renders, checks and spends challenges, and carries the challenged request through them. It
// is independent of the server: it is given a Request and returns a Response.
//
// Invariants:
//  1. Nothing is stored for an unanswered challenge: everything needed later is sealed into its key.
//  2. The first answer spends a key, right or wrong; a right one durably, and before the pass is made.
//  3. A visitor is sent only to URLs of the service's own hosts or its retpath_hosts, whatever is signed.
//  4. All state per client is bounded and may be forgotten; forgetting always favors the client.
//  5. Keys, answers, cookies and passes are never logged.
package captcha

import (
	"errors"
	"net/netip"
	"strconv"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/bounded"
	"antirobot/captcha/media"
	"antirobot/captcha/outcomes"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/spravka"
	"antirobot/store"
	"antirobot/templates"
)

// Request is one request to the captcha. Nothing of it is kept after the call.
type Request struct {
	View      *request.View
	ID        *identity.Identity
	Service   *Settings
	RequestID string
	// Body is that of a POST to /checkcaptcha, or the challenged form.
	Body []byte
	// BodyTooLarge reports that the form exceeded FormLimit and was not read completely.
	BodyTooLarge bool
	// Base is scheme and authority as the client uses them, with Mount: https://example.com. The host is the
	// service's.
	Base string
	// Mount is the path prefix that a proxy before the gateway strips; empty: none.
	Mount string
	// Unsure is set if the visitor may be a person; Require is the step that the service demands.
	Unsure  bool
	Press   bool // of an unsure verdict: the silent check is not enough
	Read    bool // challenged for the reading of its network only
	Require Step
	// Partner is set for an XML partner's request; ID is then its user's (identity.ResolvePartner).
	Partner *Partner
	// Beside says that a balancer only asks about single requests: the gateway does not see the others.
	Beside bool
	// Tight says that a balancer reads the head of the response into a small buffer, and may let the visitor through
	// if it does not fit: the return address is kept short.
	Tight bool
	// Reason is why the request is challenged. Written is the visitor's text if that is the reason: the page that
	// carries the request shows its beginning.
	Reason  templates.Reason
	Written string
	// Named says that the response gives the browser a name (an i cookie). The reason concerns one client of the
	// address alone, so a visitor that comes back with that name is sent on unchallenged.
	Named bool
	// Unread says that the response is discarded, as when replaying logs: its status, outcome and counts are right,
	// its contents are not made.
	Unread bool

	probe *probeState
}

func (q *Request) partnerHash() uint64 {
	if q.Partner == nil {
		return 0
	}
	return spravka.PartnerOf(q.Partner.Name)
}

func (q *Request) method() string { return string(q.View.Method) }

// Deps are the dependencies of a Captcha.
type Deps struct {
	Keys     *spravka.Keys
	Store    store.Store
	Now      func() time.Time // by the clock that all gateways share; nil: time.Now
	Log      zerolog.Logger
	Metrics  *metrics.Set // nil: no metrics
	Visitors Visitors     // nil: no visitor is established
	// Revoke revokes the passes that a kind of browser in a network has earned until now; nil: none are.
	Revoke func(net netip.Prefix, agent uint64, at time.Time) error
	// Previous is the Captcha before a reload, nil at the start: its memory is taken over if the bounds stay the same.
	Previous *Captcha

	bounds *bounds // nil: defaultBounds
}

// Captcha makes and checks challenges. It is safe for concurrent use, starts no goroutine, and needs no Close.
type Captcha struct {
	*core

	pages    *pages
	probes   *probes
	links    *links
	issuer   *issuer
	ladder   *ladder
	prices   *prices
	watch    *watch
	answers  *answers
	pictures *pictures
	asks     *asks
	forms    *forms
	grants   *grants
	told     *bounded.Rate // page telemetry
}

// core is what all parts of a Captcha share.
type core struct {
	cfg      Config
	patience time.Duration // for one operation of the store
	keys     *spravka.Keys
	store    store.Store
	now      func() time.Time
	log      zerolog.Logger
	count    counters
}

// New makes a Captcha from a valid configuration.
func New(cfg Config, d Deps) (*Captcha, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if d.Keys == nil || d.Store == nil {
		return nil, errors.New("captcha: keys and store are needed")
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Metrics == nil {
		d.Metrics = metrics.NewSet()
	}
	b := defaultBounds()
	if d.bounds != nil {
		b = *d.bounds
	}
	co := &core{
		cfg: cfg, patience: b.store, keys: d.Keys, store: d.Store, now: d.Now, log: d.Log,
		count: newCounters(d.Metrics),
	}
	c := &Captcha{core: co, told: bounded.NewRate(toldEvery, toldMany, b.entries)}
	c.pages = &pages{core: co}
	c.probes = &probes{core: co, lost: bounded.NewRate(lostEvery, lostMany, b.entries)}
	c.links = &links{core: co}
	c.issuer = newIssuer(co, c.pages, c.probes, &b)
	c.ladder = &ladder{core: co, climbs: newClimbs(b.entries), visitors: d.Visitors}
	c.prices = &prices{core: co, visitors: d.Visitors}
	c.watch = &watch{
		core: co, pages: c.pages, tally: outcomes.New(cfg.KeyTTL), revoke: d.Revoke,
		revokes: bounded.NewRate(revokeEvery, 1, b.entries),
	}
	c.answers = &answers{
		core: co, issuer: c.issuer, probes: c.probes, ladder: c.ladder, prices: c.prices, watch: c.watch,
		spent: bounded.NewOnce(cfg.KeyTTL, b.wrong), checks: b.pace(b.checks),
	}
	c.pictures = &pictures{
		core: co, pages: c.pages, issuer: c.issuer, watch: c.watch, perKey: b.pace(b.media),
		rates: [media.Count]*bounded.Rate{media.Picture: b.pace(b.images), media.Sound: b.pace(b.audio)},
	}
	c.asks = &asks{
		core: co, pages: c.pages, probes: c.probes, links: c.links, issuer: c.issuer, ladder: c.ladder,
		prices: c.prices, watch: c.watch, answers: c.answers,
	}
	c.forms = &forms{asks: c.asks}
	c.grants = &grants{core: co, spent: c.answers.spent}
	if d.Previous != nil {
		c.inherit(d.Previous)
	}
	d.Metrics.GetOrCreateGauge("antirobot_captcha_machines_solve", func() float64 {
		return float64(len(c.Challenges().MachinesSolve))
	})
	return c, nil
}

func (c *Captcha) inherit(p *Captcha) {
	now, was := &c.cfg, &p.cfg
	if now.KeyTTL == was.KeyTTL {
		c.answers.spent, c.issuer.home = p.answers.spent, p.issuer.home
		c.grants.spent = p.answers.spent
	}
	c.issuer.maker.Inherit(p.issuer.maker, now.Digits == was.Digits)
	c.watch.tally, c.probes.lost, c.told, c.ladder.climbs = p.watch.tally, p.probes.lost, p.told, p.ladder.climbs
	c.pictures.rates, c.pictures.perKey, c.answers.checks = p.pictures.rates, p.pictures.perKey, p.answers.checks
}

// FormLimit is the largest body, in bytes, that ChallengeForm can carry.
func (c *Captcha) FormLimit() int64 { return c.cfg.FormMaxBytes }

// CheckBodyLimit is the largest body, in bytes, of a POST to /checkcaptcha: a sealed form and the answer.
func (c *Captcha) CheckBodyLimit() int64 {
	return (c.cfg.FormMaxBytes+maxSavedHead+maxWritten)*16/9 + 16<<10
}

// Headers returns the names of the fields that answers carry.
func (c *Captcha) Headers() HeadersConfig { return c.cfg.Headers }

type counters struct {
	shown    map[string]*metrics.Counter
	answers  [stateCount]*metrics.Counter
	media    [media.Count]map[string]*metrics.Counter
	work     map[string]*metrics.Counter
	unearned *metrics.Counter
	resent   *metrics.Counter
	loaded   *metrics.Counter
	returned *metrics.Counter
	failures *metrics.Counter
}

func newCounters(set *metrics.Set) counters {
	c := counters{
		shown:    map[string]*metrics.Counter{},
		unearned: set.GetOrCreateCounter("antirobot_captcha_unearned_passes_total"),
		resent:   set.GetOrCreateCounter("antirobot_captcha_forms_resent_total"),
		loaded:   set.GetOrCreateCounter("antirobot_captcha_loaded_total"),
		returned: set.GetOrCreateCounter("antirobot_captcha_returned_total"),
		failures: set.GetOrCreateCounter("antirobot_captcha_store_failures_total"),
	}
	c.work = map[string]*metrics.Counter{}
	for _, result := range [...]string{"issued", "limited", "solved", "refused", "underpaid"} {
		c.work[result] = set.GetOrCreateCounter(`antirobot_captcha_work_total{result="` + result + `"}`)
	}
	for _, form := range [...]string{"redirect", "page", "form", "json", "xml"} {
		c.shown[form] = set.GetOrCreateCounter(`antirobot_captcha_shown_total{form="` + form + `"}`)
	}
	for s := range stateCount {
		c.answers[s] = set.GetOrCreateCounter(`antirobot_captcha_answers_total{result="` + s.String() + `"}`)
	}
	for m := range media.Count {
		c.media[m] = map[string]*metrics.Counter{}
		for _, result := range [...]string{"made", "again", "shared", "limited", "busy", "refused", "foreign"} {
			c.media[m][result] = set.GetOrCreateCounter(
				`antirobot_captcha_media_total{medium="` + m.String() + `",result="` + result + `"}`,
			)
		}
	}
	return c
}

// HeaderField is one field of a Response.
type HeaderField struct {
	Name, Value string
}

// Response is a complete response of the gateway itself. The caller adds the fields common to all of them
// (Cache-Control, X-Request-Id, X-Antirobot-Verdict) where it lacks them.
type Response struct {
	Status int
	Header []HeaderField
	Body   []byte
	// Resend, if set, is sent to the service once; its response, with Header added, takes the place of Body.
	Resend *SavedRequest
	// Outcome is for events, metrics and logs.
	Outcome Outcome
	// Took is the time from the challenge to its answer, for OutcomeSolved and OutcomeFailed; 0 if unknown.
	Took time.Duration
	// Work reports that the browser did work: neither its duration nor its correctness proves a person.
	Work bool
	// Evidence is a page's report, for OutcomeEvidence.
	Evidence request.Evidence
	// Pass is the pass that was earned, for OutcomeSolved.
	Pass spravka.Pass
}

// Outcome is the result of a challenge.
type Outcome uint8

// The outcomes.
const (
	OutcomeNone Outcome = iota
	OutcomeShown
	OutcomeSolved
	OutcomeFailed
	OutcomeLimited // too many attempts or passes: 429
	OutcomeEvidence
)

// SavedRequest is a challenged request that continues after the right answer.
type SavedRequest struct {
	Method string
	Target string // origin-form
	Header []HeaderField
	Body   []byte
	// Grant is the decision of the message rules that required the captcha, which are not run again; empty: none.
	Grant string
}

// Get returns the value of the first field with this name, in exactly this spelling; "" if there is none.
func (a *Response) Get(name string) string {
	for _, f := range a.Header {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

func (a *Response) set(name, value string) {
	for i := range a.Header {
		if a.Header[i].Name == name {
			a.Header[i].Value = value
		}
	}
}

func (a *Response) add(name, value string) {
	a.Header = append(a.Header, HeaderField{name, value})
}

// after sets Retry-After to a wait, rounded up.
func (a *Response) after(wait time.Duration) {
	a.add("Retry-After", strconv.FormatInt(seconds(wait), 10))
}

func seconds(wait time.Duration) int64 { return int64((wait + time.Second - 1) / time.Second) }
