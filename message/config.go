package message

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"antirobot/message/learn"
	"antirobot/message/queue"
	"antirobot/message/second"
	"antirobot/problem"
	"antirobot/rules"
)

// Config declares the partners, their domains and the limits.
type Config struct {
	// Authorisation is "trust" (every caller is the only partner, for a listener behind a firewall) or "keys" (the
	// caller sends a name and a secret).
	Authorisation string          `mapstructure:"authorisation"`
	Partners      []PartnerConfig `mapstructure:"partners"`

	Akismet AkismetConfig `mapstructure:"akismet"`
	Queue   queue.Config  `mapstructure:"queue"`

	SecondOpinions []second.Config `mapstructure:"second_opinions"` // that may be asked about grey texts
}

// AkismetConfig says how plugins that speak Akismet's API are answered.
type AkismetConfig struct {
	Key    string `mapstructure:"key"`    // with authorisation trust; empty: plugins are refused
	Domain string `mapstructure:"domain"` // path of the domain that judges
}

// PartnerConfig declares a partner and the root of its domains.
type PartnerConfig struct {
	Name   string       `mapstructure:"name"`
	Secret string       `mapstructure:"secret"`
	Domain DomainConfig `mapstructure:"domain"`
}

// DomainConfig declares a domain.
type DomainConfig struct {
	Name       string           `mapstructure:"name"`
	Properties []PropertyConfig `mapstructure:"properties"`
	Domains    []DomainConfig   `mapstructure:"domains"`
}

// PropertyConfig declares a property: a number, a string, or a component of a class.
type PropertyConfig struct {
	Name  string `mapstructure:"name"`
	Class string `mapstructure:"class"`

	Number     float64           `mapstructure:"number"`
	String     string            `mapstructure:"string"`
	Attributes []AttributeConfig `mapstructure:"attributes"`
	Rules      string            `mapstructure:"rules"`
	Model      string            `mapstructure:"model"` // BayesModel: default or robinson
	TimeChunk  time.Duration     `mapstructure:"time_chunk"`
	NumChunks  int               `mapstructure:"num_chunks"`
}

// The classes of properties.
const (
	ClassNumber        = "Number"
	ClassString        = "String"
	ClassMessageDomain = "MessageDomain"
	ClassFirewall      = "Firewall"
	ClassModel         = "BayesModel"
	ClassMemoryStorage = "DomainMemoryStorage"
	ClassStoreStorage  = "DomainStoreStorage"
	classLog           = "MessageLog"
	ClassCounters      = "Counters"
)

const (
	propertyMessageDomain = "messageDomain"
	propertyAnalyzer      = "messageAnalyzer"
)

// Bounds that no site has to choose.
const (
	MaxRequest        = 1 << 20
	maxFetch          = 10_000
	maxLogEntries     = 100_000
	maxStorageEntries = 1_000_000
	rulesTime         = time.Second
	logFlush          = 200 * time.Millisecond // how long log entries may wait to be written
	MaxText           = 64 << 10               // bytes of a text
	maxFeatures       = 1 << 20
	taughtFor         = 90 * 24 * time.Hour // how long texts similar to a bad one are found
	keepTexts         = 10_000              // good texts, and bad ones, that a model learns again after a restart
)

const (
	defaultTimeChunk = 10 * time.Second
	defaultNumChunks = 100
	maxDomainDepth   = 16
)

// DefaultConfig returns one trusted partner with the domain that the example rules need.
func DefaultConfig() Config {
	return Config{
		Authorisation: "trust",
		Partners: []PartnerConfig{{Name: "default", Domain: DomainConfig{Properties: []PropertyConfig{
			{Name: "storage", Class: ClassMemoryStorage},
			{Name: propertyMessageDomain, Class: ClassMessageDomain, Attributes: defaultAttributes()},
			{Name: propertyAnalyzer, Class: ClassFirewall},
			{Name: "messageLog", Class: classLog},
			{Name: "model", Class: ClassModel},
		}}}},
		Queue: queue.DefaultConfig(),
	}
}

func defaultAttributes() []AttributeConfig {
	return []AttributeConfig{
		{"text", rules.Text.String()},
		{"from", rules.UniqueInt.String()},
		{"ip", rules.IP.String()},
	}
}

// Validate returns all errors of c with their paths.
func (c Config) Validate() error {
	v := validator{}
	switch c.Authorisation {
	case "trust":
		if len(c.Partners) != 1 {
			v.addf("partners: authorisation trust needs exactly one, there are %d", len(c.Partners))
		}
	case "keys":
		if len(c.Partners) == 0 {
			v.addf("partners: there is none")
		}
	default:
		v.addf("authorisation: %q is neither trust nor keys", c.Authorisation)
	}
	if k := c.Akismet.Key; k != "" && len(k) < 12 {
		v.addf("akismet.key: needs at least 12 characters")
	} else if k != "" && c.Authorisation == "keys" {
		v.addf("akismet.key: with authorisation keys the secrets of partners are the keys")
	}
	for i, p := range c.Partners {
		if err := c.CheckSources(p.Name, c.Akismet.Domain, nil); err != nil && c.Akismet.Domain != "" {
			v.addf("akismet.domain: partner %d: %w", i, err)
		}
	}
	if err := c.Queue.Validate(); err != nil {
		v.errs = append(v.errs, problem.At("queue", err))
	}
	v.opinions(c.SecondOpinions)
	seen := make(map[string]bool)
	for i, p := range c.Partners {
		path := fmt.Sprintf("partners[%d]", i)
		v.name(path+".name", p.Name)
		if seen[p.Name] {
			v.addf("%s.name: %q occurs twice", path, p.Name)
		}
		seen[p.Name] = true
		if c.Authorisation == "keys" && len(p.Secret) < 16 {
			v.addf("%s.secret: needs at least 16 characters", path)
		}
		if p.Domain.Name != "" {
			v.addf("%s.domain.name: the root has no name", path)
		}
		v.domain(path+".domain", p.Domain, 0)
	}
	return errors.Join(v.errs...)
}

// CheckSources checks that a partner (the only one, if empty) has a domain at path whose messages have the
// attributes used. Errors begin with the key of the route.
func (c Config) CheckSources(partner, path string, used []string) error {
	i := slices.IndexFunc(c.Partners, func(p PartnerConfig) bool { return p.Name == partner })
	switch {
	case partner == "" && len(c.Partners) == 1:
		i = 0
	case partner == "":
		return errors.New("partner: must be given, as message.partners has several")
	case i < 0:
		return fmt.Errorf("partner: message.partners has no %q", partner)
	}
	d, known := c.Partners[i].Domain, defaultAttributes()
	for rest := path; ; {
		for _, p := range d.Properties {
			if p.Name == propertyMessageDomain {
				known = p.Attributes
			}
		}
		var part string
		for part == "" && rest != "" {
			part, rest, _ = strings.Cut(rest, "/")
		}
		if part == "" {
			break
		}
		k := slices.IndexFunc(d.Domains, func(d DomainConfig) bool { return d.Name == part })
		if k < 0 {
			return fmt.Errorf("domain: the partner %s has no domain %q", c.Partners[i].Name, path)
		}
		d = d.Domains[k]
	}
	var errs []error
	for k, name := range used {
		if name != "" && !slices.ContainsFunc(known, func(a AttributeConfig) bool { return a.Name == name }) {
			errs = append(errs, fmt.Errorf("sources[%d].attribute: messages of the domain %q have no %q", k, path,
				name))
		}
	}
	return errors.Join(errs...)
}

// CheckOpinions checks the names of a route's second opinions.
func (c Config) CheckOpinions(names []string) error {
	var errs []error
	for i, name := range names {
		if !slices.ContainsFunc(c.SecondOpinions, func(s second.Config) bool { return s.Name == name }) {
			errs = append(errs, fmt.Errorf("grey.ask[%d]: message.second_opinions has no %q", i, name))
		}
	}
	return errors.Join(errs...)
}

// CheckRules compiles the rules of all firewalls with these formulas.
func (c Config) CheckRules(formulas rules.Formulas) error {
	v := validator{}
	c.firewalls(func(path, text string, o rules.Options) {
		o.Formulas = formulas
		if _, err := rules.Compile(text, o); err != nil {
			v.addf("%s: %w", path, err)
		}
	})
	return errors.Join(v.errs...)
}

// Warnings returns probable mistakes in the rules of all firewalls. Errors are reported by Validate.
func (c Config) Warnings(lists []rules.List, places bool) (out []string) {
	c.firewalls(func(path, text string, o rules.Options) {
		o.Lists, o.LooseLists, o.Places = lists, true, places
		if p, err := rules.Compile(text, o); err == nil {
			for _, w := range p.Warnings() {
				out = append(out, path+": "+w.Error())
			}
		}
	})
	return out
}

func (c Config) firewalls(f func(path, text string, o rules.Options)) {
	var walk func(path string, d DomainConfig, k known)
	walk = func(path string, d DomainConfig, k known) {
		k.classes = maps.Clone(k.classes)
		for _, p := range d.Properties {
			if k.classes[p.Name] = p.Class; p.Name == propertyMessageDomain && p.Class == ClassMessageDomain {
				k.attributes = p.Attributes
			}
		}
		for i, p := range d.Properties {
			if p.Class == ClassFirewall && p.Rules != "" {
				f(fmt.Sprintf("%s.properties[%d].rules", path, i), p.Rules, k.options(rules.DefaultOptions()))
			}
		}
		for i, sub := range d.Domains {
			walk(fmt.Sprintf("%s.domains[%d]", path, i), sub, k)
		}
	}
	for i, p := range c.Partners {
		walk(fmt.Sprintf("partners[%d].domain", i), p.Domain, known{map[string]string{}, defaultAttributes()})
	}
}

func (p PropertyConfig) withDefaults() PropertyConfig {
	if p.Model == "" {
		p.Model = learn.Default
	}
	if p.TimeChunk == 0 {
		p.TimeChunk = defaultTimeChunk
	}
	if p.NumChunks == 0 {
		p.NumChunks = defaultNumChunks
	}
	return p
}

type validator struct{ errs []error }

func (v *validator) addf(format string, args ...any) {
	v.errs = append(v.errs, fmt.Errorf(format, args...))
}

func (v *validator) name(path, name string) {
	if !validName(name) {
		v.addf("%s: %q may only contain letters, digits, _, - and .", path, name)
	}
}

func validName(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s,
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.") == ""
}

func (v *validator) opinions(all []second.Config) {
	seen := make(map[string]bool)
	for i, c := range all {
		at := fmt.Sprintf("second_opinions[%d]", i)
		if err := c.Validate(); err != nil {
			v.errs = append(v.errs, problem.At(at, err))
		}
		if seen[c.Name] {
			v.addf("%s.name: %q occurs twice", at, c.Name)
		}
		seen[c.Name] = true
	}
}

func (v *validator) domain(path string, d DomainConfig, depth int) {
	if depth > maxDomainDepth {
		v.addf("%s: domains are more than %d deep", path, maxDomainDepth)
		return
	}
	seen := make(map[string]bool)
	for i, p := range d.Properties {
		at := fmt.Sprintf("%s.properties[%d]", path, i)
		v.name(at+".name", p.Name)
		if seen[p.Name] {
			v.addf("%s.name: %q occurs twice", at, p.Name)
		}
		seen[p.Name] = true
		v.property(at, p)
	}
	seen = make(map[string]bool)
	for i, sub := range d.Domains {
		at := fmt.Sprintf("%s.domains[%d]", path, i)
		v.name(at+".name", sub.Name)
		if seen[sub.Name] {
			v.addf("%s.name: %q occurs twice", at, sub.Name)
		}
		seen[sub.Name] = true
		v.domain(at, sub, depth+1)
	}
}

func (v *validator) property(path string, p PropertyConfig) {
	switch p.Class {
	case ClassNumber, ClassString, ClassMemoryStorage, ClassStoreStorage, ClassCounters:
	case ClassMessageDomain:
		var names []string
		for i, a := range p.Attributes {
			at := fmt.Sprintf("%s.attributes[%d]", path, i)
			if a.Name == "" || len(a.Name) > 64 {
				v.addf("%s.name: needs 1 to 64 characters", at)
			}
			if slices.Contains(names, a.Name) {
				v.addf("%s.name: %q occurs twice", at, a.Name)
			}
			names = append(names, a.Name)
			if _, ok := a.Kind(); !ok {
				v.addf("%s.type: %q is not Text, Int, UniqueInt or IP", at, a.Type)
			}
		}
		if len(p.Attributes) == 0 {
			v.addf("%s.attributes: there is none", path)
		}
	case ClassFirewall:
		if p.Rules == "" {
			return
		}
		if _, err := rules.Compile(p.Rules, rules.DefaultOptions()); err != nil {
			v.addf("%s.rules: %w", path, err)
		}
	case ClassModel:
		if p.Model != "" && p.Model != learn.Default && p.Model != learn.Robinson {
			v.addf("%s.model: %q is neither %s nor %s", path, p.Model, learn.Default, learn.Robinson)
		}
	case classLog:
		if p.TimeChunk < 0 || p.TimeChunk > 0 && p.TimeChunk < time.Second {
			v.addf("%s.time_chunk: must be a second or more", path)
		}
		if p.NumChunks < 0 || p.NumChunks == 1 || p.NumChunks > 1_000_000 {
			v.addf("%s.num_chunks: must be 2 to a million", path)
		}
	default:
		v.addf("%s.class: %q is not one of %s", path, p.Class, strings.Join([]string{
			ClassNumber, ClassString, ClassMessageDomain, ClassFirewall, ClassModel, ClassMemoryStorage,
			ClassStoreStorage, classLog, ClassCounters,
		}, ", "))
	}
}
