package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"antirobot/message/inline"
	"antirobot/problem"
	"antirobot/proxy/h1"
	"antirobot/request"
)

// BodyConfig names the fields of a body that request rules see, as body.NAME. Zero fields get defaults.
type BodyConfig struct {
	Route   string          `mapstructure:"route"`    // a method and a path, as in a message route
	Fields  []inline.Source `mapstructure:"fields"`   // attribute is NAME
	MaxBody int64           `mapstructure:"max_body"` // bytes as sent
	Charset string          `mapstructure:"charset"`  // for texts that are not UTF-8 and name no charset
	Timeout time.Duration   `mapstructure:"timeout"`
}

func (c BodyConfig) withDefaults() BodyConfig {
	c.MaxBody = cmp.Or(c.MaxBody, 64<<10)
	c.Timeout = cmp.Or(c.Timeout, 2*time.Second)
	return c
}

type bodyRoute struct {
	messageRoute

	read    inline.Config
	timeout time.Duration
}

func newBodyRoute(c BodyConfig) (*bodyRoute, error) {
	c = c.withDefaults()
	b := &bodyRoute{timeout: c.Timeout, read: inline.Config{Sources: c.Fields, MaxBody: c.MaxBody, Charset: c.Charset}}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	b.parse(c.Route, bad)
	if err := b.read.Validate(); err != nil {
		bad("%s", strings.ReplaceAll(err.Error(), "sources", "fields"))
	}
	if c.MaxBody > maxRouteBody {
		bad("max_body: more than %d MiB would be kept in memory for each request", maxRouteBody>>20)
	}
	if c.Timeout < 10*time.Millisecond || c.Timeout > time.Minute {
		bad("timeout: %v is not between 10ms and 1m", c.Timeout)
	}
	return b, errors.Join(errs...)
}

func validBodies(list []BodyConfig) (errs []error) {
	for i := range list {
		if _, err := newBodyRoute(list[i]); err != nil {
			errs = append(errs, problem.At(fmt.Sprintf("bodies[%d]", i), err))
		}
	}
	return errs
}

func newBodyRoutes(list []BodyConfig) []*bodyRoute {
	routes := make([]*bodyRoute, 0, len(list))
	for i := range list {
		b, err := newBodyRoute(list[i])
		if err != nil {
			panic("BUG: a route that Validate let pass: " + err.Error())
		}
		routes = append(routes, b)
	}
	return routes
}

// bodyProblem is the field of View.Posted that says why other fields may be missing or unreliable.
const bodyProblem = "problem"

// readPosted reads the fields of the body for rules, if the request is on a route. An unreadable body is a problem that
// rules can test.
func (j *moderation) readPosted() {
	if len(j.svc.bodies) == 0 {
		return
	}
	for _, fold := range []bool{false, true} {
		for _, b := range j.svc.bodies {
			for _, path := range j.paths.All() {
				if b.fits(j.view.Method, path, fold) {
					j.readBodyOf(b)
					return
				}
			}
		}
	}
	if b := j.claimedBody(); b != nil {
		j.readBodyOf(b)
	}
}

// claimedBody returns the route of a method that the request claims; nil: none. An unreadable body may claim any.
func (j *moderation) claimedBody() *bodyRoute {
	if !j.mayClaim() {
		return nil
	}
	for _, b := range j.svc.bodies {
		for _, path := range j.paths.All() {
			if !b.fits([]byte(b.method), path, true) {
				continue
			}
			p := posted{header: j.headerValues, query: string(j.view.Query)}
			if inline.HasFields(string(j.view.Get("Content-Type"))) {
				p.body, p.err = j.x.ReadBodyBy(b.read.MaxBody, time.Now().Add(b.timeout))
			}
			methods, err := b.read.Overrides(j.input(&p))
			if p.err != nil || err != nil || slices.ContainsFunc(methods,
				func(m string) bool { return request.EqualFold(m, b.method) }) {
				return b
			}
		}
	}
	return nil
}

func (j *moderation) readBodyOf(b *bodyRoute) {
	p := posted{header: j.headerValues, query: string(j.view.Query)}
	p.body, p.err = j.x.ReadBodyBy(b.read.MaxBody, time.Now().Add(b.timeout))
	switch {
	case errors.Is(p.err, h1.ErrBodyTooLarge):
		j.post(bodyProblem, "large")
		return
	case errors.Is(p.err, h1.ErrBodyLate):
		j.post(bodyProblem, "late")
		return
	case p.err != nil:
		return // forward reports it
	}
	methods, _ := b.read.Overrides(j.input(&p)) // an error is reported below
	addClaims(j.view, methods)
	texts, err := b.read.Texts(j.input(&p))
	switch {
	case errors.Is(err, inline.ErrTooLarge):
		j.post(bodyProblem, "large")
	case err != nil:
		j.post(bodyProblem, "unreadable")
	}
	for _, t := range texts {
		if t.Several {
			j.post(bodyProblem, "several")
		}
		j.post(t.Attribute, t.Text)
	}
}

// post adds a field for rules; the first of a name counts.
func (j *moderation) post(name, value string) {
	j.view.Posted = append(j.view.Posted, request.Field{Name: []byte(name), Value: []byte(value)})
}
