// Package message judges the texts that people post: SpamFighter's domains, messages, firewalls, models and logs.
//
// Invariants:
//  1. A partner reaches the domains below its own root and nothing else.
//  2. A property acts for the domain that owns it: subdomains share the counters, models and logs that they inherit.
//  3. Values are typed and nothing is coerced.
//  4. Rules, models and logs survive a restart. A learnt text is durable when Train returns; log entries are written
//     in batches (logFlush).
//  5. Ids of a log are unique over all gateways and never reused.
//  6. Everything that can grow has a bound.
package message

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	"antirobot/rules"
)

// The codes of the API; package rules has the others.
const (
	CodeMissing       = 1001
	CodeCommand       = 1002
	CodeUnknown       = 1004
	CodeType          = 1005
	CodeAuthorisation = 2001
	CodeDomain        = 2002
	CodeProperty      = 2003
	CodeModel         = 2005
	CodeAttribute     = 2006
	CodeFirewall      = 2007
	CodeSyntax        = 2008
	CodeLog           = 2009
	CodeUnexpected    = 99000
	CodeResult        = 99002
)

type attribute struct {
	Name  string      `json:"n"`
	Value rules.Value `json:"v"`
}

// Message has only attributes of its message domain. The zero value is empty.
type Message struct {
	attributes []attribute
}

// Attribute returns the value called name.
func (m *Message) Attribute(name string) (rules.Value, bool) {
	for i := range m.attributes {
		if m.attributes[i].Name == name {
			return m.attributes[i].Value, true
		}
	}
	return rules.Value{}, false
}

type messageDomain struct{ attributes []AttributeConfig }

// AttributeConfig declares an attribute.
type AttributeConfig struct {
	Name string `mapstructure:"name"`
	Type string `mapstructure:"type"` // Text, Int, UniqueInt or IP
}

// Kind returns the type; false for an unknown one.
func (a AttributeConfig) Kind() (rules.Kind, bool) {
	for _, k := range []rules.Kind{rules.Text, rules.Int, rules.UniqueInt, rules.IP} {
		if a.Type == k.String() {
			return k, true
		}
	}
	return rules.None, false
}

func (d *messageDomain) read(values map[string]any) (*Message, error) {
	m := &Message{attributes: make([]attribute, 0, len(values))}
	for _, a := range d.attributes {
		raw, ok := values[a.Name]
		if !ok {
			continue
		}
		kind, _ := a.Kind()
		v, err := typed(kind, raw)
		if err != nil {
			return nil, rules.Faultf(CodeType, "attribute %s: %v", a.Name, err)
		}
		m.attributes = append(m.attributes, attribute{a.Name, v})
	}
	if len(m.attributes) == len(values) {
		return m, nil
	}
	for name := range values {
		if _, ok := m.Attribute(name); !ok {
			return nil, rules.Faultf(CodeProperty, "messages of this domain have no attribute %q", rules.Clip(name, 64))
		}
	}
	panic("BUG: an attribute is declared twice")
}

func typed(kind rules.Kind, raw any) (rules.Value, error) {
	switch kind {
	case rules.Text:
		s, ok := raw.(string)
		switch {
		case !ok:
			return rules.Value{}, fmt.Errorf("%s is not a text", TypeName(raw))
		case len(s) > MaxText:
			return rules.Value{}, fmt.Errorf("the text has %d bytes, more than %d", len(s), MaxText)
		case !utf8.ValidString(s):
			return rules.Value{}, errors.New("the text is not UTF-8")
		}
		return rules.Value{Kind: rules.Text, Text: TrimText(s)}, nil
	case rules.Int, rules.UniqueInt:
		n, ok := raw.(int64)
		if !ok {
			return rules.Value{}, fmt.Errorf("%s is not a whole number", TypeName(raw))
		}
		return rules.Value{Kind: kind, Int: n}, nil
	case rules.IP:
		switch a := raw.(type) {
		case netip.Addr:
			return rules.Value{Kind: rules.IP, IP: a.Unmap()}, nil
		case string:
			addr, err := netip.ParseAddr(TrimText(a))
			if err != nil || addr.Zone() != "" {
				return rules.Value{}, errors.New("the text is not an address")
			}
			return rules.Value{Kind: rules.IP, IP: addr.Unmap()}, nil
		}
		return rules.Value{}, fmt.Errorf("%s is not an address", TypeName(raw))
	}
	panic("BUG: a message domain with the type " + kind.String())
}

// TrimText removes white space at both ends, as Unicode and Python define it.
func TrimText(s string) string {
	return strings.TrimFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f || r == 0xfeff || r == 0x200b
	})
}

// TypeName names the type of a decoded value for errors.
func TypeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a text"
	case int64:
		return "a whole number"
	case float64:
		return "a fraction"
	case bool:
		return "a boolean"
	case []byte:
		return "binary data"
	case []any:
		return "a list"
	case map[string]any:
		return "a struct"
	default:
		return fmt.Sprintf("a %T", v)
	}
}

func plain(v rules.Value) any {
	switch v.Kind {
	case rules.Text:
		return v.Text
	case rules.Int, rules.UniqueInt:
		return v.Int
	case rules.IP:
		return v.IP.String()
	default:
		return nil
	}
}

// Values returns the message's attributes as JSON shows them.
func (m *Message) Values() map[string]any {
	out := make(map[string]any, len(m.attributes))
	for _, a := range m.attributes {
		out[a.Name] = plain(a.Value)
	}
	return out
}
