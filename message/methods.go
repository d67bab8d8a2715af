package message

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/rules"
)

// paramKind is the type of a parameter of the API.
type paramKind uint8

const (
	kindAny paramKind = iota
	kindString
	kindBool
	kindStruct
	kindTime   // seconds since 1970, whole or not
	kindNumber // a whole number
)

type paramSpec struct {
	name     string
	kind     paramKind
	optional bool
}

// method is a command of the API.
type method struct {
	params []paramSpec
	result []string // the fields that the result must have
	open   bool     // needs no partner
	run    func(c *call, ctx context.Context) (map[string]any, error)
}

// call is one request: its checked parameters and what they lead to.
type call struct {
	system *System
	params map[string]any
	domain *Domain
}

func (c *call) text(name string) string {
	s, _ := c.params[name].(string)
	return s
}

// textOr returns a text parameter, or what it is if it was not given.
func (c *call) textOr(name, otherwise string) string {
	if s, ok := c.params[name].(string); ok {
		return s
	}
	return otherwise
}

// methods returns all commands of the API.
func methods() map[string]*method {
	firewall := paramSpec{name: "firewall", kind: kindString}
	text := paramSpec{name: "rules", kind: kindString}
	model := paramSpec{name: "model", kind: kindString}
	message := paramSpec{name: "message", kind: kindStruct}
	attribute := paramSpec{name: "text_attribute", kind: kindString, optional: true}
	return map[string]*method{
		"sf.info.version":    {result: []string{"version"}, open: true, run: (*call).version},
		"sf.domain.list":     {result: []string{"properties"}, run: (*call).list},
		"sf.domain.get":      {params: []paramSpec{{name: "name", kind: kindString}}, result: []string{"repr", "classname", "interfaces"}, run: (*call).get},
		"sf.domain.children": {result: []string{"children"}, run: (*call).children},
		"sf.message.input": {
			params: []paramSpec{message, {name: "debug", kind: kindBool, optional: true}},
			result: []string{"result"}, run: (*call).input,
		},
		"sf.message.firewall.rules.get":   {params: []paramSpec{firewall}, result: []string{"rules"}, run: (*call).getRules},
		"sf.message.firewall.rules.set":   {params: []paramSpec{firewall, text}, run: (*call).setRules},
		"sf.message.firewall.rules.check": {params: []paramSpec{firewall, text}, run: (*call).checkRules},
		"sf.message.log.fetch": {
			params: []paramSpec{
				{name: "log", kind: kindString},
				{name: "first", kind: kindTime, optional: true},
				{name: "last", kind: kindTime, optional: true},
				{name: "firstID", kind: kindNumber, optional: true},
			},
			result: []string{"entries"}, run: (*call).fetch,
		},
		"sf.model.classify": {params: []paramSpec{model, message, attribute}, result: []string{"marker"}, run: (*call).classify},
		"sf.model.train":    {params: []paramSpec{model, message, {name: "marker", kind: kindString}, attribute}, run: (*call).train},
	}
}

func (c *call) version(context.Context) (map[string]any, error) {
	return map[string]any{"version": c.system.deps.Version}, nil
}

func (c *call) list(context.Context) (map[string]any, error) {
	return map[string]any{"properties": texts(c.domain.List())}, nil
}

func (c *call) children(context.Context) (map[string]any, error) {
	return map[string]any{"children": texts(c.domain.Children())}, nil
}

func (c *call) get(context.Context) (map[string]any, error) {
	p, ok := c.domain.Get(c.text("name"))
	if !ok {
		return nil, noProperty(c.text("name"))
	}
	repr, class, interfaces := describe(c.text("name"), p)
	return map[string]any{"repr": repr, "classname": class, "interfaces": texts(interfaces)}, nil
}

func texts(s []string) []any {
	out := make([]any, len(s))
	for i := range s {
		out[i] = s[i]
	}
	return out
}

func (c *call) input(ctx context.Context) (map[string]any, error) {
	values, _ := c.params["message"].(map[string]any)
	debug, _ := c.params["debug"].(bool)
	o, err := c.system.Judge(ctx, c.domain, values, debug)
	if err != nil {
		return nil, err
	}
	result := map[string]any{"result": o.Decision}
	if debug {
		result["log"] = o.Log
	}
	return result, nil
}

func (c *call) getRules(context.Context) (map[string]any, error) {
	f, err := c.domain.firewall(c.text("firewall"))
	if err != nil {
		return nil, err
	}
	return map[string]any{"rules": f.Rules()}, nil
}

func (c *call) setRules(ctx context.Context) (map[string]any, error) {
	return map[string]any{}, c.system.setRules(ctx, c.domain, c.text("firewall"), c.text("rules"))
}

func (c *call) checkRules(context.Context) (map[string]any, error) {
	f, err := c.domain.firewall(c.text("firewall"))
	if err != nil {
		return nil, err
	}
	return map[string]any{}, f.Check(c.text("rules"))
}

// bound turns seconds into a bound. Entries tell whole seconds, so a whole one means all of it.
func bound(v any, last bool) time.Time {
	switch n := v.(type) {
	case int64:
		n = max(0, min(n, math.MaxInt64/int64(time.Second)-1))
		if last {
			return time.Unix(n+1, -1)
		}
		return time.Unix(n, 0)
	case float64:
		n = max(0, min(n, math.MaxInt64/float64(time.Second)-1))
		whole, fraction := math.Modf(n)
		if fraction == 0 {
			return bound(int64(whole), last)
		}
		return time.Unix(int64(whole), int64(fraction*float64(time.Second)))
	default:
		return time.Time{}
	}
}

func (c *call) fetch(ctx context.Context) (map[string]any, error) {
	l, err := c.domain.log(c.text("log"))
	if err != nil {
		return nil, err
	}
	r := Range{First: bound(c.params["first"], false), Last: bound(c.params["last"], true), Limit: c.system.cfg.MaxFetch}
	r.FirstID, _ = wholeNumber(c.params["firstID"])
	entries, err := l.Fetch(ctx, r)
	if err != nil {
		return nil, err
	}
	out := make([]any, len(entries))
	for i, e := range entries {
		out[i] = map[string]any{"id": e.ID, "when": e.When.Unix(), "tags": texts(e.Tags), "message": e.Message.Values()}
	}
	return map[string]any{"entries": out}, nil
}

// sample returns the model and the text that a request is about.
func (c *call) sample() (*Model, string, error) {
	m, err := c.domain.model(c.text("model"))
	if err != nil {
		return nil, "", err
	}
	kind, err := c.domain.messages()
	if err != nil {
		return nil, "", err
	}
	values, _ := c.params["message"].(map[string]any)
	message, err := kind.read(values)
	if err != nil {
		return nil, "", err
	}
	name := c.textOr("text_attribute", "text")
	v, ok := message.Attribute(name)
	if !ok {
		return nil, "", rules.Faultf(CodeAttribute, "the message has no attribute %q", cutText(name, 64))
	}
	if v.Kind != rules.Text {
		return nil, "", rules.Faultf(CodeType, "the attribute %s is of type %s, not Text", name, v.Kind)
	}
	return m, v.Text, nil
}

func (c *call) classify(context.Context) (map[string]any, error) {
	m, text, err := c.sample()
	if err != nil {
		return nil, err
	}
	marker := "bad"
	if m.Good(text) {
		marker = "good"
	}
	return map[string]any{"marker": marker}, nil
}

func (c *call) train(ctx context.Context) (map[string]any, error) {
	m, text, err := c.sample()
	if err != nil {
		return nil, err
	}
	return map[string]any{}, c.system.train(ctx, m, text, c.text("marker") == "good")
}

// Auth is what a caller showed outside of the request, as HTTP's basic authentication does.
type Auth struct{ Name, Secret string }

// invoke checks a request against its method and runs it.
func (s *System) invoke(ctx context.Context, name string, params map[string]any, auth Auth) (result map[string]any, err error) {
	m, ok := s.methods[name]
	if !ok {
		s.refused.Inc()
		return nil, rules.Faultf(CodeCommand, "there is no command %q", cutText(name, 64))
	}
	c := &call{system: s, params: params}
	if err := m.check(params); err != nil {
		s.refused.Inc()
		return nil, err
	}
	if !m.open {
		p, err := s.partnerOf(params["partner"], auth)
		if err != nil {
			s.refused.Inc()
			return nil, err
		}
		if c.domain, err = s.Domain(p.name, c.text("domain")); err != nil {
			p.root.requests[name].Inc()
			return nil, err
		}
		c.domain.requests[name].Inc()
	}
	if result, err = m.run(c, ctx); err != nil {
		return nil, err
	}
	for _, field := range m.result {
		if _, ok := result[field]; !ok {
			return nil, rules.Faultf(CodeResult, "the field %s of the result is missing", field)
		}
	}
	return result, nil
}

// check looks at the parameters: unknown ones first, then types, then what is missing.
func (m *method) check(params map[string]any) error {
	specs := append([]paramSpec{{name: "partner", optional: m.open}, {name: "domain", kind: kindString, optional: true}}, m.params...)
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if !slices.ContainsFunc(specs, func(s paramSpec) bool { return s.name == name }) {
			return rules.Faultf(CodeUnknown, "there is no parameter %q", cutText(name, 64))
		}
	}
	for _, s := range specs {
		if v, ok := params[s.name]; ok && !s.fits(v) && (!s.optional || v != nil) {
			return rules.Faultf(CodeType, "the parameter %s is %s", s.name, typeName(v))
		}
	}
	for _, s := range specs {
		if _, ok := params[s.name]; !ok && !s.optional {
			return rules.Faultf(CodeMissing, "the parameter %s is missing", s.name)
		}
	}
	return nil
}

func (s paramSpec) fits(v any) bool {
	ok := true
	switch s.kind {
	case kindString:
		_, ok = v.(string)
	case kindBool:
		_, ok = v.(bool)
	case kindStruct:
		_, ok = v.(map[string]any)
	case kindNumber:
		_, ok = wholeNumber(v)
	case kindTime:
		_, whole := v.(int64)
		f, fraction := v.(float64)
		ok = whole || fraction && !math.IsNaN(f)
	}
	return ok
}

// partnerOf says who calls. With keys, the parameter is {"name": …, "secret": …}, or null if the caller showed name and
// secret outside of the request.
func (s *System) partnerOf(param any, auth Auth) (*partner, error) {
	refused := rules.Faultf(CodeAuthorisation, "not authorised")
	if s.trusted != nil {
		if param != nil {
			return nil, refused
		}
		return s.trusted, nil
	}
	name, secret := auth.Name, auth.Secret
	if param != nil {
		fields, ok := param.(map[string]any)
		if !ok || len(fields) != 2 {
			return nil, refused
		}
		name, ok = fields["name"].(string)
		if !ok {
			return nil, refused
		}
		if secret, ok = fields["secret"].(string); !ok {
			return nil, refused
		}
	}
	p, ok := s.authorise(name, secret)
	if !ok {
		return nil, refused
	}
	return p, nil
}

// faultOf returns what a caller is told of an error. What is not a fault is logged and stays inside.
func (s *System) faultOf(name string, err error) *rules.Fault {
	var f *rules.Fault
	if !errors.As(err, &f) {
		s.deps.Log.Error().Err(err).Str("method", name).Msg("a request of the message API did not work")
		f = rules.Faultf(CodeUnexpected, "unexpected error")
	}
	if c, ok := s.failed[f.Code]; ok {
		c.Inc()
	}
	return f
}

// measure makes the metrics.
func (s *System) measure() {
	set := s.deps.Metrics
	if set == nil {
		set = metrics.NewSet()
		s.deps.Metrics = set
	}
	s.refused = set.GetOrCreateCounter(`antirobot_message_refused_total`)
	s.failed = make(map[int]*metrics.Counter)
	for _, code := range []int{
		CodeMissing, CodeCommand, CodeUnknown, CodeType, CodeAuthorisation, CodeDomain, CodeProperty, rules.CodeLabel,
		CodeModel, CodeAttribute, CodeFirewall, CodeSyntax, CodeLog, CodeUnexpected, CodeResult,
	} {
		s.failed[code] = set.GetOrCreateCounter(fmt.Sprintf(`antirobot_message_errors_total{code="%d"}`, code))
	}
}

// requestCounters returns the counters of a domain's requests, by method.
func (s *System) requestCounters(d *Domain) map[string]*metrics.Counter {
	out := make(map[string]*metrics.Counter, len(s.methods))
	for _, name := range append(slices.Collect(maps.Keys(s.methods)), methodInline) {
		out[name] = s.deps.Metrics.GetOrCreateCounter(fmt.Sprintf(`antirobot_message_requests_total{partner=%q,domain=%q,method=%q}`, d.partner, d.path, name))
	}
	return out
}

// Usage is how often a partner called a method on a domain since the start.
type Usage struct {
	Partner  string `json:"partner"`
	Domain   string `json:"domain"`
	Method   string `json:"method"`
	Requests uint64 `json:"requests"`
}

// Usage returns the requests of all partners, without those that never came.
func (s *System) Usage() []Usage {
	var out []Usage
	for _, name := range slices.Sorted(maps.Keys(s.partners)) {
		_ = s.partners[name].root.walk(func(d *Domain) error {
			for _, m := range slices.Sorted(maps.Keys(d.requests)) {
				if n := d.requests[m].Get(); n > 0 {
					out = append(out, Usage{name, d.path, m, n})
				}
			}
			return nil
		})
	}
	return out
}
