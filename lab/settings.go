package lab

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Settings is what the lab changes of a configuration. The zero value changes nothing.
type Settings struct {
	Model    string             `json:"model,omitempty"` // in the place of formula.model; empty: as the file says
	Card     string             `json:"card,omitempty"`  // the text of a score card, in the place of a model
	Services map[string]Service `json:"services,omitempty"`
}

// Service is what the lab changes of one service. What is nil stays as the file says.
type Service struct {
	Threshold *float64 `json:"threshold,omitempty"`
	Unsure    *float64 `json:"unsure,omitempty"` // verdict.unsure.above
	Limits    *[]Limit `json:"limits,omitempty"`
	Rules     *string  `json:"rules,omitempty"`
}

// Limit is one of verdict.limits, in the words of the file.
type Limit struct {
	Window   string `json:"window"`
	Requests int    `json:"requests"`
	Ban      string `json:"ban"`
}

// Changes names what the settings change, for people: verdict.threshold of shop.
func (s *Settings) Changes() []string {
	names := []string{}
	switch {
	case s.Card != "":
		names = append(names, "formula.model (a card)")
	case s.Model != "":
		names = append(names, "formula.model "+s.Model)
	}
	for _, name := range sortedNames(s.Services) {
		c := s.Services[name]
		if c.Threshold != nil {
			names = append(names, fmt.Sprintf("%s: verdict.threshold %v", name, *c.Threshold))
		}
		if c.Unsure != nil {
			names = append(names, fmt.Sprintf("%s: verdict.unsure.above %v", name, *c.Unsure))
		}
		if c.Limits != nil {
			names = append(names, name+": verdict.limits")
		}
		if c.Rules != nil {
			names = append(names, name+": rules.text")
		}
	}
	return names
}

// With returns the settings with further changes over them.
func (s *Settings) With(more *Settings) Settings {
	out := Settings{Model: s.Model, Card: s.Card, Services: maps.Clone(s.Services)}
	if more.Card != "" || more.Model != "" {
		out.Model, out.Card = more.Model, more.Card
	}
	for name, m := range more.Services {
		c := out.Services[name]
		if m.Threshold != nil {
			c.Threshold = m.Threshold
		}
		if m.Unsure != nil {
			c.Unsure = m.Unsure
		}
		if m.Limits != nil {
			c.Limits = m.Limits
		}
		if m.Rules != nil {
			c.Rules = m.Rules
		}
		if out.Services == nil {
			out.Services = map[string]Service{}
		}
		out.Services[name] = c
	}
	return out
}

// modelFile returns what formula.model is to be: the model's name, or where the card is.
func (s *Settings) modelFile(dir string) string {
	if s.Card == "" {
		return s.Model
	}
	sum := sha256.Sum256([]byte(s.Card))
	return filepath.Join(dir, "card-"+hex.EncodeToString(sum[:6])+".yaml")
}

// writeCard writes the card, if there is one, to where modelFile says.
func (s *Settings) writeCard(dir string) error {
	if s.Card == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(s.modelFile(dir), []byte(s.Card), 0o600)
}

// Over writes the changes into the values of a configuration, where the names of keys are those of the file in any case of
// letters. Services that there are not are left out.
func (s *Settings) Over(values map[string]any, dir string) {
	if model := s.modelFile(dir); model != "" {
		set(section(values, "formula"), "model", model)
	}
	list, _ := values[keyIn(values, "services")].([]any)
	if len(list) == 0 { // the only service is made of the defaults
		if c, ok := s.Services["default"]; ok {
			c.over(section(values, "defaults"))
		}
		return
	}
	list = slices.Clone(list)
	for i := range list {
		own, ok := list[i].(map[string]any)
		if !ok {
			continue
		}
		name, _ := own[keyIn(own, "name")].(string)
		if c, ok := s.Services[name]; ok {
			own = maps.Clone(own)
			c.over(own)
			list[i] = own
		}
	}
	set(values, "services", list)
}

func (c *Service) over(service map[string]any) {
	if c.Threshold != nil || c.Unsure != nil || c.Limits != nil {
		verdict := section(service, "verdict")
		if c.Threshold != nil {
			set(verdict, "threshold", *c.Threshold)
		}
		if c.Unsure != nil {
			set(section(verdict, "unsure"), "above", *c.Unsure)
		}
		if c.Limits != nil {
			limits := []any{}
			for _, l := range *c.Limits {
				limits = append(limits, map[string]any{"window": l.Window, "requests": l.Requests, "ban": l.Ban})
			}
			set(verdict, "limits", limits)
		}
	}
	if c.Rules != nil {
		rules := section(service, "rules")
		delete(rules, keyIn(rules, "file"))
		set(rules, "text", *c.Rules)
	}
}

// keyIn returns how a map spells a key.
func keyIn(m map[string]any, key string) string {
	for k := range m {
		if strings.EqualFold(k, key) {
			return k
		}
	}
	return key
}

func set(m map[string]any, key string, v any) { m[keyIn(m, key)] = v }

// section returns the section below a key, which it makes if there is none. It is a copy, so that what a file says twice by an
// alias is changed in one place alone.
func section(m map[string]any, key string) map[string]any {
	own, _ := m[keyIn(m, key)].(map[string]any)
	own = maps.Clone(own)
	if own == nil {
		own = map[string]any{}
	}
	set(m, key, own)
	return own
}
