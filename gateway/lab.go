package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/config"
	"antirobot/lab"
	"antirobot/rules/requestrules"
	"antirobot/rules/sources"
	"antirobot/settings"
	"antirobot/store"
	"antirobot/verdict/counter"
	"antirobot/verdict/formula"
	"antirobot/verdict/processor"
)

// labOf is the gateway as the lab's pages see it.
type labOf struct{ a *Server }

var (
	errNoLab    = errors.New("this gateway's configuration is not read again, so nothing can be changed in it")
	errNothing  = errors.New("say what is to be changed: a threshold, limits or rules of a service, the model, a card or its weights")
	errNoBefore = errors.New("there is nothing to be taken back")
)

// View implements admin.Lab.
func (l labOf) View() (lab.View, error) {
	a := l.a
	cfg := a.Config()
	st, err := lab.Load(cfg.DataDir)
	if err != nil {
		return lab.View{}, err
	}
	v := lab.View{
		Model: a.formula.Model().Version(), Named: cfg.Formula.Model, Models: models(cfg), Sample: a.proc.Sample(),
		Applied: st.Applied.View(), Before: []lab.VersionView{},
	}
	if card, err := config.ModelText(cfg.Formula.Model); err == nil {
		v.Weights = formula.Weights(card)
	}
	for i := range st.Before {
		v.Before = append(v.Before, st.Before[i].View())
	}
	var looked *lab.Settings
	if st.Shadow != nil {
		v.Shadow = &lab.ShadowView{VersionView: st.Shadow.View(), Settings: st.Shadow.Settings}
		looked = &st.Shadow.Settings
	}
	v.Beside = lab.LookBeside(a.proc, a.cacher.Established, looked)
	for i := range cfg.Resolved {
		v.Services = append(v.Services, viewOf(&cfg.Resolved[i]))
	}
	return v, nil
}

func viewOf(s *config.Service) lab.ServiceView {
	v := lab.ServiceView{
		Name: s.Name, Mode: s.Verdict.Mode, Threshold: s.Verdict.Threshold, Unsure: s.Verdict.Unsure.Above, Limits: []lab.Limit{},
		Rules: s.Rules.Text, RulesFile: s.Rules.File, Paths: len(s.Resolved),
	}
	if s.Rules.File != "" {
		if text, err := os.ReadFile(s.Rules.File); err == nil {
			v.Rules = string(text)
		}
	}
	for _, w := range s.Verdict.Limits {
		v.Limits = append(v.Limits, lab.Limit{Window: w.Window.String(), Requests: w.Requests, Ban: w.Ban.String()})
	}
	return v
}

// models are those that may be chosen: the built-in ones, and what the configuration names.
func models(cfg *config.Config) []string {
	names := formula.Builtins()
	for _, name := range []string{cfg.Formula.Model, cfg.Formula.Shadow} {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// wanted returns the settings in force with a change over them, and checks what it names.
func (a *Server) wanted(cfg *config.Config, st *lab.State, c *lab.Change) (lab.Settings, error) {
	if len(c.Weights) > 0 {
		text, err := config.ModelText(cfg.Formula.Model)
		if err != nil {
			return lab.Settings{}, err
		}
		card, err := formula.Reweigh(text, c.Weights)
		if err != nil {
			return lab.Settings{}, err
		}
		c.Card, c.Model, c.Weights = string(card), "", nil
	}
	if c.Model != "" && !slices.Contains(models(cfg), c.Model) {
		return lab.Settings{}, fmt.Errorf("formula.model: %q is none of those that the configuration names, nor built in", settings.Clip(c.Model))
	}
	for name := range c.Services {
		if !slices.ContainsFunc(cfg.Resolved, func(s config.Service) bool { return s.Name == name }) {
			return lab.Settings{}, fmt.Errorf("services: there is no service %q", settings.Clip(name))
		}
	}
	if len(c.Changes()) == 0 {
		return lab.Settings{}, errNothing
	}
	return st.Applied.With(&c.Settings), nil
}

// Rehearse implements admin.Lab.
func (l labOf) Rehearse(ctx context.Context, c *lab.Change, since, now time.Time) (*lab.Rehearsal, error) {
	a := l.a
	if a.reread == nil {
		return nil, errNoLab
	}
	if !a.rehearsal.TryLock() {
		return nil, lab.ErrBusy
	}
	defer a.rehearsal.Unlock()
	a.mu.Lock()
	cfg, indexes := a.Config(), a.indexes.clone()
	a.mu.Unlock()
	st, err := lab.Load(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	want, err := a.wanted(cfg, &st, c)
	if err != nil {
		return nil, err
	}
	after, err := a.modelAfter(&c.Settings)
	if err != nil {
		return nil, err
	}
	if c.Card != "" { // it is not written for a rehearsal
		want.Card, want.Model = "", ""
	}
	next, err := a.reread(&lab.State{Applied: lab.Version{Settings: want}})
	if err != nil {
		return nil, err
	}
	w, err := a.newWorkshop(indexes)
	if err != nil {
		return nil, err
	}
	defer w.close()
	before := lab.Regime{Model: a.formula.Model()}
	if before.Places, err = w.places(cfg); err != nil {
		return nil, err
	}
	then := lab.Regime{Model: after}
	if then.Places, err = w.places(next); err != nil {
		return nil, err
	}
	deps := lab.Deps{Visits: a.proc, Established: a.cacher.Established}
	if a.journal != nil {
		deps.Journal = a.journal
	}
	return lab.Rehearse(ctx, deps, &before, &then, since, now)
}

// modelAfter loads the model of a change; the one in use if it has none.
func (a *Server) modelAfter(c *lab.Settings) (*formula.Model, error) {
	switch {
	case c.Card != "":
		m, err := formula.Load([]byte(c.Card), processor.FactorNames())
		if err == nil && m.Kind() != formula.Card {
			err = errors.New("this is no score card; name other models in the configuration")
		}
		return m, settings.At("formula.model", err)
	case c.Model != "":
		m, err := config.LoadModel(c.Model)
		return m, settings.At("formula.model", err)
	}
	return a.formula.Model(), nil
}

// workshop makes the settings of services apart from those that serve: what their rules count is forgotten with it.
type workshop struct {
	a        *Server
	engine   *requestrules.Engine
	store    *store.Memory
	shingler *counter.Shingler
	indexes  *Indexes
}

func (a *Server) newWorkshop(indexes *Indexes) (*workshop, error) {
	w := &workshop{a: a, store: store.NewMemory(nil), indexes: indexes}
	cfg := counter.DefaultConfig()
	cfg.CacheBytes, cfg.MaxBuffered = 4<<20, 1<<12
	var err error
	if w.shingler, err = counter.New(cfg, counter.Deps{Store: store.NewMemoryCounters(), Log: zerolog.Nop()}); err != nil {
		return nil, err
	}
	w.engine, err = requestrules.New(requestrules.DefaultConfig(), requestrules.Deps{
		Store: w.store, Counters: sources.NewCounters(w.shingler, nil), Lists: a.lists, Places: a.places, Log: zerolog.Nop(), Metrics: metrics.NewSet(),
	})
	return w, err
}

func (w *workshop) close() {
	_ = w.shingler.Close() // nothing of it is kept
	_ = w.store.Close()
}

// places makes the settings of all services and their paths; rules look, and count nothing.
func (w *workshop) places(cfg *config.Config) ([]lab.Place, error) {
	made, err := NewServices(cfg, ServiceDeps{Pages: w.a.pages, Rules: w.engine, Indexes: w.indexes})
	if err != nil {
		return nil, err
	}
	var prefixes []string // in the order in which they are judged
	for i := range cfg.Resolved {
		prefixes = append(prefixes, "")
		for k := range cfg.Resolved[i].Resolved {
			prefixes = append(prefixes, cfg.Resolved[i].Resolved[k].Prefix)
		}
	}
	places := make([]lab.Place, len(made.Judged))
	for i, s := range made.Judged {
		s.Watch = true
		places[i] = lab.Place{Prefix: prefixes[i], Settings: s}
	}
	return places, nil
}

// Apply implements admin.Lab.
func (l labOf) Apply(c *lab.Change, by string) (lab.VersionView, error) {
	return l.a.change(func(cfg *config.Config, st *lab.State) (lab.State, error) {
		want, err := l.a.wanted(cfg, st, c)
		if err != nil {
			return *st, err
		}
		next := st.Apply(want, by, time.Now())
		next.Shadow = nil // it is in force, or put aside
		return next, nil
	})
}

// Shadow implements admin.Lab.
func (l labOf) Shadow(c *lab.Change, by string) (lab.VersionView, error) {
	return l.a.change(func(cfg *config.Config, st *lab.State) (lab.State, error) {
		next := *st
		next.Shadow = nil
		if c == nil {
			return next, nil
		}
		if _, err := l.a.wanted(cfg, st, c); err != nil {
			return *st, err
		}
		next.Shadow = &lab.Version{Settings: c.Settings, By: by, At: time.Now().UTC()}
		return next, nil
	})
}

// TakeBack implements admin.Lab.
func (l labOf) TakeBack() (lab.VersionView, error) {
	return l.a.change(func(_ *config.Config, st *lab.State) (lab.State, error) {
		next, ok := st.TakeBack()
		if !ok {
			return next, errNoBefore
		}
		return next, nil
	})
}

// change puts another state of the lab into use, and keeps it. On an error nothing has changed.
func (a *Server) change(make func(cfg *config.Config, st *lab.State) (lab.State, error)) (v lab.VersionView, err error) {
	if a.reread == nil {
		return v, errNoLab
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	st, err := lab.Load(a.Config().DataDir)
	if err != nil {
		return v, err
	}
	next, err := make(a.Config(), &st)
	if err != nil {
		return v, err
	}
	if err := next.WriteCards(a.Config().DataDir); err != nil {
		return v, err
	}
	if err := a.put(&next); err != nil {
		return v, err
	}
	if err := next.Save(a.Config().DataDir); err != nil {
		return v, errors.Join(err, a.put(&st))
	}
	return next.Applied.View(), nil
}

// put reads the configuration under a state of the lab, and puts it into use.
func (a *Server) put(st *lab.State) error {
	next, err := a.reread(st)
	if err != nil {
		return err
	}
	return a.apply(next, a.changes())
}
