package message

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"antirobot/rules"
	"antirobot/rules/sources"
)

func (s *System) ruleOptions() rules.Options {
	o := rules.DefaultOptions()
	o.Now = s.deps.Now
	o.Time = rulesTime
	o.Parts = rules.PartStorages | rules.PartModels | rules.PartLogs
	if s.deps.Counters != nil {
		o.Parts |= rules.PartCounters
	}
	if s.deps.Lists != nil {
		o.Parts |= rules.PartLists
	}
	if s.deps.Formulas != nil {
		o.Parts |= rules.PartFormulas
		o.Formulas = s.deps.Formulas
	}
	return o
}

func (s *System) defaultDomain() *Domain {
	d := newDomain(nil, "", "")
	d.put(propertyMessageDomain, &messageDomain{defaultAttributes()})
	d.put(propertyAnalyzer, newFirewall(s.deps.Store, nil, s.options))
	return d
}

func componentKey(d *Domain, property string) string {
	return "message/" + d.partner + ":" + d.path + ":" + property + "/"
}

func (s *System) build(ctx context.Context, d *Domain, cfg DomainConfig) error {
	d.set = s.deps.Metrics
	for _, p := range cfg.Properties {
		value, err := s.component(ctx, d, p.withDefaults())
		if err != nil {
			return err
		}
		d.put(p.Name, value)
	}
	if err := s.ownFirewalls(ctx, d); err != nil {
		return err
	}
	for _, sub := range cfg.Domains {
		if err := s.build(ctx, newDomain(d, d.partner, sub.Name), sub); err != nil {
			return err
		}
	}
	return nil
}

func (s *System) component(ctx context.Context, d *Domain, p PropertyConfig) (any, error) {
	key := componentKey(d, p.Name)
	switch p.Class {
	case ClassNumber:
		if p.Number == math.Trunc(p.Number) && math.Abs(p.Number) < 1<<53 {
			return int64(p.Number), nil
		}
		return p.Number, nil
	case ClassString:
		return p.String, nil
	case ClassMessageDomain:
		return &messageDomain{p.Attributes}, nil
	case ClassFirewall:
		return s.openFirewall(ctx, key, p.Rules)
	case ClassModel:
		m := newModel(s.deps, key, p, s.node, s.start)
		s.models[key] = m
		return m, m.load(ctx)
	case ClassMemoryStorage:
		return sources.NewMemoryStorage(s.deps.Now, maxStorageEntries), nil
	case ClassStoreStorage:
		return sources.NewStoreStorage(s.deps.Store, key, s.deps.Now), nil
	case classLog:
		l := newLog(s.deps.Store, key, p, s.node, s.deps.Now)
		s.logs[key] = l
		return l, l.open(ctx)
	case ClassCounters:
		return newCounters(d.partner, key), nil
	}
	panic("BUG: a class that Validate let pass: " + p.Class)
}

func (s *System) openFirewall(ctx context.Context, key, fallback string) (*Firewall, error) {
	f := newFirewall(s.deps.Store, []byte(key+"rules"), s.options)
	s.firewalls.Store(key, f)
	if err := f.load(ctx, fallback); err != nil {
		var wrong *rules.Fault
		if !errors.As(err, &wrong) {
			return nil, err
		}
		// Stored rules may be refused after a change of limits: better no rules than no start.
		s.deps.Log.Error().Err(err).Str("firewall", key).Msg("stored rules do not compile")
	}
	return f, nil
}

// ownFirewalls gives d the firewalls that SetRules made where only the default domain had one.
func (s *System) ownFirewalls(ctx context.Context, d *Domain) error {
	prefix := "message/" + d.partner + ":" + d.path + ":"
	var names []string
	err := s.deps.Store.Scan(ctx, []byte(prefix+propertyAnalyzer), func(k, _ []byte, _ time.Duration) error {
		if name, ok := strings.CutSuffix(string(k[len(prefix):]), "/rules"); ok && name == propertyAnalyzer &&
			!d.has(name) {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for rules: %w", err)
	}
	for _, name := range names {
		f, err := s.openFirewall(ctx, componentKey(d, name), "")
		if err != nil {
			return err
		}
		d.put(name, f)
	}
	return nil
}
