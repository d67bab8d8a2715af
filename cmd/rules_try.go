package cmd

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/message"
	"antirobot/proxy"
	"antirobot/request"
	"antirobot/rules"
	"antirobot/rules/requestrules"
	"antirobot/rules/sources"
	"antirobot/store"
	"antirobot/verdict"
	"antirobot/verdict/counter"
)

// surroundings are the storages and sources that rules use, all empty and discarded afterwards.
type surroundings struct {
	store    *store.Memory
	shingler *counter.Shingler
	lists    *cbb.Lists
}

func newSurroundings() (*surroundings, error) {
	s := &surroundings{store: store.NewMemory(nil)}
	cfg := counter.DefaultConfig()
	cfg.CacheBytes, cfg.MaxBuffered = 4<<20, 1<<12
	var err error
	if s.shingler, err = counter.New(cfg, counter.Deps{
		Store: store.NewMemoryCounters(),
		Log:   zerolog.Nop(),
	}); err != nil {
		return nil, err
	}
	lists := cbb.DefaultConfig()
	lists.Crawlers.Enabled = false
	s.lists, err = cbb.New(lists, cbb.Deps{KV: s.store, Feed: s.store, Log: zerolog.Nop()})
	return s, err
}

func (s *surroundings) close() {
	_ = s.shingler.Close() // nothing of it is kept
	_ = s.store.Close()
}

// judgeOnce judges a message in a system that is discarded afterwards.
func judgeOnce(ctx context.Context, text string, formulas *sources.Formulas, places rules.Places, values map[string]any,
	trace bool,
) (message.Outcome, error) {
	cfg := message.DefaultConfig()
	partner := &cfg.Partners[0]
	for i := range partner.Domain.Properties {
		if p := &partner.Domain.Properties[i]; p.Class == message.ClassFirewall {
			p.Rules = text
		}
	}
	around, err := newSurroundings()
	if err != nil {
		return message.Outcome{}, err
	}
	defer around.close()
	s, err := message.New(cfg, message.Deps{
		Store: around.store, Log: zerolog.Nop(), Counters: sources.NewCounters(around.shingler, nil),
		Lists: sources.NewLists(around.lists, nil), Formulas: formulas, Places: places,
	})
	if err == nil {
		err = s.Start(ctx)
	}
	if err != nil {
		return message.Outcome{}, err
	}
	defer func() { _ = s.Close() }() // nothing of it is kept
	d, err := s.Domain(partner.Name, "")
	if err != nil {
		return message.Outcome{}, err
	}
	return s.Judge(ctx, d, values, trace)
}

// triedRequest is a request as the command line describes it.
type triedRequest struct {
	line, host, ip, subject, service, verdict string
	headers                                   []string
}

func (r *triedRequest) view() (*request.View, *identity.Identity, error) {
	method, target, ok := strings.Cut(r.line, " ")
	if !ok || !strings.HasPrefix(target, "/") {
		return nil, nil, misused("--request %.60s: write 'METHOD /path?query'", r.line)
	}
	path, query, _ := strings.Cut(target, "?")
	v := &request.View{
		At: time.Now(), Method: []byte(method), Target: []byte(target), Path: []byte(path), Query: []byte(query),
		Host: request.HostName([]byte(r.host)), HostPort: []byte(r.host),
	}
	for _, h := range r.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok || name == "" {
			return nil, nil, misused("--header %.60s: write 'Name: value'", h)
		}
		v.Fields = append(v.Fields, request.Field{Name: []byte(name), Value: []byte(strings.TrimSpace(value))})
	}
	proxy.ReadClaims(v)
	addr, err := netip.ParseAddr(r.ip)
	if err != nil {
		return nil, nil, misused("--ip: %.60q is not an address", r.ip)
	}
	id := &identity.Identity{Addr: addr.Unmap(), Net: identity.NetOf(addr.Unmap()), N: 1}
	id.Subjects[0] = identity.AddrSubject(id.Addr)
	if r.subject != "" {
		s, err := identity.ParseSubject(r.subject)
		if err != nil {
			return nil, nil, misused("--subject: %w", err)
		}
		id.Subjects[1], id.Subjects[0], id.N = id.Subjects[0], s, 2
	}
	return v, id, nil
}

// judge judges the request by rules in surroundings that are discarded afterwards.
func (r *triedRequest) judge(text string, formulas *sources.Formulas, places rules.Places, trace bool,
) (o message.Outcome, err error) {
	v, id, err := r.view()
	if err != nil {
		return o, err
	}
	so := verdict.Human
	switch r.verdict {
	case "human":
	case "robot":
		so = verdict.Robot
	default:
		return o, misused("--verdict: %.60q is neither human nor robot", r.verdict)
	}
	around, err := newSurroundings()
	if err != nil {
		return o, err
	}
	defer around.close()
	engine := requestrules.New(requestrules.Deps{
		Store: around.store, Counters: sources.NewCounters(around.shingler, nil), Lists: around.lists,
		Log: zerolog.Nop(), Metrics: metrics.NewSet(), Places: places,
	})
	cfg := requestrules.DefaultServiceConfig()
	cfg.Text, cfg.Time = text, 10*time.Second
	s, err := engine.Ruleset(r.service, cfg, &requestrules.Names{Formulas: formulas})
	if err != nil {
		var wrong *rules.SyntaxError
		if errors.As(err, &wrong) {
			return o, wrong
		}
		return o, err
	}
	if s == nil {
		return message.Outcome{Decision: rules.Unknown}, nil
	}
	got := s.Trace(v, id, &verdict.Settings{Name: r.service}, so)
	if trace {
		o.Log = got.Trace
	}
	if got.Failed != "" {
		return o, errors.New(got.Failed)
	}
	o.Decision, o.Score, o.Tags = got.Decision, got.Score, got.AppendTags(nil)
	return o, nil
}
