package message

import (
	"context"
	"errors"
	"fmt"

	"antirobot/rules"
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

// tookFunc receives the state of a run and the score of the model that the rules asked last (nil: none).
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
