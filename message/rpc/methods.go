package rpc

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"antirobot/message"
	"antirobot/rules"
)

type paramKind uint8

const (
	kindAny paramKind = iota
	kindString
	kindBool
	kindStruct
	kindTime
	kindNumber
)

type paramSpec struct {
	name     string
	kind     paramKind
	optional bool
}

type method struct {
	params []paramSpec
	result []string
	open   bool
	run    func(c *call, ctx context.Context) (map[string]any, error)
}

type call struct {
	server *Server
	params map[string]any
	domain *message.Domain
}

func (c *call) text(name string) string {
	s, _ := c.params[name].(string)
	return s
}

func (c *call) textOr(name, otherwise string) string {
	if s, ok := c.params[name].(string); ok {
		return s
	}
	return otherwise
}

func methods() map[string]*method {
	firewall := paramSpec{name: "firewall", kind: kindString}
	text := paramSpec{name: "rules", kind: kindString}
	model := paramSpec{name: "model", kind: kindString}
	posted := paramSpec{name: "message", kind: kindStruct}
	attribute := paramSpec{name: "text_attribute", kind: kindString, optional: true}
	return map[string]*method{
		"sf.info.version": {result: []string{"version"}, open: true, run: (*call).version},
		"sf.domain.list":  {result: []string{"properties"}, run: (*call).list},
		"sf.domain.get": {
			params: []paramSpec{{name: "name", kind: kindString}},
			result: []string{"repr", "classname", "interfaces"}, run: (*call).get,
		},
		"sf.domain.children": {result: []string{"children"}, run: (*call).children},
		"sf.message.input": {
			params: []paramSpec{posted, {name: "debug", kind: kindBool, optional: true}},
			result: []string{"result"}, run: (*call).input,
		},
		"sf.message.firewall.rules.get": {
			params: []paramSpec{firewall}, result: []string{"rules"},
			run: (*call).getRules,
		},
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
		"sf.model.classify": {
			params: []paramSpec{model, posted, attribute}, result: []string{"marker"},
			run: (*call).classify,
		},
		"sf.model.train": {
			params: []paramSpec{model, posted, {name: "marker", kind: kindString}, attribute},
			run:    (*call).train,
		},
	}
}

func (c *call) version(context.Context) (map[string]any, error) {
	return map[string]any{"version": c.server.deps.Version}, nil
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
		return nil, message.NoProperty(c.text("name"))
	}
	repr, class, interfaces := message.Describe(c.text("name"), p)
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
	o, err := c.server.deps.System.Judge(ctx, c.domain, values, debug)
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
	f, err := c.domain.Firewall(c.text("firewall"))
	if err != nil {
		return nil, err
	}
	return map[string]any{"rules": f.Rules()}, nil
}

func (c *call) setRules(ctx context.Context) (map[string]any, error) {
	result, err := c.checkRules(ctx)
	if err != nil {
		return nil, err
	}
	return result, c.server.deps.System.SetRules(ctx, c.domain, c.text("firewall"), c.text("rules"))
}

func (c *call) checkRules(context.Context) (map[string]any, error) {
	warnings, err := c.server.deps.System.CheckRules(c.domain, c.text("firewall"), c.text("rules"))
	if err != nil {
		return nil, err
	}
	if len(warnings) == 0 {
		return map[string]any{}, nil
	}
	return map[string]any{"warnings": texts(warnings)}, nil
}

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
	r := message.Range{First: bound(c.params["first"], false), Last: bound(c.params["last"], true)}
	r.FirstID, _ = wholeNumber(c.params["firstID"])
	entries, err := c.server.deps.System.Fetch(ctx, c.domain, c.text("log"), r)
	if err != nil {
		return nil, err
	}
	out := make([]any, len(entries))
	for i, e := range entries {
		entry := map[string]any{"id": e.ID, "when": e.When.Unix(), "tags": texts(e.Tags), "message": e.Message.Values()}
		if o := e.Opinion; o != nil {
			entry["score"], entry["by"], entry["reasons"] = o.Score, o.By, texts(o.Reasons)
		}
		out[i] = entry
	}
	return map[string]any{"entries": out}, nil
}

func (c *call) sample() (*message.Model, string, error) {
	m, err := c.domain.Model(c.text("model"))
	if err != nil {
		return nil, "", err
	}
	values, _ := c.params["message"].(map[string]any)
	sample, err := c.domain.Read(values)
	if err != nil {
		return nil, "", err
	}
	name := c.textOr("text_attribute", "text")
	v, ok := sample.Attribute(name)
	if !ok {
		return nil, "", rules.Faultf(message.CodeAttribute, "the message has no attribute %q", rules.Clip(name, 64))
	}
	if v.Kind != rules.Text {
		return nil, "", rules.Faultf(message.CodeType, "the attribute %s is of type %s, not Text", name, v.Kind)
	}
	return m, v.Text, nil
}

func (c *call) classify(context.Context) (map[string]any, error) {
	m, text, err := c.sample()
	if err != nil {
		return nil, err
	}
	o := m.Classify(text)
	marker := "good"
	if o.Bad() {
		marker = "bad"
	}
	return map[string]any{"marker": marker, "score": o.Score, "by": o.By, "reasons": texts(o.Reasons)}, nil
}

func (c *call) train(ctx context.Context) (map[string]any, error) {
	m, text, err := c.sample()
	if err != nil {
		return nil, err
	}
	good, err := rules.TrainsGood(c.text("marker"))
	if err != nil {
		return nil, err
	}
	return map[string]any{}, c.server.deps.System.Train(ctx, m, text, good)
}

// Auth is a name and secret given outside of the request (HTTP basic authentication).
type Auth struct{ Name, Secret string }

func (s *Server) invoke(ctx context.Context, name string, params map[string]any, auth Auth) (result map[string]any,
	err error,
) {
	m, ok := s.methods[name]
	if !ok {
		s.refused.Inc()
		return nil, rules.Faultf(message.CodeCommand, "there is no command %q", rules.Clip(name, 64))
	}
	c := &call{server: s, params: params}
	if err := m.check(params); err != nil {
		s.refused.Inc()
		return nil, err
	}
	if !m.open {
		partner, err := s.partnerOf(params["partner"], auth)
		if err != nil {
			s.refused.Inc()
			return nil, err
		}
		if c.domain, err = s.deps.System.Domain(partner, c.text("domain")); err != nil {
			if root, wrong := s.deps.System.Domain(partner, ""); wrong == nil {
				root.Requested(name)
			}
			return nil, err
		}
		c.domain.Requested(name)
	}
	if result, err = m.run(c, ctx); err != nil {
		return nil, err
	}
	for _, field := range m.result {
		if _, ok := result[field]; !ok {
			return nil, rules.Faultf(message.CodeResult, "the field %s of the result is missing", field)
		}
	}
	return result, nil
}

func (m *method) check(params map[string]any) error {
	specs := append([]paramSpec{
		{name: "partner", optional: m.open},
		{name: "domain", kind: kindString, optional: true},
	}, m.params...)
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if !slices.ContainsFunc(specs, func(s paramSpec) bool { return s.name == name }) {
			return rules.Faultf(message.CodeUnknown, "there is no parameter %q", rules.Clip(name, 64))
		}
	}
	for _, s := range specs {
		if v, ok := params[s.name]; ok && !s.fits(v) && (!s.optional || v != nil) {
			return rules.Faultf(message.CodeType, "the parameter %s is %s", s.name, message.TypeName(v))
		}
	}
	for _, s := range specs {
		if _, ok := params[s.name]; !ok && !s.optional {
			return rules.Faultf(message.CodeMissing, "the parameter %s is missing", s.name)
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

// partnerOf returns the calling partner. With keys, the parameter is {"name", "secret"}, or null with Auth.
func (s *Server) partnerOf(param any, auth Auth) (string, error) {
	refused := rules.Faultf(message.CodeAuthorisation, "not authorised")
	if partner, ok := s.deps.System.Trusted(); ok {
		if param != nil {
			return "", refused
		}
		return partner, nil
	}
	name, secret := auth.Name, auth.Secret
	if param != nil {
		fields, ok := param.(map[string]any)
		if !ok || len(fields) != 2 {
			return "", refused
		}
		name, ok = fields["name"].(string)
		if !ok {
			return "", refused
		}
		if secret, ok = fields["secret"].(string); !ok {
			return "", refused
		}
	}
	if !s.deps.System.Authorised(name, secret) {
		return "", refused
	}
	return name, nil
}

func (s *Server) faultOf(name string, err error) *rules.Fault {
	var f *rules.Fault
	if !errors.As(err, &f) {
		s.deps.Log.Error().Err(err).Str("method", name).Msg("message API request failed")
		f = rules.Faultf(message.CodeUnexpected, "unexpected error")
	}
	if c, ok := s.failed[f.Code]; ok {
		c.Inc()
	}
	return f
}

func wholeNumber(v any) (int64, bool) {
	switch n := v.(type) {
	case int64:
		return n, true
	case float64:
		if n == math.Trunc(n) && math.Abs(n) < 1<<53 {
			return int64(n), true
		}
	}
	return 0, false
}
