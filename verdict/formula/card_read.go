package formula

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxCardErrors is how many errors of a score card are reported at once.
const maxCardErrors = 20

var cardVersion = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$`)

// cardReader walks the document by hand, so that each error has its line.
type cardReader struct {
	names []string
	at    map[string]int
	errs  []error
	card  card
	why   []string
	set   map[int]bool // factors that have bins
	uses  map[int]bool
	group map[string]int

	families []string
}

func (m *Model) loadCard(data []byte, hash string) error {
	if len(data) > maxCard {
		return fmt.Errorf("the file has %d bytes, more than the %d that a score card may have", len(data), maxCard)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return errors.New("the file is empty")
	}
	r := &cardReader{names: m.names, at: map[string]int{}, why: make([]string, len(m.names)), set: map[int]bool{}, uses: map[int]bool{}, group: map[string]int{}}
	r.card.most, r.card.family = []float32{0}, []uint8{0}
	for i, n := range m.names {
		r.at[n] = i
	}
	version := r.document(doc.Content[0])
	if len(r.errs) > 0 {
		return errors.Join(r.errs...)
	}
	m.version = version + "-" + hash
	m.card, m.bias, m.reasons = &r.card, r.card.bias, r.why
	m.card.importance(m.weight)
	m.used(r.uses)
	return nil
}

func (r *cardReader) fail(n *yaml.Node, format string, args ...any) {
	if len(r.errs) < maxCardErrors {
		r.errs = append(r.errs, fmt.Errorf("line %d: %w", n.Line, fmt.Errorf(format, args...)))
	}
}

// field reads the value of one key.
type field func(v *yaml.Node)

// fields reads a mapping, and reports keys that are unknown or appear twice.
func (r *cardReader) fields(n *yaml.Node, what string, known map[string]field) map[string]bool {
	have := map[string]bool{}
	if n.Kind != yaml.MappingNode {
		r.fail(n, "%s: keys with values are expected here", what)
		return have
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		read, ok := known[k.Value]
		switch {
		case !ok:
			keys := make([]string, 0, len(known))
			for name := range known {
				keys = append(keys, name)
			}
			slices.Sort(keys)
			r.fail(k, "%s has no key %.60q; it may have %s", what, k.Value, strings.Join(keys, ", "))
		case have[k.Value]:
			r.fail(k, "%s occurs twice", k.Value)
		default:
			have[k.Value] = true
			read(v)
		}
	}
	return have
}

// list calls f for every element.
func (r *cardReader) list(n *yaml.Node, what string, most int, f func(*yaml.Node)) {
	switch {
	case n.Kind != yaml.SequenceNode:
		r.fail(n, "%s: a list is expected here", what)
	case len(n.Content) > most:
		r.fail(n, "%s: %d entries, more than %d", what, len(n.Content), most)
	default:
		for _, c := range n.Content {
			f(c)
		}
	}
}

func (r *cardReader) text(n *yaml.Node, what string) string {
	if n.Kind != yaml.ScalarNode || len(n.Value) > 200 || strings.ContainsAny(n.Value, "\r\n") {
		r.fail(n, "%s: one line of text is expected here, of at most 200 bytes", what)
		return ""
	}
	return n.Value
}

func (r *cardReader) number(n *yaml.Node, what string) float32 {
	v, err := strconv.ParseFloat(n.Value, 32)
	if n.Kind != yaml.ScalarNode || err != nil || isBad(float32(v)) {
		r.fail(n, "%s: %.60q is not a number", what, n.Value)
		return 0
	}
	return float32(v)
}

func (r *cardReader) weight(n *yaml.Node, what string) float32 {
	v := r.number(n, what)
	if abs(v) > maxCardWeight {
		r.fail(n, "%s: %v is not between -%d and %d", what, v, maxCardWeight, maxCardWeight)
	}
	return v
}

func (r *cardReader) truth(n *yaml.Node, what string) bool {
	if n.Kind != yaml.ScalarNode || n.Value != "true" && n.Value != "false" {
		r.fail(n, "%s: %.60q is neither true nor false", what, n.Value)
	}
	return n.Value == "true"
}

// factor returns the position of a factor given its name; -1 if there is none.
func (r *cardReader) factor(n *yaml.Node) int {
	name := r.text(n, "name of a factor")
	i, ok := r.at[name]
	if !ok {
		r.fail(n, "%w", noFactor(name, r.names))
		return -1
	}
	r.uses[i] = true
	return i
}

func (r *cardReader) document(n *yaml.Node) (version string) {
	r.groups(n)
	have := r.fields(n, "a score card", map[string]field{
		"groups": func(*yaml.Node) {}, // already read
		"learnt": func(*yaml.Node) {}, // for package learn
		"version": func(v *yaml.Node) {
			if version = r.text(v, "version"); !cardVersion.MatchString(version) {
				r.fail(v, "version: up to 32 letters, digits and . _ - are expected here, not %.60q", version)
			}
		},
		"bias": func(v *yaml.Node) { r.card.bias = float64(r.weight(v, "bias")) },
		"factors": func(v *yaml.Node) {
			r.list(v, "factors", maxCardFactors, r.bins)
		},
		"rules": func(v *yaml.Node) { r.list(v, "rules", maxCardRules, r.rule) },
	})
	for _, key := range []string{"version", "bias", "factors"} {
		if !have[key] && len(r.errs) == 0 {
			r.fail(n, "a score card needs %s", key)
		}
	}
	return version
}

// groups reads the groups before everything else, wherever they are.
func (r *cardReader) groups(n *yaml.Node) {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value != "groups" {
			continue
		}
		r.list(n.Content[i+1], "groups", maxCardGroups, func(n *yaml.Node) {
			var name string
			var most float32
			var family uint8
			have := r.fields(n, "a group", map[string]field{
				"name":   func(v *yaml.Node) { name = r.text(v, "name") },
				"family": func(v *yaml.Node) { family = r.family(v) },
				"most": func(v *yaml.Node) {
					if most = r.weight(v, "most"); most <= 0 {
						r.fail(v, "most: %v is not above 0", most)
					}
				},
			})
			if !have["name"] || !have["most"] {
				r.fail(n, "a group needs name and most")
			}
			if r.group[name] != 0 {
				r.fail(n, "group %.60q stands twice", name)
			}
			r.group[name] = len(r.card.most)
			r.card.most, r.card.family = append(r.card.most, most), append(r.card.family, family)
		})
	}
}

// family reads the name of a family, and numbers it from 1 on.
func (r *cardReader) family(v *yaml.Node) uint8 {
	name := r.text(v, "family")
	if name == "" {
		r.fail(v, "family: a name is expected here")
	}
	i := slices.Index(r.families, name)
	if i < 0 {
		i = len(r.families)
		r.families = append(r.families, name)
	}
	return uint8(i + 1)
}

// member reads the name of a group.
func (r *cardReader) member(v *yaml.Node) int {
	g, ok := r.group[r.text(v, "group")]
	if !ok {
		r.fail(v, "group: there is no group %.60q", v.Value)
	}
	return g
}

func (r *cardReader) bins(n *yaml.Node) {
	f := cardFactor{factor: -1}
	var why string
	var lines []*yaml.Node
	have := r.fields(n, "an entry of factors", map[string]field{
		"name":    func(v *yaml.Node) { f.factor = r.factor(v) },
		"group":   func(v *yaml.Node) { f.group = r.member(v) },
		"why":     func(v *yaml.Node) { why = r.text(v, "why") },
		"unknown": func(v *yaml.Node) { f.unknown = r.weight(v, "unknown") },
		"bins": func(v *yaml.Node) {
			r.list(v, "bins", maxCardBins, func(b *yaml.Node) {
				var bin cardBin
				if !r.span(b, "a bin", &bin.span, map[string]field{
					"weight": func(v *yaml.Node) { bin.weight = r.weight(v, "weight") },
				})["weight"] {
					r.fail(b, "a bin needs weight")
				}
				for i, other := range f.bins {
					if bin.from < other.below && other.from < bin.below {
						r.fail(b, "this bin overlaps the one of line %d", lines[i].Line)
					}
				}
				f.bins, lines = append(f.bins, bin), append(lines, b)
			})
		},
	})
	switch {
	case !have["name"]:
		r.fail(n, "an entry of factors needs name")
	case f.factor < 0: // already reported
	case r.set[f.factor]:
		r.fail(n, "factor %s has an entry already", r.names[f.factor])
	default:
		r.set[f.factor] = true
		r.why[f.factor] = why
		slices.SortFunc(f.bins, func(a, b cardBin) int { return cmp.Compare(a.from, b.from) })
		r.card.factors = append(r.card.factors, f)
	}
}

// span reads from, below or is, in addition to the keys in more.
func (r *cardReader) span(n *yaml.Node, what string, s *span, more map[string]field) map[string]bool {
	*s = everything()
	one := everything()
	more["from"] = func(v *yaml.Node) { s.from = r.number(v, "from") }
	more["below"] = func(v *yaml.Node) { s.below = r.number(v, "below") }
	more["is"] = func(v *yaml.Node) { one = just(r.number(v, "is")) }
	before := len(r.errs)
	have := r.fields(n, what, more)
	switch {
	case len(r.errs) > before:
	case have["is"] && (have["from"] || have["below"]):
		r.fail(n, "%s has either is, or from and below", what)
	case have["is"]:
		*s = one
	case !have["from"] && !have["below"]:
		r.fail(n, "%s needs from, below or is", what)
	case s.from >= s.below:
		r.fail(n, "from %v is not under below %v", s.from, s.below)
	}
	return have
}

func (r *cardReader) rule(n *yaml.Node) {
	var rule cardRule
	have := r.fields(n, "a rule", map[string]field{
		"name":   func(v *yaml.Node) { r.text(v, "name") },
		"weight": func(v *yaml.Node) { rule.weight = r.weight(v, "weight") },
		"group":  func(v *yaml.Node) { rule.group = r.member(v) },
		"all": func(v *yaml.Node) {
			r.list(v, "all", maxCardTerms, func(n *yaml.Node) {
				t := cardTerm{factor: -1}
				if !r.span(n, "a condition", &t.span, map[string]field{
					"factor":  func(v *yaml.Node) { t.factor = r.factor(v) },
					"unknown": func(v *yaml.Node) { t.unknown = r.truth(v, "unknown") },
				})["factor"] {
					r.fail(n, "a condition needs factor")
				}
				rule.terms = append(rule.terms, t)
			})
		},
	})
	for _, key := range []string{"name", "weight", "all"} {
		if !have[key] {
			r.fail(n, "a rule needs %s", key)
		}
	}
	if have["all"] && len(rule.terms) == 0 {
		r.fail(n, "a rule needs at least one condition")
	}
	r.card.rules = append(r.card.rules, rule)
}
