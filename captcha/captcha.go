package captcha

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"sync"
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

// Request is one request as the captcha sees it. Nothing of it is kept after the call.
type Request struct {
	View    *request.View
	ID      *identity.Identity
	Service *Settings
	// RequestID is shown to the visitor and sent back.
	RequestID string
	// Body is the body of a POST to /checkcaptcha, or of the form that is challenged.
	Body []byte
	// BodyTooLarge reports that the form was larger than FormLimit and was not read completely.
	BodyTooLarge bool
	// Base is the scheme and authority that the client uses, with Mount: https://example.com. The host is one of the service's.
	Base string
	// Mount is the path prefix that a proxy before the gateway takes off the client's paths; empty: none.
	Mount string
	// Unsure is set if the verdict is not sure that the visitor is a robot; Require is the step that the service asks for.
	Unsure  bool
	Read    bool // it is asked for what its network has read, and for nothing else
	Require Step
	// Partner is set for a request of an XML partner; ID is then its user's (identity.ResolvePartner).
	Partner *Partner
	// Beside says that a balancer brings the request and sends others to the service itself: the gateway sees only what
	// it is asked about.
	Beside bool
	// Tight says that a balancer reads the head of the answer into a small buffer, and may let the visitor through if it does not
	// fit: the address to come back to is kept short.
	Tight bool
	// Reason is why the request is challenged. Written is what the visitor wrote if that is the reason: the page that carries
	// the request shows its beginning, to nobody but them.
	Reason  templates.Reason
	Written string
	// Named says that the answer gives the browser a name of its own (an i cookie). What stopped the request concerns one
	// client of the address alone, so whoever comes back with that name is led on without being asked.
	Named bool
	// Unread says that nobody reads the answer, as where recorded traffic is judged: it has its status and its outcome, and what is
	// counted is counted, but what it would carry is not made.
	Unread bool

	probe *probeState // read once
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
	Visitors Visitors     // knows established visitors; nil: nobody is established
	Manners  Manners      // knows how people read; nil: everybody reads alike
	// Revoke takes back the passes that a kind of browser in a network has earned until now; nil: nobody does.
	Revoke func(net netip.Prefix, agent uint64, at time.Time) error
	// Previous is the Captcha before a reload of the configuration, nil at the start: its memory of answered keys and of
	// addresses is taken over where the bounds stay the same.
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
		cfg: cfg, patience: b.store, keys: d.Keys, store: d.Store, now: d.Now, log: d.Log, count: newCounters(d.Metrics),
	}
	c := &Captcha{core: co, told: bounded.NewRate(toldEvery, toldMany, b.entries)}
	c.pages = &pages{core: co}
	c.probes = &probes{core: co, lost: bounded.NewRate(lostEvery, lostMany, b.entries)}
	c.links = &links{core: co}
	c.issuer = newIssuer(co, c.pages, c.probes, &b)
	c.ladder = &ladder{core: co, climbs: newClimbs(b.entries), visitors: d.Visitors}
	c.prices = &prices{core: co, visitors: d.Visitors, manners: d.Manners}
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
		core: co, pages: c.pages, probes: c.probes, links: c.links, issuer: c.issuer, ladder: c.ladder, prices: c.prices,
		watch: c.watch, answers: c.answers,
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

// inherit takes over the memory of the Captcha before a reload.
func (c *Captcha) inherit(p *Captcha) {
	now, was := &c.cfg, &p.cfg
	if now.KeyTTL == was.KeyTTL {
		c.answers.spent, c.issuer.home = p.answers.spent, p.issuer.home
		c.grants.spent = p.answers.spent
	}
	c.issuer.maker.Inherit(p.issuer.maker, now.Digits == was.Digits && slices.Equal(now.Styles, was.Styles))
	c.watch.tally, c.probes.lost, c.told, c.ladder.climbs = p.watch.tally, p.probes.lost, p.told, p.ladder.climbs
	c.pictures.rates, c.pictures.perKey, c.answers.checks = p.pictures.rates, p.pictures.perKey, p.answers.checks
}

// FormLimit is the largest body, in bytes, of a form that ChallengeForm can carry.
func (c *Captcha) FormLimit() int64 { return c.cfg.FormMaxBytes }

// CheckBodyLimit is the largest body, in bytes, that a POST to /checkcaptcha may have: a sealed form and the answer.
func (c *Captcha) CheckBodyLimit() int64 {
	return (c.cfg.FormMaxBytes+maxSavedHead+maxWritten)*16/9 + 16<<10
}

// counters are the captcha's metrics.
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
			c.media[m][result] = set.GetOrCreateCounter(`antirobot_captcha_media_total{medium="` + m.String() + `",result="` + result + `"}`)
		}
	}
	return c
}

const (
	typeHTML = "text/html; charset=utf-8"
	typeJSON = "application/json; charset=utf-8"
	typeXML  = "text/xml; charset=utf-8"
)

// pages renders the gateway's own answers.
type pages struct {
	*core
	zippers sync.Pool // of *gzip.Writer
}

// own starts an answer of the gateway itself with the fields common to all of them. verdict is captcha, blocked, or empty
// for an answer that is neither.
func (pg *pages) own(q *Request, status int, contentType, verdict string) Response {
	a := Response{Status: status, Header: make([]HeaderField, 0, 14)}
	if contentType != "" {
		a.add("Content-Type", contentType)
	}
	a.add("Cache-Control", "no-store")
	a.add("X-Content-Type-Options", "nosniff")
	if q.RequestID != "" {
		a.add(pg.cfg.Headers.RequestID, q.RequestID)
	}
	if verdict != "" {
		a.add(pg.cfg.Headers.Verdict, verdict)
		if q.Service.yandex {
			if verdict == verdictBlocked {
				verdict = "403"
			}
			a.add("X-Yandex-Captcha", verdict)
		}
	}
	if pg.cfg.TestAnswer != "" {
		a.add("X-Antirobot-Test", "1")
	}
	return a
}

const (
	verdictCaptcha = "captcha"
	verdictBlocked = "blocked"
)

// html makes an answer that is a page.
func (pg *pages) html(q *Request, status int, verdict string, lang *templates.Language) Response {
	a := pg.own(q, status, typeHTML, verdict)
	a.add("Content-Language", lang.Tag)
	a.add("Content-Security-Policy", q.Service.brand.CSP())
	a.add("Referrer-Policy", "no-referrer")
	a.add("X-Robots-Tag", "noindex, nofollow")
	if len(q.Service.origins) == 0 { // it can't name others than the page's own; frame-ancestors can
		a.add("X-Frame-Options", "SAMEORIGIN")
	}
	a.add("Vary", "Accept-Language, Accept-Encoding, Cookie")
	return a
}

// after sets Retry-After to a wait, rounded up.
func (a *Response) after(wait time.Duration) {
	a.add("Retry-After", strconv.FormatInt(seconds(wait), 10))
}

// seconds rounds a wait up.
func seconds(wait time.Duration) int64 { return int64((wait + time.Second - 1) / time.Second) }

// language is the page's language: chosen in the URL or form, remembered, or requested by the browser.
func (pg *pages) language(q *Request, p *params) *templates.Language {
	if p != nil {
		if l := q.Service.set.Lang(p.lang); l != nil {
			return l
		}
	}
	if l := q.Service.set.Lang(cookieValue(q.View, pg.cfg.LangCookie)); l != nil {
		return l
	}
	return q.Service.set.Match(string(q.View.Get("Accept-Language")))
}

// fault answers when a page could not be rendered, which is an error of ours.
func (pg *pages) fault(q *Request, err error) Response {
	pg.log.Error().Err(err).Str("request_id", q.RequestID).Msg("captcha page")
	a := pg.own(q, 500, "text/plain; charset=utf-8", "")
	a.Body = []byte(fmt.Sprintf("Internal error. Request number: %s\n", q.RequestID))
	return a
}

// Headers returns the names of the fields that answers carry.
func (c *Captcha) Headers() HeadersConfig { return c.cfg.Headers }
