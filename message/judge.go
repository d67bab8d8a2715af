package message

import (
	"context"
	"errors"
	"fmt"
	"time"

	"antirobot/rules"
	"antirobot/rules/sources"
)

// Judge runs the domain's messageAnalyzer over values (string, int64 or netip.Addr). Errors of the caller or of the
// rules are *rules.Fault.
func (s *System) Judge(ctx context.Context, d *Domain, values map[string]any, trace bool) (Outcome, error) {
	kind, err := d.messages()
	if err != nil {
		return Outcome{}, err
	}
	m, err := kind.read(values)
	if err != nil {
		return Outcome{}, err
	}
	f, err := d.Firewall(propertyAnalyzer)
	if err != nil {
		return Outcome{}, err
	}
	return s.judge(ctx, d, f, m, trace)
}

func (s *System) judge(ctx context.Context, d *Domain, f *Firewall, m *Message, trace bool) (o Outcome, err error) {
	o.Decision = rules.Unknown
	err = s.run(ctx, d, f.program(), []*Message{m}, trace, func(_ *rules.Program, r *rules.Run, _ *float64, err error) {
		o.Log = r.Log()
		if err == nil {
			o.Decision, o.Score, o.Tags = r.Decision(), r.Score(), r.AppendTags(nil)
		}
	})
	if err != nil {
		o.Decision = ""
	}
	return o, err
}

type tookFunc = func(p *rules.Program, r *rules.Run, score *float64, err error)

// run runs p over each reading of a message until one fails. took must keep nothing of a run, and is not called
// without rules.
func (s *System) run(ctx context.Context, d *Domain, p *rules.Program, readings []*Message, trace bool,
	took tookFunc,
) error {
	if p == nil {
		return nil
	}
	j, ok := s.judgements.Get().(*judgement)
	if !ok {
		panic("BUG: the pool holds something else")
	}
	defer func() {
		j.domain, j.message, j.asked = nil, nil, asked{}
		s.judgements.Put(j)
	}()
	j.domain, j.run.Trace = d, trace
	j.once.Begin(len(readings) > 1)
	for _, m := range readings {
		j.message, j.asked = m, asked{}
		err := p.Run(ctx, &j.env, &j.run)
		var score *float64
		if j.asked.model != nil {
			score = &j.asked.score
		}
		if took(p, &j.run, score, err); err != nil {
			s.slow(d, err)
			return err
		}
		j.once.Again()
	}
	return nil
}

func (s *System) slow(d *Domain, err error) {
	var f *rules.Fault
	if !errors.As(err, &f) || !f.Slow {
		return
	}
	s.deps.Metrics.GetOrCreateCounter(
		fmt.Sprintf(`antirobot_message_slow_total{partner=%q,domain=%q,line="%d",rule=%q}`, d.partner, d.path, f.Line,
			f.Rule)).Inc()
	now, last := s.deps.Now().Unix(), s.saidSlow.Load()
	if now-last >= 10 && s.saidSlow.CompareAndSwap(last, now) {
		s.deps.Log.Warn().Str("partner", d.partner).Str("domain", d.path).Int("line", f.Line).
			Str("rule", f.Rule).Msg("a rule over messages was too slow")
	}
}

const methodInline = "inline"

// JudgeInline judges a message inside a request in each of its readings. It remains one message: counters are added
// to once, and only the first reading is logged and learnt. A domain without rules is judged by the start rules;
// without these, took is not called.
func (s *System) JudgeInline(ctx context.Context, d *Domain, readings []map[string]any, trace bool,
	took tookFunc,
) error {
	d.Requested(methodInline)
	kind, err := d.messages()
	if err != nil {
		return err
	}
	f, err := d.Firewall(propertyAnalyzer)
	if err != nil {
		return err
	}
	p := f.program()
	if p == nil {
		p = s.startOf(d)
	}
	messages := make([]*Message, len(readings))
	for i, values := range readings {
		if messages[i], err = kind.read(values); err != nil {
			return err
		}
	}
	return s.run(ctx, d, p, messages, trace, took)
}

// Outcome is the result of judging a message.
type Outcome struct {
	Decision string
	Score    float64
	Tags     []string // in the order of marking
	Log      string   // if asked for
}

type judgement struct {
	system  *System
	domain  *Domain
	message *Message
	once    sources.Once
	asked   asked
	run     rules.Run
	env     rules.Env
}

func newJudgement(s *System) *judgement {
	j := &judgement{system: s}
	j.once = sources.Once{Storages: j, Counters: j}
	j.env = rules.Env{
		Attributes: j, Storages: &j.once, Models: j, Logs: j, Counters: &j.once, Lists: s.deps.Lists,
		Places: s.deps.Places,
	}
	return j
}

// Attribute implements rules.Attributes.
func (j *judgement) Attribute(name string) (rules.Value, bool) { return j.message.Attribute(name) }

// Score implements rules.Models.
func (j *judgement) Score(_ context.Context, model, text string) (float64, error) {
	m, err := j.domain.Model(model)
	if err != nil {
		return 0, err
	}
	score, by := m.score(text)
	j.asked = asked{model: m, text: text, score: score, by: by}
	if j.run.Trace {
		j.run.Note(m.Classify(text).String())
	}
	return score, nil
}

type asked struct {
	model *Model
	text  string
	score float64
	by    string
}

const explained = 100

func (j *judgement) opinion() *Opinion {
	switch {
	case j.asked.model == nil:
		return nil
	case j.asked.score > 0.5 && j.system.mayExplain():
		o := j.asked.model.Classify(j.asked.text)
		return &o
	}
	return &Opinion{Score: j.asked.score, By: j.asked.by}
}

func (s *System) mayExplain() bool {
	const most = 1 << 20 // the count is below the second
	second := s.deps.Now().Unix() * most
	for {
		n := s.explained.Load()
		next := max(n, second) + 1
		if n >= second && n-second >= explained {
			return false
		}
		if s.explained.CompareAndSwap(n, next) {
			return true
		}
	}
}

func (j *judgement) Train(ctx context.Context, model, text string, good bool) error {
	if !j.once.First() {
		return nil
	}
	m, err := j.domain.Model(model)
	if err != nil {
		return err
	}
	return j.system.Train(ctx, m, text, good)
}

func (j *judgement) Put(ctx context.Context, log, tag string, r *rules.Run) error {
	if !j.once.First() {
		return nil
	}
	l, err := j.domain.messageLog(log)
	if err != nil {
		return err
	}
	return l.put(ctx, j.message, tag, r, j.opinion())
}

const maxSpaces = 64

func (p *partner) counters(name string) (*counters, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.spaces[name]; c != nil {
		return c, nil
	}
	if len(p.spaces) == maxSpaces {
		return nil, rules.Faultf(CodeProperty, "the domain has no counters %q, and the partner has %d others already",
			rules.Clip(name, 64), maxSpaces)
	}
	c := newCounters(p.name, "message/"+p.name+":/:"+name+"/")
	p.spaces[name] = c
	return c, nil
}

// Count implements rules.CounterSource. A prefix is the name of a component, or of counters of the partner's root.
func (j *judgement) Count(ctx context.Context, u rules.CounterUse) (n, of uint64, err error) {
	var space *counters
	if _, declared := j.domain.Get(u.Prefix); declared {
		space, err = property[*counters](j.domain, u.Prefix, CodeType, "of the class Counters")
	} else {
		space, err = j.system.partners[j.domain.partner].counters(u.Prefix)
	}
	if err != nil {
		return 0, 0, err
	}
	u.Prefix = space.prefix
	return j.system.deps.Counters.Count(ctx, u)
}

// Frequency implements rules.Storages.
func (j *judgement) Frequency(ctx context.Context, name string, key []byte, n int64, window time.Duration) (
	int64, error,
) {
	s, err := j.domain.storage(name)
	if err != nil {
		return 0, err
	}
	return s.Incr(ctx, key, n, window)
}

// Draw implements rules.Storages.
func (j *judgement) Draw(ctx context.Context, name string, key []byte, b rules.Bucket) (time.Duration, error) {
	s, err := j.domain.storage(name)
	if err != nil {
		return 0, err
	}
	return s.Draw(ctx, key, b, true)
}
