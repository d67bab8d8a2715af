package proxy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"antirobot/message"
	"antirobot/message/second"
	"antirobot/rules/texts"
	"antirobot/verdict"
)

// GreyConfig handles texts about which the model is unsure. Empty fields get defaults.
type GreyConfig struct {
	From float64 `mapstructure:"from"` // scores from From to To are grey; both 0: none
	To   float64 `mapstructure:"to"`
	// Over are the decisions that it may replace.
	Over []string `mapstructure:"over"`

	Ask    []string `mapstructure:"ask"`    // second opinions, by the names in message.second_opinions
	Good   string   `mapstructure:"good"`   // an opinion says good, and none bad
	Bad    string   `mapstructure:"bad"`    // an opinion says bad
	Unsure string   `mapstructure:"unsure"` // no opinion
}

func (c GreyConfig) withDefaults() GreyConfig {
	if len(c.Over) == 0 {
		c.Over = []string{"OK", "UNKNOWN", "SPAM"}
	}
	c.Good, c.Bad, c.Unsure = cmp.Or(c.Good, "pass"), cmp.Or(c.Bad, "captcha"), cmp.Or(c.Unsure, "queue")
	return c
}

type grey struct {
	cfg     GreyConfig
	actions [3]verdict.RuleAction // by second.Says
}

func newGrey(c GreyConfig, bad func(format string, args ...any)) *grey {
	if c.From == 0 && c.To == 0 {
		if len(c.Ask) > 0 {
			bad("grey.to: must be given: it says about which texts second opinions are asked for")
		}
		return nil
	}
	c = c.withDefaults()
	if !(0 <= c.From && c.From < c.To && c.To <= 1) {
		bad("grey: from %v to %v is no part of 0 to 1", c.From, c.To)
	}
	g := &grey{cfg: c}
	for _, a := range []struct {
		key, value string
		says       second.Says
	}{{"good", c.Good, second.Good}, {"bad", c.Bad, second.Bad}, {"unsure", c.Unsure, second.Unsure}} {
		var ok bool
		if g.actions[a.says], ok = verdict.ParseAction(a.value); !ok {
			bad("grey.%s: %.40q is not an action", a.key, a.value)
		}
	}
	return g
}

// Seconds asks for second opinions. *second.Opinions implements it.
type Seconds interface {
	Ask(ctx context.Context, names []string, q second.Question) []second.Opinion
}

// settleGrey replaces the action of a decision if the model is unsure about the text.
func (j *moderation) settleGrey(ctx context.Context, r *messageRoute, d *message.Domain, values map[string]any,
	ruling *verdict.Ruling,
) {
	g := r.grey
	if g == nil || !slices.Contains(g.cfg.Over, ruling.Decision) {
		return
	}
	if ruling.Model == nil { // the rules used no model
		ruling.Model = modelScore(d, values)
	}
	if ruling.Model == nil || *ruling.Model < g.cfg.From || *ruling.Model > g.cfg.To {
		return
	}
	said := second.Unsure
	if len(g.cfg.Ask) > 0 && j.core.deps.Seconds != nil {
		q := second.Question{
			Service: j.svc.Name, Route: r.name, Domain: d.Path(), Score: *ruling.Model,
			Message: values, Hosts: hostsOf(values),
		}
		for _, o := range j.core.deps.Seconds.Ask(ctx, g.cfg.Ask, q) {
			said = max(said, o.Says)
			ruling.Opinions = append(ruling.Opinions, o.String())
		}
	}
	ruling.Action = g.actions[said]
	ruling.Opinions = append(ruling.Opinions, fmt.Sprintf("the model is not sure (%.3f): %s, so %s", *ruling.Model,
		said, ruling.Action))
}

func modelScore(d *message.Domain, values map[string]any) *float64 {
	text, ok := values["text"].(string)
	m, err := d.Model("model")
	if !ok || err != nil {
		return nil
	}
	score := m.Classify(message.TrimText(text)).Score
	return &score
}

var linkReaders = sync.Pool{New: func() any { return new(texts.Reader) }}

// hostsOf returns the hosts that a message links to, each once.
func hostsOf(values map[string]any) (out []string) {
	r := linkReaders.Get().(*texts.Reader)
	defer linkReaders.Put(r)
	defer r.Forget()
	for _, v := range values {
		text, ok := v.(string)
		if !ok {
			continue
		}
		for _, l := range r.Links(text) {
			if host := strings.Clone(l.Host); !slices.Contains(out, host) {
				out = append(out, host)
			}
		}
	}
	slices.Sort(out)
	return out
}
