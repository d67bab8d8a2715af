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
	"antirobot/captcha/limits"
	"antirobot/captcha/media"
	"antirobot/captcha/outcomes"
	"antirobot/captcha/steps"
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
	Require steps.Step
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
}

// Captcha makes and checks challenges. It is safe for concurrent use, starts no goroutine, and needs no Close.
type Captcha struct {
	cfg   Config
	keys  *spravka.Keys
	store store.Store
	now   func() time.Time
	log   zerolog.Logger
	count counters

	visitors Visitors // nil: nobody is established
	manners  Manners  // nil: everybody reads alike
	revoke   func(net netip.Prefix, agent uint64, at time.Time) error
	revokes  *bounded.Rate // campaigns whose passes were taken back
	tally    *outcomes.Tally

	kinds  kinds
	maker  *media.Maker
	spent  *limits.Once
	turns  [256]sync.Mutex // of right answers to one key, by its nonce
	home   [4]byte         // names this memory of spent keys in those that are issued with it
	rates  [media.Count]*bounded.Rate
	perKey *bounded.Rate // deliveries of a challenge's media
	checks *bounded.Rate
	lost   *bounded.Rate // right answers without the cookie coming back
	told   *bounded.Rate // what pages say of their browsers
	climbs climbs

	zippers sync.Pool // of *gzip.Writer, for pages
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
	issued := newDigits(cfg.Digits, cfg.Styles, cfg.TestAnswer)
	c := &Captcha{
		cfg: cfg, keys: d.Keys, store: d.Store, visitors: d.Visitors, manners: d.Manners, revoke: d.Revoke, tally: outcomes.New(cfg.KeyTTL), now: d.Now, log: d.Log, count: newCounters(d.Metrics),
		kinds:   kinds{issued: issued, all: []kind{issued, work{}, silent{}, press{}, moving{issued}, move{}}},
		maker:   media.New(media.Config{Places: cfg.RenderConcurrency, Queue: cfg.RenderQueue, Wait: cfg.RenderWait, Cache: cfg.MediaCacheBytes}),
		spent:   limits.NewOnce(cfg.KeyTTL, cfg.SpentWrong),
		perKey:  cfg.Rates.Key.pace(cfg.RateEntries),
		rates:   [media.Count]*bounded.Rate{media.Picture: cfg.Rates.Images.pace(cfg.RateEntries), media.Sound: cfg.Rates.Audio.pace(cfg.RateEntries)},
		checks:  cfg.Rates.Checks.pace(cfg.RateEntries),
		revokes: bounded.NewRate(revokeEvery, 1, cfg.RateEntries),
		lost:    bounded.NewRate(lostEvery, lostMany, cfg.RateEntries),
		told:    bounded.NewRate(toldEvery, toldMany, cfg.RateEntries),
		climbs:  newClimbs(cfg.RateEntries),
	}
	id := spravka.NewID()
	copy(c.home[:], id[:])
	if d.Previous != nil {
		c.inherit(d.Previous)
	}
	d.Metrics.GetOrCreateGauge("antirobot_captcha_machines_solve", func() float64 { return float64(len(c.Challenges().MachinesSolve)) })
	return c, nil
}

// inherit takes over the memory of the Captcha before a reload.
func (c *Captcha) inherit(p *Captcha) {
	c.tally = p.tally
	now, was := &c.cfg, &p.cfg
	if now.KeyTTL == was.KeyTTL && now.SpentWrong == was.SpentWrong {
		c.spent, c.home = p.spent, p.home
	}
	c.maker.Inherit(p.maker, now.Digits == was.Digits && slices.Equal(now.Styles, was.Styles))
	if now.RateEntries != was.RateEntries {
		return
	}
	c.lost, c.told, c.climbs = p.lost, p.told, p.climbs
	if now.Rates.Images == was.Rates.Images {
		c.rates[media.Picture] = p.rates[media.Picture]
	}
	if now.Rates.Key == was.Rates.Key {
		c.perKey = p.perKey
	}
	if now.Rates.Audio == was.Rates.Audio {
		c.rates[media.Sound] = p.rates[media.Sound]
	}
	if now.Rates.Checks == was.Rates.Checks {
		c.checks = p.checks
	}
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

// own starts an answer of the gateway itself with the fields common to all of them. verdict is captcha, blocked, or empty
// for an answer that is neither.
func (c *Captcha) own(q *Request, status int, contentType, verdict string) Response {
	a := Response{Status: status, Header: make([]HeaderField, 0, 14)}
	if contentType != "" {
		a.add("Content-Type", contentType)
	}
	a.add("Cache-Control", "no-store")
	a.add("X-Content-Type-Options", "nosniff")
	if q.RequestID != "" {
		a.add(c.cfg.Headers.RequestID, q.RequestID)
	}
	if verdict != "" {
		a.add(c.cfg.Headers.Verdict, verdict)
		if q.Service.yandex {
			if verdict == verdictBlocked {
				verdict = "403"
			}
			a.add("X-Yandex-Captcha", verdict)
		}
	}
	if c.cfg.TestAnswer != "" {
		a.add("X-Antirobot-Test", "1")
	}
	return a
}

const (
	verdictCaptcha = "captcha"
	verdictBlocked = "blocked"
)

// html makes an answer that is a page.
func (c *Captcha) html(q *Request, status int, verdict string, lang *templates.Language) Response {
	a := c.own(q, status, typeHTML, verdict)
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
func (c *Captcha) language(q *Request, p *params) *templates.Language {
	if p != nil {
		if l := q.Service.set.Lang(p.lang); l != nil {
			return l
		}
	}
	if l := q.Service.set.Lang(cookieValue(q.View, c.cfg.LangCookie)); l != nil {
		return l
	}
	return q.Service.set.Match(string(q.View.Get("Accept-Language")))
}

// fault answers when a page could not be rendered, which is an error of ours.
func (c *Captcha) fault(q *Request, err error) Response {
	c.log.Error().Err(err).Str("request_id", q.RequestID).Msg("captcha page")
	a := c.own(q, 500, "text/plain; charset=utf-8", "")
	a.Body = []byte(fmt.Sprintf("Internal error. Request number: %s\n", q.RequestID))
	return a
}

// Headers returns the names of the fields that answers carry.
func (c *Captcha) Headers() HeadersConfig { return c.cfg.Headers }
