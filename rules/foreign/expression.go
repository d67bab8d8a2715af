package foreign

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// parser reads the expressions of Anubis, which are CEL, as far as rules can say them.
type parser struct {
	rest  string
	depth int
}

const (
	maxDepth      = 32
	maxExpression = 16 << 10
)

// parseExpression reads one expression.
func parseExpression(src string) (*node, error) {
	if len(src) > maxExpression || !utf8.ValidString(src) {
		return nil, errors.New("the expression is too long, or no text")
	}
	p := parser{rest: src}
	n, err := p.either()
	if err != nil {
		return nil, err
	}
	if p.space(); p.rest != "" {
		return nil, p.unknown()
	}
	return n, nil
}

func (p *parser) unknown() error {
	return fmt.Errorf("there is no rule for what begins with %.40q", p.rest)
}

func (p *parser) space() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

// take consumes a token if it is next.
func (p *parser) take(token string) bool {
	p.space()
	rest, ok := strings.CutPrefix(p.rest, token)
	if ok {
		p.rest = rest
	}
	return ok
}

func (p *parser) either() (*node, error) { return p.several("||", anyOf, p.both) }

func (p *parser) both() (*node, error) { return p.several("&&", allOf, p.one) }

func (p *parser) several(between string, k kind, next func() (*node, error)) (*node, error) {
	n, err := next()
	if err != nil {
		return nil, err
	}
	of := []*node{n}
	for p.take(between) {
		if n, err = next(); err != nil {
			return nil, err
		}
		of = append(of, n)
	}
	if len(of) == 1 {
		return of[0], nil
	}
	return &node{kind: k, of: of}, nil
}

func (p *parser) one() (*node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, errors.New("the expression is too deep")
	}
	defer func() { p.depth-- }()
	switch {
	case p.take("!"):
		n, err := p.one()
		if err != nil {
			return nil, err
		}
		return &node{kind: not, of: []*node{n}}, nil
	case p.take("("):
		n, err := p.either()
		if err == nil && !p.take(")") {
			err = p.unknown()
		}
		return n, err
	case p.take("missingHeader"):
		if name, ok := p.argument("(headers,"); ok {
			n, err := thereIsField(name)
			return &node{kind: not, of: []*node{n}}, err
		}
	case p.take("weight"):
		return p.weight()
	}
	if name, ok := p.text(); ok {
		if p.take("in ") && p.take("headers") {
			return thereIsField(name)
		}
		return nil, p.unknown()
	}
	return p.comparison()
}

// argument reads a text between open and a closing parenthesis.
func (p *parser) argument(open string) (string, bool) {
	if !p.take(open) {
		return "", false
	}
	s, ok := p.text()
	return s, ok && p.take(")")
}

// text reads a string literal.
func (p *parser) text() (string, bool) {
	p.space()
	if p.rest == "" || p.rest[0] != '"' && p.rest[0] != '\'' {
		return "", false
	}
	quote := p.rest[0]
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == quote:
			p.rest = p.rest[i+1:]
			return b.String(), true
		case c == '\\' && i+1 < len(p.rest) && strings.IndexByte(`\"'`, p.rest[i+1]) >= 0:
			i++
			b.WriteByte(p.rest[i])
		case c == '\\':
			return "", false // CEL's other escapes
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

// headerAttribute is the attribute of a field.
func headerAttribute(name string) (string, error) {
	name = strings.ToLower(name)
	switch {
	case name == "user-agent":
		return "ua", nil
	case name == "host":
		return "host", nil
	case name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "":
		return "", fmt.Errorf("%.40q is no field of a header", name)
	}
	return "header." + name, nil
}

func thereIsField(name string) (*node, error) {
	attribute, err := headerAttribute(name)
	return there(attribute), err
}

// comparison reads a variable and what is asked about it.
func (p *parser) comparison() (*node, error) {
	var attribute string
	optional := false
	switch {
	case p.take("headers["):
		name, ok := p.text()
		if !ok || !p.take("]") {
			return nil, p.unknown()
		}
		var err error
		if attribute, err = headerAttribute(name); err != nil {
			return nil, err
		}
		optional = true
	case p.take("userAgent"):
		attribute = "ua"
	case p.take("remoteAddress"):
		return p.address()
	case p.take("path"):
		attribute = "path"
	case p.take("method"):
		attribute = "method"
	case p.take("host"):
		attribute = "host"
	default:
		return nil, p.unknown()
	}
	n, err := p.asked(attribute)
	if err == nil && optional { // a field that is not there fails the whole expression
		n = &node{kind: allOf, of: []*node{there(attribute), n}}
	}
	return n, err
}

func (p *parser) asked(attribute string) (*node, error) {
	if equals := p.take("=="); equals || p.take("!=") {
		s, ok := p.text()
		if !ok {
			return nil, p.unknown()
		}
		n, err := equal(attribute, s)
		if err == nil && !equals {
			n = &node{kind: not, of: []*node{n}}
		}
		return n, err
	}
	for method, pattern := range map[string]string{".startsWith(": "^%s", ".endsWith(": `%s$`, ".contains(": "%s", ".matches(": ""} {
		s, ok := p.argument(method)
		switch {
		case !ok:
		case pattern != "":
			return matches(attribute, fmt.Sprintf(pattern, regexp.QuoteMeta(s)))
		default:
			return matches(attribute, s)
		}
	}
	return nil, p.unknown()
}

func (p *parser) address() (*node, error) {
	equals := p.take("==")
	if !equals && !p.take("!=") {
		return nil, p.unknown()
	}
	s, ok := p.text()
	if _, err := netip.ParseAddr(s); !ok || err != nil {
		return nil, p.unknown()
	}
	n := within([]string{s})
	if !equals {
		n = &node{kind: not, of: []*node{n}}
	}
	return n, nil
}

// within is a test that the address is in one of the networks.
func within(networks []string) *node {
	return &node{call: "networkCheck(networks=" + quoted(strings.Join(networks, ", ")) + ")", marks: true}
}

// weight reads a comparison of the sum of weights, which are whole numbers.
func (p *parser) weight() (*node, error) {
	for _, c := range []struct {
		sign  string
		below float64 // what the limit of "over" is below the number
		not   bool
	}{{">=", 0.5, false}, {"<=", 0, true}, {">", 0, false}, {"<", 0.5, true}} {
		if !p.take(c.sign) {
			continue
		}
		p.space()
		end := strings.IndexFunc(p.rest, func(r rune) bool { return !strings.ContainsRune("+-.0123456789", r) })
		if end < 0 {
			end = len(p.rest)
		}
		n, err := strconv.ParseFloat(p.rest[:end], 64)
		if err != nil {
			return nil, p.unknown()
		}
		p.rest = p.rest[end:]
		over := &node{call: "scoreOver(limit=" + strconv.FormatFloat(n-c.below, 'f', -1, 64) + ")", marks: true}
		if c.not {
			return &node{kind: not, of: []*node{over}}, nil
		}
		return over, nil
	}
	return nil, p.unknown()
}
