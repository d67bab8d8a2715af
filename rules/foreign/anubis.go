package foreign

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sort"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// policy is what of Anubis's file becomes rules. JSON is YAML too.
type policy struct {
	Bots       []bot          `yaml:"bots"`
	Thresholds []threshold    `yaml:"thresholds"`
	DNSBL      bool           `yaml:"dnsbl"`
	Rest       map[string]any `yaml:",inline"`
}

type bot struct {
	Import    string            `yaml:"import"`
	Name      string            `yaml:"name"`
	Action    string            `yaml:"action"`
	UserAgent *string           `yaml:"user_agent_regex"`
	Path      *string           `yaml:"path_regex"`
	Headers   map[string]string `yaml:"headers_regex"`
	Networks  []string          `yaml:"remote_addresses"`
	Condition *expression       `yaml:"expression"`
	Weight    *struct {
		Adjust int `yaml:"adjust"`
	} `yaml:"weight"`
	GeoIP *struct {
		Countries []string `yaml:"countries"`
	} `yaml:"geoip"`
	ASNs *struct {
		Match []uint32 `yaml:"match"`
	} `yaml:"asns"`
	Challenge any            `yaml:"challenge"`
	Rest      map[string]any `yaml:",inline"`
}

type threshold struct {
	Name      string      `yaml:"name"`
	Action    string      `yaml:"action"`
	Condition *expression `yaml:"expression"`
}

// expression is one of CEL, or several of which all or any must hold.
type expression struct {
	all, any []string
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (e *expression) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		e.all = []string{n.Value}
		return nil
	}
	var lists struct {
		All []string `yaml:"all"`
		Any []string `yaml:"any"`
	}
	err := n.Decode(&lists)
	e.all, e.any = lists.All, lists.Any
	return err
}

func (e *expression) node() (*node, error) {
	k, list := allOf, e.all
	if len(e.any) > 0 {
		k, list = anyOf, e.any
	}
	if len(list) == 0 || len(e.all) > 0 && len(e.any) > 0 {
		return nil, errors.New("the expression needs one of all and any")
	}
	n := &node{kind: k}
	for _, src := range list {
		one, err := parseExpression(src)
		if err != nil {
			return nil, err
		}
		n.of = append(n.of, one)
	}
	return n, nil
}

// Bounds of one import.
const (
	maxBots    = 2000
	maxImports = 200
)

// importer collects the bots of a policy and of what it imports.
type importer struct {
	writer
	open    func(name string) ([]byte, error)
	opened  int
	written int
}

// Anubis turns a policy into rules. open reads the files that it imports, by the names that it has for them.
func Anubis(src []byte, open func(name string) ([]byte, error)) (*Result, error) {
	var p policy
	if err := yaml.Unmarshal(src, &p); err != nil {
		return nil, err
	}
	if len(p.Bots) == 0 {
		return nil, errors.New("there are no bots in it: this is no policy of Anubis")
	}
	m := importer{open: open}
	m.line("# From a policy of Anubis.")
	m.bots(p.Bots, 0)
	m.thresholds(p.Thresholds)
	m.line("stop as OK")
	if p.DNSBL {
		m.skip("dnsbl: rules ask no DNS list; use lists.lists with a URL")
	}
	for _, key := range sortedKeys(p.Rest) {
		m.skip("%s: no part of rules", comment(key))
	}
	if m.written == 0 {
		return nil, fmt.Errorf("nothing of it can be said in rules: %s", strings.Join(m.unsaid, "; "))
	}
	m.skip("ALLOW ends these rules alone: the gateway's own lists, bans and judge still apply")
	return &Result{m.String(), m.unsaid}, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

func (m *importer) bots(bots []bot, depth int) {
	for i := range bots {
		b := &bots[i]
		if b.Import != "" {
			m.follow(b.Import, depth+1)
			continue
		}
		if m.written >= maxBots {
			m.skip("%s and what follows it: more than %d bots", comment(b.Name), maxBots)
			return
		}
		if err := m.bot(b); err != nil {
			m.skip("bot %s: %s", comment(b.Name), comment(err.Error()))
		}
	}
}

// follow takes the bots of another file.
func (m *importer) follow(name string, depth int) {
	m.opened++
	if depth > maxDepth || m.opened > maxImports {
		m.skip("import %s: too many imports within each other", comment(name))
		return
	}
	src, err := m.open(name)
	if err != nil {
		m.skip("import %s: %s", comment(name), comment(err.Error()))
		return
	}
	var bots []bot
	if err := yaml.Unmarshal(src, &bots); err != nil {
		m.skip("import %s: %s", comment(name), comment(err.Error()))
		return
	}
	m.bots(bots, depth)
}

// decisions are those of rules for Anubis's actions.
var decisions = map[string]string{"ALLOW": "OK", "DENY": "BLOCK", "CHALLENGE": "CAPTCHA"}

// bot writes one bot; nothing, if something of it can't be said.
func (m *importer) bot(b *bot) error {
	n, err := b.node()
	if err != nil {
		return err
	}
	decision, decides := decisions[b.Action]
	weight := 5
	if b.Weight != nil {
		weight = b.Weight.Adjust
	}
	if !decides && b.Action != "WEIGH" {
		return fmt.Errorf("there is no action like %q", b.Action)
	}
	for _, key := range sortedKeys(b.Rest) {
		return fmt.Errorf("there is no rule for %s", key)
	}
	m.written++
	m.line("\n# %s: %s", comment(b.Name), b.Action)
	tag := m.tag()
	m.fails(n, tag)
	if decides {
		m.line("if not %s stop as %s", tag, decision)
	} else {
		m.line("if not %s do ruleFalse() score %d", tag, weight)
	}
	if c, ok := b.Challenge.(map[string]any); ok {
		m.skip("bot %s: challenge %v: which challenge is asked is the gateway's to say (captcha.ladder)", comment(b.Name), c)
	}
	return nil
}

// node is the condition of a bot: all that it says must hold.
func (b *bot) node() (*node, error) {
	n := &node{kind: allOf}
	add := func(one *node, err error) error {
		n.of = append(n.of, one)
		return err
	}
	var errs []error
	if len(b.Networks) > 0 {
		for _, s := range b.Networks {
			if _, err := netip.ParsePrefix(s); err != nil {
				errs = append(errs, err)
			}
		}
		errs = append(errs, add(within(b.Networks), nil))
	}
	if b.UserAgent != nil {
		errs = append(errs, add(matches("ua", *b.UserAgent)))
	}
	if b.Path != nil {
		errs = append(errs, add(matches("path", *b.Path)))
	}
	for _, name := range sortedKeys(b.Headers) {
		expr := strings.TrimSpace(b.Headers[name])
		attribute, err := headerAttribute(name)
		switch {
		case err != nil:
			errs = append(errs, err)
		case expr == ".*":
			errs = append(errs, add(there(attribute), nil))
		default:
			errs = append(errs, add(matches(attribute, expr)))
		}
	}
	if b.Condition != nil {
		errs = append(errs, add(b.Condition.node()))
	}
	if b.GeoIP != nil {
		errs = append(errs, add(matches("country", "^(?:"+strings.ToUpper(strings.Join(b.GeoIP.Countries, "|"))+")$")))
	}
	if b.ASNs != nil {
		of := &node{kind: anyOf}
		for _, asn := range b.ASNs.Match {
			of.of = append(of.of, &node{attribute: "asn", call: "attributeCheck(attribute=\"asn\", value=" + strconv.FormatUint(uint64(asn), 10) + ")"})
		}
		errs = append(errs, add(of, nil))
	}
	err := errors.Join(errs...)
	if err == nil && (len(n.of) == 0 || slices.ContainsFunc(n.of, func(k *node) bool { return k.kind == anyOf && len(k.of) == 0 })) {
		err = errors.New("it has no condition")
	}
	return n, err
}

// thresholds write what follows from the sum of weights. Without any, Anubis challenges what weighs something.
func (m *importer) thresholds(list []threshold) {
	if len(list) == 0 {
		list = []threshold{{Name: "something suspicious", Action: "CHALLENGE", Condition: &expression{all: []string{"weight > 0"}}}}
	}
	for _, t := range list {
		var n *node
		err := errors.New("it has no expression")
		if t.Condition != nil {
			n, err = t.Condition.node()
		}
		decision, ok := decisions[t.Action]
		if err == nil && !ok {
			err = fmt.Errorf("there is no action like %q", t.Action)
		}
		if err != nil {
			m.skip("threshold %s: %s", comment(t.Name), comment(err.Error()))
			continue
		}
		m.line("\n# %s: %s", comment(t.Name), t.Action)
		tag := m.tag()
		m.fails(n, tag)
		m.line("if not %s stop as %s", tag, decision)
	}
}
