package rpc

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"

	"antirobot/message"
	"antirobot/rules"
)

// Auth is what a caller showed outside of the request, as HTTP's basic authentication does.
type Auth struct{ Name, Secret string }

// invoke checks a request against its method and runs it.
func (s *Server) invoke(ctx context.Context, name string, params map[string]any, auth Auth) (result map[string]any, err error) {
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

// check looks at the parameters: unknown ones first, then types, then what is missing.
func (m *method) check(params map[string]any) error {
	specs := append([]paramSpec{{name: "partner", optional: m.open}, {name: "domain", kind: kindString, optional: true}}, m.params...)
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

// partnerOf returns the partner that calls. With keys, the parameter is {"name": …, "secret": …}, or null if the caller showed name and
// secret outside of the request.
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

// faultOf returns what a caller is told of an error. What is not a fault is logged and stays inside.
func (s *Server) faultOf(name string, err error) *rules.Fault {
	var f *rules.Fault
	if !errors.As(err, &f) {
		s.deps.Log.Error().Err(err).Str("method", name).Msg("a request of the message API did not work")
		f = rules.Faultf(message.CodeUnexpected, "unexpected error")
	}
	if c, ok := s.failed[f.Code]; ok {
		c.Inc()
	}
	return f
}

// wholeNumber turns a decoded number into an int64 if it is one.
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
