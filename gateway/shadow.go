package gateway

import (
	"fmt"
	"time"

	"antirobot/config"
	"antirobot/settings"
	"antirobot/verdict/processor"
)

// prepareShadow has what is looked at in the lab, and formula.shadow, judge beside what is in force.
func (a *Server) prepareShadow(next *config.Config) (func(), error) {
	s, err := a.shadowOf(next)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	return func() { a.proc.UseShadow(s, time.Now()) }, nil
}

// shadowOf returns what is to judge beside a configuration; nil: nothing.
func (a *Server) shadowOf(cfg *config.Config) (*processor.Shadow, error) {
	looked, named := cfg.Looked, cfg.Formula.Shadow
	if looked != nil {
		named = looked.Formula.Model
	}
	if named == "" {
		return nil, nil
	}
	s := &processor.Shadow{}
	if named != cfg.Formula.Model {
		var err error
		if s.Model, err = config.LoadModel(named); err != nil {
			return nil, settings.At("formula.shadow", err)
		}
	}
	if looked == nil {
		return s, nil
	}
	s.Places = map[uint16]processor.ShadowPlace{}
	for i := range looked.Resolved {
		whole := &looked.Resolved[i]
		if err := a.shadowPlace(s, whole.Name, "", whole); err != nil {
			return nil, err
		}
		for k := range whole.Resolved {
			if err := a.shadowPlace(s, whole.Name, whole.Resolved[k].Prefix, &whole.Resolved[k].Service); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

func (a *Server) shadowPlace(s *processor.Shadow, service, prefix string, of *config.Service) error {
	n := a.indexes.Of(service, prefix)
	v, err := of.Verdict.Settings(service, n)
	if err != nil {
		return settings.At(of.Path+".verdict", err)
	}
	s.Places[n] = processor.ShadowPlace{Threshold: v.Threshold, Limits: v.Limits}
	return nil
}
