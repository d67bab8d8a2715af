package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"antirobot/message"
	"antirobot/message/inline"
	"antirobot/message/second"
	"antirobot/problem"
	"antirobot/request"
	"antirobot/rules/texts"
	"antirobot/verdict"
)

// MessagesConfig is the messages section of a service.
type MessagesConfig struct {
	Routes []MessageRouteConfig `mapstructure:"routes"`
}

// MessageRouteConfig is a route whose messages are judged before the service sees them. Empty fields get defaults.
type MessageRouteConfig struct {
	// Route is a method (or *) and a path, such as POST /comments. * stands for one segment, ** at the end for the
	// rest.
	Route   string `mapstructure:"route"`
	Partner string `mapstructure:"partner"` // empty: the only one
	Domain  string `mapstructure:"domain"`  // path of the partner's domain

	Sources []inline.Source `mapstructure:"sources"`
	MaxBody int64           `mapstructure:"max_body"` // bytes as sent
	Charset string          `mapstructure:"charset"`  // of texts that are not UTF-8 and name none
	Timeout time.Duration   `mapstructure:"timeout"`  // to read the body and judge it

	// Answers maps decisions to actions; Otherwise is the action of all others.
	Answers   []verdict.AnswerConfig `mapstructure:"answers"`
	Otherwise string                 `mapstructure:"otherwise"`
	// Actions where there is no decision.
	Missing    string `mapstructure:"missing"` // an attribute
	TooLarge   string `mapstructure:"too_large"`
	Unreadable string `mapstructure:"unreadable"` // malformed, or in an unknown encoding
	OnTimeout  string `mapstructure:"on_timeout"` // not received or judged in time
	OnError    string `mapstructure:"on_error"`   // rules failed, or the firewall is unavailable
	QueueFull  string `mapstructure:"queue_full"` // the queue refuses the message

	Grey GreyConfig `mapstructure:"grey"` // texts about which the model is unsure

	// Approved is the destination of approved messages: "service", or the URL of a webhook.
	Approved string `mapstructure:"approved"`

	Trace bool `mapstructure:"trace"` // keep what every statement did
}

func (c MessageRouteConfig) withDefaults() MessageRouteConfig {
	limits := inline.DefaultConfig()
	c.MaxBody = cmp.Or(c.MaxBody, limits.MaxBody)
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	if len(c.Answers) == 0 {
		c.Answers = verdict.MessageAnswers()
	}
	c.Otherwise = cmp.Or(c.Otherwise, "captcha")
	c.Missing = cmp.Or(c.Missing, "captcha")
	c.TooLarge = cmp.Or(c.TooLarge, "captcha")
	c.Unreadable = cmp.Or(c.Unreadable, "captcha")
	c.OnTimeout = cmp.Or(c.OnTimeout, "captcha")
	c.OnError = cmp.Or(c.OnError, "captcha")
	c.QueueFull = cmp.Or(c.QueueFull, "captcha")
	c.Approved = cmp.Or(c.Approved, approvedService)
	return c
}

func (c *MessageRouteConfig) reading() inline.Config {
	return inline.Config{Sources: c.Sources, MaxBody: c.MaxBody, Charset: c.Charset}
}

// maxRouteBody bounds the memory of a route for each request in progress.
const maxRouteBody = 16 << 20

// Validate returns every error of c, each with its path.
func (c *MessagesConfig) Validate() error {
	var errs []error
	seen := map[string]bool{}
	for i := range c.Routes {
		if _, err := newMessageRoute(c.Routes[i]); err != nil {
			errs = append(errs, problem.At(fmt.Sprintf("routes[%d]", i), err))
		}
		if seen[c.Routes[i].Route] {
			errs = append(errs, fmt.Errorf("routes[%d].route: %q occurs twice", i, c.Routes[i].Route))
		}
		seen[c.Routes[i].Route] = true
	}
	return errors.Join(errs...)
}

type messageRoute struct {
	name     string
	method   string // "*": any
	segments []string
	rest     bool // the path may continue

	cfg        MessageRouteConfig
	read       inline.Config
	answers    *verdict.Answers
	missing    verdict.RuleAction
	tooLarge   verdict.RuleAction
	unreadable verdict.RuleAction
	late       verdict.RuleAction
	failed     verdict.RuleAction
	queueFull  verdict.RuleAction
	grey       *grey  // nil: none
	webhook    string // empty: the service
}

func newMessageRoute(c MessageRouteConfig) (*messageRoute, error) {
	c = c.withDefaults()
	r := &messageRoute{name: c.Route, cfg: c, read: c.reading()}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	r.parse(c.Route, bad)
	if err := r.read.Validate(); err != nil {
		errs = append(errs, err)
	}
	if c.MaxBody > maxRouteBody {
		bad("max_body: more than %d MiB would be kept in memory for each request", maxRouteBody>>20)
	}
	if c.Timeout < 10*time.Millisecond || c.Timeout > time.Minute {
		bad("timeout: %v is not between 10ms and 1m", c.Timeout)
	}
	var err error
	var ok bool
	if r.answers, err = verdict.NewAnswers(c.Answers, c.Otherwise); err != nil {
		errs = append(errs, err)
	}
	for _, a := range []struct {
		key, value string
		action     *verdict.RuleAction
	}{
		{"too_large", c.TooLarge, &r.tooLarge},
		{"unreadable", c.Unreadable, &r.unreadable},
		{"on_timeout", c.OnTimeout, &r.late},
		{"on_error", c.OnError, &r.failed},
		{"missing", c.Missing, &r.missing},
		{"queue_full", c.QueueFull, &r.queueFull},
	} {
		if *a.action, ok = verdict.ParseAction(a.value); !ok {
			bad("%s: %.40q is not an action", a.key, a.value)
		}
	}
	r.grey = newGrey(c.Grey, bad)
	if r.queueFull == verdict.RuleQueue {
		bad("queue_full: what the queue does not take can't wait in it")
	}
	if c.Approved != approvedService {
		if u, err := url.Parse(c.Approved); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			bad("approved: %.80q is neither service nor the URL of a webhook", c.Approved)
		}
		r.webhook = c.Approved
	}
	return r, errors.Join(errs...)
}

const approvedService = "service"

// Webhook returns the URL for approved messages of the route; empty: the service.
func (c *MessageRouteConfig) Webhook() string {
	if c.Approved == approvedService {
		return ""
	}
	return c.Approved
}

func (r *messageRoute) parse(route string, bad func(format string, args ...any)) {
	var path string
	var ok bool
	if r.method, path, ok = strings.Cut(route, " "); !ok || !strings.HasPrefix(path, "/") || r.method == "" ||
		strings.ToUpper(r.method) != r.method {
		bad("route: %q is no method and path such as POST /comments", route)
	}
	path, r.rest = strings.CutSuffix(path, "/**")
	r.segments = strings.Split(strings.Trim(path, "/"), "/")
	if strings.Contains(path, "**") || strings.ContainsAny(path, "?# ") {
		bad("route: in the path of %q, * stands for one segment and ** at the end for the rest", route)
	}
}

func newMessageRoutes(c MessagesConfig) []*messageRoute {
	routes := make([]*messageRoute, 0, len(c.Routes))
	for i := range c.Routes {
		r, err := newMessageRoute(c.Routes[i])
		if err != nil {
			panic("BUG: a route that Validate let pass: " + err.Error())
		}
		routes = append(routes, r)
	}
	return routes
}

// fits reports whether the route matches a method and a reading of a path; with fold, in any case, behind a front
// controller (/index.php/comments) and with a format (/comments.json), as many frameworks read them.
func (r *messageRoute) fits(method, path []byte, fold bool) bool {
	if r.method != "*" && !same(r.method, string(method), fold) {
		return false
	}
	if r.leads(string(path), fold) {
		return true
	}
	if !fold {
		return false
	}
	begin, end := script(path)
	return end > 0 && (r.leads(string(path[end:]), true) || begin > 1 &&
		r.leads(string(path[:begin-1])+string(path[end:]), true))
}

func same(want, got string, fold bool) bool {
	return want == got || fold && request.EqualFold(want, got)
}

func (r *messageRoute) leads(path string, fold bool) bool {
	rest := strings.Trim(path, "/")
	for i, want := range r.segments {
		segment, after, more := strings.Cut(rest, "/")
		if fold && i == len(r.segments)-1 && !more {
			segment = withoutFormat(want, segment)
		}
		if want != "*" && !same(want, segment, fold) || want == "*" && segment == "" {
			return false
		}
		if !more && i < len(r.segments)-1 {
			return false
		}
		if i == len(r.segments)-1 {
			return !more || r.rest
		}
		rest = after
	}
	return true
}

const maxFormat = 8

// withoutFormat strips the format of a path's last segment, unless the route has one.
func withoutFormat(want, segment string) string {
	dot := strings.LastIndexByte(segment, '.')
	if dot <= 0 || len(segment)-dot-1 > maxFormat || strings.Contains(want, ".") {
		return segment
	}
	return segment[:dot]
}

// messageRoute returns the first matching route in any reading of the path; nil: none. Exact matches precede folded
// ones.
func (s *Service) messageRoute(method []byte, paths *request.Paths) *messageRoute {
	if len(s.routes) == 0 {
		return nil
	}
	for _, fold := range []bool{false, true} {
		for _, path := range paths.All() {
			if r := s.routeOf(method, path, fold); r != nil {
				return r
			}
		}
	}
	return nil
}

func (s *Service) routeOf(method, path []byte, fold bool) *messageRoute {
	for _, r := range s.routes {
		if r.fits(method, path, fold) {
			return r
		}
	}
	return nil
}

// Attributes names the attributes of the route's sources.
func (c *MessageRouteConfig) Attributes() []string {
	names := make([]string, len(c.Sources))
	for i := range c.Sources {
		names[i] = c.Sources[i].Attribute
	}
	return names
}

// GreyConfig handles texts about which the model is unsure. Empty fields get defaults.
type GreyConfig struct {
	From float64 `mapstructure:"from"` // scores from From to To are grey; both 0: none
	To   float64 `mapstructure:"to"`
	// Over are the decisions that it may replace.
	Over []string `mapstructure:"over"`

	Ask    []string `mapstructure:"ask"`    // second opinions, by the names in message.second_opinions
	Good   string   `mapstructure:"good"`   // an opinion says good, and none bad
	Bad    string   `mapstructure:"bad"`    // an opinion says bad
	Unsure string   `mapstructure:"unsure"` // no opinion
}

func (c GreyConfig) withDefaults() GreyConfig {
	if len(c.Over) == 0 {
		c.Over = []string{"OK", "UNKNOWN", "SPAM"}
	}
	c.Good, c.Bad, c.Unsure = cmp.Or(c.Good, "pass"), cmp.Or(c.Bad, "captcha"), cmp.Or(c.Unsure, "queue")
	return c
}

type grey struct {
	cfg     GreyConfig
	actions [3]verdict.RuleAction // by second.Says
}

func newGrey(c GreyConfig, bad func(format string, args ...any)) *grey {
	if c.From == 0 && c.To == 0 {
		if len(c.Ask) > 0 {
			bad("grey.to: must be given: it says about which texts second opinions are asked for")
		}
		return nil
	}
	c = c.withDefaults()
	if !(0 <= c.From && c.From < c.To && c.To <= 1) {
		bad("grey: from %v to %v is no part of 0 to 1", c.From, c.To)
	}
	g := &grey{cfg: c}
	for _, a := range []struct {
		key, value string
		says       second.Says
	}{{"good", c.Good, second.Good}, {"bad", c.Bad, second.Bad}, {"unsure", c.Unsure, second.Unsure}} {
		var ok bool
		if g.actions[a.says], ok = verdict.ParseAction(a.value); !ok {
			bad("grey.%s: %.40q is not an action", a.key, a.value)
		}
	}
	return g
}

// Seconds asks for second opinions. *second.Opinions implements it.
type Seconds interface {
	Ask(ctx context.Context, names []string, q second.Question) []second.Opinion
}

// settleGrey replaces the action of a decision if the model is unsure about the text.
func (j *moderation) settleGrey(ctx context.Context, r *messageRoute, d *message.Domain, values map[string]any,
	ruling *verdict.Ruling,
) {
	g := r.grey
	if g == nil || !slices.Contains(g.cfg.Over, ruling.Decision) {
		return
	}
	if ruling.Model == nil { // the rules used no model
		ruling.Model = modelScore(d, values)
	}
	if ruling.Model == nil || *ruling.Model < g.cfg.From || *ruling.Model > g.cfg.To {
		return
	}
	said := second.Unsure
	if len(g.cfg.Ask) > 0 && j.core.deps.Seconds != nil {
		q := second.Question{
			Service: j.svc.Name, Route: r.name, Domain: d.Path(), Score: *ruling.Model,
			Message: values, Hosts: hostsOf(values),
		}
		for _, o := range j.core.deps.Seconds.Ask(ctx, g.cfg.Ask, q) {
			said = max(said, o.Says)
			ruling.Opinions = append(ruling.Opinions, o.String())
		}
	}
	ruling.Action = g.actions[said]
	ruling.Opinions = append(ruling.Opinions, fmt.Sprintf("the model is not sure (%.3f): %s, so %s", *ruling.Model,
		said, ruling.Action))
}

func modelScore(d *message.Domain, values map[string]any) *float64 {
	text, ok := values["text"].(string)
	m, err := d.Model("model")
	if !ok || err != nil {
		return nil
	}
	score := m.Classify(message.TrimText(text)).Score
	return &score
}

var linkReaders = sync.Pool{New: func() any { return new(texts.Reader) }}

// hostsOf returns the hosts that a message links to, each once.
func hostsOf(values map[string]any) (out []string) {
	r := linkReaders.Get().(*texts.Reader)
	defer linkReaders.Put(r)
	defer r.Forget()
	for _, v := range values {
		text, ok := v.(string)
		if !ok {
			continue
		}
		for _, l := range r.Links(text) {
			if host := strings.Clone(l.Host); !slices.Contains(out, host) {
				out = append(out, host)
			}
		}
	}
	slices.Sort(out)
	return out
}
