// Package message judges the texts that people post: SpamFighter's domains, messages, firewalls, models, logs and API,
// independent of any server.
//
// Invariants:
//  1. A partner reaches the domains under its own root and nothing else; there is no path upwards.
//  2. A property is looked up in the domain and then in its ancestors; it acts for the domain that owns it: counters,
//     models and logs of an ancestor are shared by the domains that inherit them.
//  3. Values are typed and nothing is coerced.
//  4. Rules, models and logs are in the store and survive a restart. A text that was learnt is on disk when Train
//     returns; log entries are written in batches and the last ones may be lost with the process (logFlush).
//  5. Ids of a log are unique over all gateways and never used again.
//  6. Everything that can grow has a bound: texts, messages, storages, models, logs, rules, requests.
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

// The codes of the API beside those of package rules.
const (
	CodeMissing       = 1001  // a parameter is missing
	CodeCommand       = 1002  // there is no such command
	CodeUnknown       = 1004  // there is no such parameter
	CodeType          = 1005  // a value is of a wrong type
	CodeAuthorisation = 2001  // not authorised
	CodeDomain        = 2002  // there is no such domain
	CodeProperty      = 2003  // there is no such property, or no such attribute of messages
	CodeModel         = 2005  // not a model
	CodeAttribute     = 2006  // the message lacks the attribute
	CodeFirewall      = 2007  // not a firewall
	CodeSyntax        = 2008  // the rules are wrong
	CodeLog           = 2009  // not a message log
	CodeUnexpected    = 99000 // anything else
	CodeResult        = 99002 // a field of the result is missing
)

// attribute is a named value of a message.
type attribute struct {
	Name  string      `json:"n"`
	Value rules.Value `json:"v"`
}

// Message is what is judged. It holds only attributes that its message domain knows. The zero value is empty.
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

// Domain properties of a message: which attributes there are, and their types.
type messageDomain struct {
	attributes []AttributeConfig
	maxText    int // bytes
}

// AttributeConfig declares an attribute.
type AttributeConfig struct {
	Name string `mapstructure:"name"`
	Type string `mapstructure:"type"` // Text, Int, UniqueInt or IP
}

// Kind returns the type; false for one that there is not.
func (a AttributeConfig) Kind() (rules.Kind, bool) {
	for _, k := range []rules.Kind{rules.Text, rules.Int, rules.UniqueInt, rules.IP} {
		if a.Type == k.String() {
			return k, true
		}
	}
	return rules.None, false
}

// read makes a Message of values as codecs and readers give them: string, int64 or netip.Addr. Others are refused.
func (d *messageDomain) read(values map[string]any) (*Message, error) {
	m := &Message{attributes: make([]attribute, 0, len(values))}
	for _, a := range d.attributes {
		raw, ok := values[a.Name]
		if !ok {
			continue
		}
		kind, _ := a.Kind()
		v, err := typed(kind, raw, d.maxText)
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

func typed(kind rules.Kind, raw any, maxText int) (rules.Value, error) {
	switch kind {
	case rules.Text:
		s, ok := raw.(string)
		switch {
		case !ok:
			return rules.Value{}, fmt.Errorf("%s is not a text", TypeName(raw))
		case len(s) > maxText:
			return rules.Value{}, fmt.Errorf("the text has %d bytes, more than %d", len(s), maxText)
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

// TrimText removes white space at both ends, also what Unicode added to it.
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

// plain returns v as codecs write it.
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
