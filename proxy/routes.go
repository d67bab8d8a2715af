package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"antirobot/message/inline"
	"antirobot/problem"
	"antirobot/request"
	"antirobot/verdict"
)

// MessagesConfig is the messages section of a service: the routes on which people post.
type MessagesConfig struct {
	Routes []MessageRouteConfig `mapstructure:"routes"`
}

// MessageRouteConfig is one route whose messages are judged before the service sees them. Empty or zero fields get the
// defaults of withDefaults.
type MessageRouteConfig struct {
	// Route is a method and a path, such as POST /comments. The method may be *. In the path * stands for one segment
	// and ** at the end for the rest.
	Route   string `mapstructure:"route"`
	Partner string `mapstructure:"partner"` // of the message firewall; empty: the only one
	Domain  string `mapstructure:"domain"`  // path of the partner's domain that judges

	Sources []inline.Source `mapstructure:"sources"`
	MaxBody int64           `mapstructure:"max_body"` // bytes as sent
	Charset string          `mapstructure:"charset"`  // for texts that are not UTF-8 and name no charset
	Timeout time.Duration   `mapstructure:"timeout"`  // for reading the body and judging it

	// Answers says what each decision leads to, Otherwise what any decision not listed there leads to.
	Answers   []verdict.AnswerConfig `mapstructure:"answers"`
	Otherwise string                 `mapstructure:"otherwise"`
	// What follows where there is no decision.
	Missing    string `mapstructure:"missing"`    // an attribute is missing
	TooLarge   string `mapstructure:"too_large"`  // the body is too large
	Unreadable string `mapstructure:"unreadable"` // it does not match its type, or has an unknown encoding
	OnTimeout  string `mapstructure:"on_timeout"` // it did not arrive, or was not judged, in time
	OnError    string `mapstructure:"on_error"`   // the rules failed, or the message firewall is unavailable
	QueueFull  string `mapstructure:"queue_full"` // the message was to wait for a person, and the queue does not take it

	Grey GreyConfig `mapstructure:"grey"` // texts about which the model is not sure

	// Approved is where a message of the queue goes that a person approved: "service", or the URL of a webhook.
	Approved string `mapstructure:"approved"`

	Trace bool `mapstructure:"trace"` // keep with each decision what every statement did
}

// withDefaults fills in the fields that a route leaves empty.
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

// maxRouteBody bounds what a route may keep in memory for each request in progress.
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

// messageRoute is a route prepared for use. It is immutable.
type messageRoute struct {
	name     string // as configured
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
	grey       *grey  // nil: no text is grey
	webhook    string // empty: what a person approved goes to the service
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

// approvedService is where approved messages go unless a webhook is named.
const approvedService = "service"

// Webhook returns the URL that approved messages of the route are posted to; empty: the service gets them.
func (c *MessageRouteConfig) Webhook() string {
	if c.Approved == approvedService {
		return ""
	}
	return c.Approved
}

// parse reads the method and the path of a route.
func (r *messageRoute) parse(route string, bad func(format string, args ...any)) {
	var path string
	var ok bool
	if r.method, path, ok = strings.Cut(route, " "); !ok || !strings.HasPrefix(path, "/") || r.method == "" || strings.ToUpper(r.method) != r.method {
		bad("route: %q is no method and path such as POST /comments", route)
	}
	path, r.rest = strings.CutSuffix(path, "/**")
	r.segments = strings.Split(strings.Trim(path, "/"), "/")
	if strings.Contains(path, "**") || strings.ContainsAny(path, "?# ") {
		bad("route: in the path of %q, * stands for one segment and ** at the end for the rest", route)
	}
}

// newMessageRoutes makes the routes of a configuration that Validate has found good.
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

// fits reports whether the route matches a method and one reading of a path; with fold, in any case, behind a front controller
// (/index.php/comments) and with a format (/comments.json), since many frameworks take these for the same.
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
	return end > 0 && (r.leads(string(path[end:]), true) || begin > 1 && r.leads(string(path[:begin-1])+string(path[end:]), true))
}

func same(want, got string, fold bool) bool {
	return want == got || fold && request.EqualFold(want, got)
}

// leads reports whether the path of the route matches.
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

// maxFormat is the length of the longest format that a path may end in.
const maxFormat = 8

// withoutFormat returns a path's last segment without the format that it ends in, unless one is wanted.
func withoutFormat(want, segment string) string {
	dot := strings.LastIndexByte(segment, '.')
	if dot <= 0 || len(segment)-dot-1 > maxFormat || strings.Contains(want, ".") {
		return segment
	}
	return segment[:dot]
}

// messageRoute returns the first route of the service that matches the request in any reading of its path; nil for none.
// Many services ignore the case of paths, and some that of methods: a route in another case matches where none fits exactly, and so
// does one that differs in what fits says.
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

// routeOf returns the first route that matches a method and a path; nil for none.
func (s *Service) routeOf(method, path []byte, fold bool) *messageRoute {
	for _, r := range s.routes {
		if r.fits(method, path, fold) {
			return r
		}
	}
	return nil
}

// Attributes names the attributes that the route's sources read, one for each source.
func (c *MessageRouteConfig) Attributes() []string {
	names := make([]string, len(c.Sources))
	for i := range c.Sources {
		names[i] = c.Sources[i].Attribute
	}
	return names
}
