package requestrules

import (
	"context"
	"slices"
	"strings"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/rules"
	"antirobot/rules/sources"
	"antirobot/rules/texts"
	"antirobot/verdict"
)

const (
	storageMemory = "storage"
	storageKept   = "store"
)

// run is the pooled Env of one run.
type run struct {
	engine  *Engine
	service string
	view    *request.View
	id      *identity.Identity
	so      verdict.Verdict
	watch   bool
	answer  *verdict.Answer
	method  []byte // its own, or a claimed one
	once    sources.Once

	run rules.Run
	env rules.Env

	subject, path []byte // made on demand
	joined        []byte // values of repeated fields
	key           []byte
}

func newRun(e *Engine) *run {
	r := &run{engine: e}
	r.once = sources.Once{Storages: r, Counters: r}
	r.env = rules.Env{Attributes: r, Storages: &r.once, Counters: &r.once, Lists: r, Places: e.deps.Places}
	return r
}

func (s *Ruleset) run(v *request.View, id *identity.Identity, vs *verdict.Settings, so verdict.Verdict,
	trace bool,
) *run {
	r, ok := s.engine.runs.Get().(*run)
	if !ok {
		panic("BUG: the pool holds something else")
	}
	r.service, r.view, r.id, r.so, r.watch = vs.Name, v, id, so, vs.Watch
	r.method = v.Method
	r.once.Begin(len(v.Claims) > 0)
	r.subject, r.path, r.joined = r.subject[:0], r.path[:0], r.joined[:0]
	r.run.Trace, r.env.MaxText = trace, s.maxInput
	return r
}

func (r *run) end() {
	r.view, r.id, r.answer, r.method = nil, nil, nil, nil
	r.engine.runs.Put(r)
}

// Attribute implements rules.Attributes.
func (r *run) Attribute(name string) (rules.Value, bool) {
	text := func(b []byte) (rules.Value, bool) {
		return rules.Value{Kind: rules.Text, Text: request.Borrow(b)}, true
	}
	switch name {
	case "method":
		return text(r.method)
	case "path":
		if len(r.path) == 0 {
			r.path = request.NormalPath(r.path, r.view.Path)
		}
		return text(r.path)
	case "rawpath":
		return text(r.view.Path)
	case "query":
		return text(r.view.Query)
	case "host":
		return text(r.view.Host)
	case "ip":
		return rules.Value{Kind: rules.IP, IP: r.id.Addr}, true
	case "ua":
		return r.header("User-Agent")
	case "subject":
		if len(r.subject) == 0 {
			s := r.id.Winner()
			r.subject = s.Append(r.subject)
		}
		return text(r.subject)
	case "service":
		return rules.Value{Kind: rules.Text, Text: r.service}, true
	case "ja4":
		return optional(r.view.JA4)
	case "h2":
		return optional(r.view.Frames)
	case "client_cert":
		return optional(r.view.Client)
	case "verdict":
		return rules.Value{Kind: rules.Text, Text: r.so.String()}, true
	}
	if r.answer != nil {
		if v, ok := r.ofAnswer(name); ok {
			return v, true
		}
	}
	if field, ok := strings.CutPrefix(name, "body."); ok {
		return r.posted(field)
	}
	if field, ok := strings.CutPrefix(name, "header."); ok {
		return r.header(field)
	}
	if cookie, ok := strings.CutPrefix(name, "cookie."); ok {
		return r.cookie(cookie)
	}
	return rules.Value{}, false
}

func optional(b []byte) (rules.Value, bool) {
	return rules.Value{Kind: rules.Text, Text: request.Borrow(b)}, len(b) > 0
}

var attributes = [...]string{
	"method", "path", "rawpath", "query", "host", "ip", "ua", "subject", "service", "verdict", "ja4", "h2",
	"client_cert",
}

// KnownAttribute reports whether requests may have such an attribute.
func KnownAttribute(name string) bool {
	kind, of, ok := strings.Cut(name, ".")
	if !ok {
		return slices.Contains(attributes[:], name)
	}
	return of != "" && (kind == "header" || kind == "cookie" || kind == "body")
}

var answerAttributes = [...]string{"status", "type", "bytes", "took"}

func (r *run) ofAnswer(name string) (rules.Value, bool) {
	a := r.answer
	number := func(n int64) rules.Value { return rules.Value{Kind: rules.Int, Int: n} }
	switch name {
	case "status":
		return number(int64(a.Status)), true
	case "type":
		return optional(a.ContentType)
	case "bytes":
		return number(a.Bytes), a.Bytes >= 0
	case "took":
		return number(a.Took.Milliseconds()), a.Took > 0
	}
	return rules.Value{}, false
}

func (r *run) posted(name string) (rules.Value, bool) {
	for i := range r.view.Posted {
		if f := &r.view.Posted[i]; string(f.Name) == name {
			return rules.Value{Kind: rules.Text, Text: request.Borrow(f.Value)}, true
		}
	}
	return rules.Value{}, false
}

// header joins repeated fields, so that it does not matter which one the service reads.
func (r *run) header(name string) (rules.Value, bool) {
	first, more := -1, false
	fields := r.view.Fields
	for i := range fields {
		if !request.EqualCGI(fields[i].Name, name) {
			continue
		}
		if first < 0 {
			first = i
		} else {
			more = true
		}
	}
	if first < 0 {
		return rules.Value{}, false
	}
	if !more {
		return rules.Value{Kind: rules.Text, Text: request.Borrow(fields[first].Value)}, true
	}
	from := len(r.joined)
	for i := first; i < len(fields); i++ {
		if request.EqualCGI(fields[i].Name, name) {
			if len(r.joined) > from {
				r.joined = append(r.joined, ", "...)
			}
			r.joined = append(r.joined, fields[i].Value...)
		}
	}
	return rules.Value{Kind: rules.Text, Text: request.Borrow(r.joined[from:])}, true
}

func (r *run) cookie(name string) (rules.Value, bool) {
	value, ok := r.view.EveryCookie(name)
	return rules.Value{Kind: rules.Text, Text: request.Borrow(value)}, ok
}

// Frequency implements rules.Storages. Each service counts on its own.
func (r *run) Frequency(ctx context.Context, storage string, key []byte, n int64, window time.Duration) (int64, error) {
	s, err := r.storage(storage)
	if err != nil {
		return 0, err
	}
	if r.watch {
		n = 0
	}
	return s.Incr(ctx, r.ofService(key), n, window)
}

// Draw implements rules.Storages.
func (r *run) Draw(ctx context.Context, storage string, key []byte, b rules.Bucket) (time.Duration, error) {
	s, err := r.storage(storage)
	if err != nil {
		return 0, err
	}
	return s.Draw(ctx, r.ofService(key), b, !r.watch)
}

func (r *run) ofService(key []byte) []byte {
	r.key = append(append(append(r.key[:0], r.service...), 0), key...)
	return r.key
}

func (r *run) storage(name string) (sources.Storage, error) {
	switch name {
	case storageMemory:
		return r.engine.memory, nil
	case storageKept:
		return r.engine.kept, nil
	}
	return nil, rules.Faultf(rules.CodeProperty, "requests have no storage %.64q: %s is in memory, %s in the store",
		name, storageMemory, storageKept)
}

// Listed implements rules.ListSource.
func (r *run) Listed(_ context.Context, list string, v rules.Value) (bool, error) {
	return sources.Listed(r.engine.deps.Lists, list, v, r.service, r.view.At), nil
}

// Texts implements rules.ListSource.
func (r *run) Texts(list string) *texts.Set { return r.engine.deps.Lists.Texts(list, r.service) }

// Count implements rules.CounterSource.
func (r *run) Count(ctx context.Context, u rules.CounterUse) (n, of uint64, err error) {
	if r.watch && !u.Op.Reads() {
		return 0, 0, nil
	}
	return r.engine.deps.Counters.Count(ctx, u)
}
