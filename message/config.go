package message

import (
	"errors"
	"fmt"
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
	// Authorisation is how partners authenticate: "trust" takes every caller to be the only partner, for a listener
	// behind a firewall; with "keys" the caller sends a name and a secret.
	Authorisation string          `mapstructure:"authorisation"`
	Partners      []PartnerConfig `mapstructure:"partners"`

	// StartRules are the rules over messages inside requests for domains that have none: "start-1" or "none".
	StartRules string `mapstructure:"start_rules"`

	Akismet AkismetConfig `mapstructure:"akismet"`
	Queue   queue.Config  `mapstructure:"queue"` // of messages that wait for a person

	SecondOpinions []second.Config `mapstructure:"second_opinions"` // those who may be asked about texts that are grey

	MaxText int64 `mapstructure:"max_text"` // bytes of a text attribute
}

// AkismetConfig says how plugins that speak Akismet's API are answered.
type AkismetConfig struct {
	Key     string   `mapstructure:"key"`      // with authorisation trust; empty: they are refused. With keys the secrets of partners are the keys
	Domain  string   `mapstructure:"domain"`   // path of the domain that judges; empty: the root
	NotSpam []string `mapstructure:"not_spam"` // the decisions that are no spam; all others are
}

// PartnerConfig declares a partner and the root of its domains.
type PartnerConfig struct {
	Name   string       `mapstructure:"name"`
	Secret string       `mapstructure:"secret"` // with authorisation keys
	Domain DomainConfig `mapstructure:"domain"`
}

// DomainConfig declares a domain. The root of a partner has no name.
type DomainConfig struct {
	Name       string           `mapstructure:"name"`
	Properties []PropertyConfig `mapstructure:"properties"`
	Domains    []DomainConfig   `mapstructure:"domains"`
}

// PropertyConfig declares a property: a number, a string, or a component of a class.
type PropertyConfig struct {
	Name  string `mapstructure:"name"`
	Class string `mapstructure:"class"`

	Number     float64           `mapstructure:"number"`     // Number
	String     string            `mapstructure:"string"`     // String
	Attributes []AttributeConfig `mapstructure:"attributes"` // MessageDomain
	Rules      string            `mapstructure:"rules"`      // Firewall: the rules until others are set
	Model      string            `mapstructure:"model"`      // BayesModel: default or robinson
	Start      string            `mapstructure:"start"`      // BayesModel: what judges until it knows enough: ru-en-1 or none
	TimeChunk  time.Duration     `mapstructure:"time_chunk"` // MessageLog
	NumChunks  int               `mapstructure:"num_chunks"` // MessageLog
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
	ClassLog           = "MessageLog"
	ClassCounters      = "Counters"
)

// StartNone turns off the model that judges until a domain's own one knows enough.
const StartNone = "none"

// Names of properties that have a meaning.
const (
	propertyMessageDomain = "messageDomain"
	propertyAnalyzer      = "messageAnalyzer"
)

// Bounds that are no choice of a site.
const (
	MaxRequest        = 1 << 20 // bytes of a request of the API
	maxFetch          = 10_000  // entries that one fetch returns
	maxLogEntries     = 100_000
	maxStorageEntries = 1_000_000
	rulesTime         = time.Second            // of one judgement
	logFlush          = 200 * time.Millisecond // how long log entries may wait to be written
	maxFeatures       = 1 << 20                // of a model, 16 bytes each
	taughtFor         = 90 * 24 * time.Hour    // how long what is like a bad text is found again
	maxTaught         = 20_000                 // bad texts that are found again; 0.5 KB each
)

const (
	defaultTimeChunk = 10 * time.Second
	defaultNumChunks = 100
	maxDomainDepth   = 16
)

// DefaultConfig returns one trusted partner whose root domain has what the example rules need, and no rules.
func DefaultConfig() Config {
	return Config{
		Authorisation: "trust",
		Partners: []PartnerConfig{{Name: "default", Domain: DomainConfig{Properties: []PropertyConfig{
			{Name: "storage", Class: ClassMemoryStorage},
			{Name: propertyMessageDomain, Class: ClassMessageDomain, Attributes: defaultAttributes()},
			{Name: propertyAnalyzer, Class: ClassFirewall},
			{Name: "messageLog", Class: ClassLog},
			{Name: "model", Class: ClassModel},
		}}}},
		StartRules: StartRules,
		Akismet:    AkismetConfig{NotSpam: []string{"OK", rules.Unknown}},
		Queue:      queue.DefaultConfig(),
		MaxText:    64 << 10,
	}
}

func defaultAttributes() []AttributeConfig {
	return []AttributeConfig{{"text", rules.Text.String()}, {"from", rules.UniqueInt.String()}, {"ip", rules.IP.String()}}
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
	if c.StartRules != StartRules && c.StartRules != StartNone {
		v.addf("start_rules: %q is neither %s nor %s", c.StartRules, StartRules, StartNone)
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
	if c.MaxText <= 0 {
		v.addf("max_text: must be greater than zero")
	}
	return errors.Join(v.errs...)
}

// CheckSources checks that a partner (the only one, if empty) has a domain at path, and that its messages have the
// attributes that the sources name. Errors begin with the key of the route that is wrong.
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
			errs = append(errs, fmt.Errorf("sources[%d].attribute: messages of the domain %q have no %q", k, path, name))
		}
	}
	return errors.Join(errs...)
}

// CheckOpinions checks that those exist whom a route asks for second opinions.
func (c Config) CheckOpinions(names []string) error {
	var errs []error
	for i, name := range names {
		if !slices.ContainsFunc(c.SecondOpinions, func(s second.Config) bool { return s.Name == name }) {
			errs = append(errs, fmt.Errorf("grey.ask[%d]: message.second_opinions has no %q", i, name))
		}
	}
	return errors.Join(errs...)
}

// CheckRules compiles the rules of all firewalls with the formulas that there are, and returns all errors with their paths.
func (c Config) CheckRules(formulas rules.Formulas) error {
	v := validator{}
	o := rules.DefaultOptions()
	o.Formulas = formulas
	var walk func(path string, d DomainConfig)
	walk = func(path string, d DomainConfig) {
		for i, p := range d.Properties {
			if p.Class != ClassFirewall || p.Rules == "" {
				continue
			}
			if _, err := rules.Compile(p.Rules, o); err != nil {
				v.addf("%s.properties[%d].rules: %w", path, i, err)
			}
		}
		for i, sub := range d.Domains {
			walk(fmt.Sprintf("%s.domains[%d]", path, i), sub)
		}
	}
	for i, p := range c.Partners {
		walk(fmt.Sprintf("partners[%d].domain", i), p.Domain)
	}
	return errors.Join(v.errs...)
}

// withDefaults fills in what a property leaves open.
func (p PropertyConfig) withDefaults() PropertyConfig {
	if p.Model == "" {
		p.Model = learn.Default
	}
	if p.Start == "" {
		p.Start = learn.StartName
	}
	if p.TimeChunk == 0 {
		p.TimeChunk = defaultTimeChunk
	}
	if p.NumChunks == 0 {
		p.NumChunks = defaultNumChunks
	}
	return p
}
