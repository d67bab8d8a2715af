// Package inline reads messages from the requests that people post: forms, JSON, parts, fields of the head.
//
// Nothing of a request is changed or kept, and every reading has a bound.
package inline

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"mime"
	"net/netip"
	"strconv"
	"strings"

	"antirobot/message"
	"antirobot/rules"
)

// Source says where an attribute of a message is read from.
type Source struct {
	Attribute string `mapstructure:"attribute"`
	From      string `mapstructure:"from"` // form, json, multipart, query, header, subject or address
	Key       string `mapstructure:"key"`  // field, JSON pointer or header; "*" in a pointer stands for all elements
}

// Config says how the messages of a route are read.
type Config struct {
	Sources     []Source `mapstructure:"sources"`
	MaxBody     int64    `mapstructure:"max_body"`     // bytes as they are sent
	MaxExpanded int64    `mapstructure:"max_expanded"` // bytes after decompression
}

// DefaultConfig returns limits, and no sources.
func DefaultConfig() Config {
	return Config{MaxBody: 256 << 10, MaxExpanded: 1 << 20}
}

// Validate returns all errors of c with their paths.
func (c Config) Validate() error {
	var v problems
	if len(c.Sources) == 0 {
		v.addf("sources: there is none")
	}
	for i, s := range c.Sources {
		if s.Attribute == "" {
			v.addf("sources[%d].attribute: must be given", i)
		}
		switch s.From {
		case "form", "multipart", "query", "header":
			if s.Key == "" {
				v.addf("sources[%d].key: must be given", i)
			}
		case "json":
			if s.Key != "" && s.Key[0] != '/' {
				v.addf("sources[%d].key: a JSON pointer begins with /", i)
			}
		case "subject", "address":
		default:
			v.addf("sources[%d].from: %q is not form, json, multipart, query, header, subject or address", i, s.From)
		}
	}
	if c.MaxBody <= 0 {
		v.addf("max_body: must be greater than zero")
	}
	if c.MaxExpanded <= 0 {
		v.addf("max_expanded: must be greater than zero")
	}
	return errors.Join(v...)
}

// problems gathers what is wrong with a configuration.
type problems []error

func (p *problems) addf(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

// What is wrong with a body that can't be read. What happens then is the route's config: nothing is skipped silently.
var (
	ErrTooLarge   = errors.New("the body is too large")
	ErrUnreadable = errors.New("the body is not readable")
)

// Input is the request that a message is read from. Nothing of it is changed or kept.
type Input struct {
	ContentType     string
	ContentEncoding string
	Body            []byte
	Query           string                     // raw
	Header          func(name string) []string // all values of a header field
	Subject         string                     // who asks, as kind:id
	Address         netip.Addr
}

const (
	maxFields = 1000 // of a form
	maxParts  = 100  // of a multipart body
)

// Values reads the values of a message of domain d, for System.Judge. What is not there is left out. Texts become what
// the attribute's type asks for, as HTTP has no types; a text that can't is ErrUnreadable. Several values of one field
// are joined by newlines, so that it does not matter which one the service reads.
func (c Config) Values(d *message.Domain, in Input) (map[string]any, error) {
	known, maxText, err := d.Attributes()
	if err != nil {
		return nil, err
	}
	if err := c.spoken(in); err != nil {
		return nil, err
	}
	r := reader{in: in, limits: c}
	out := make(map[string]any, len(c.Sources))
	for _, s := range c.Sources {
		kind := rules.None
		for _, a := range known {
			if a.Name == s.Attribute {
				kind, _ = a.Kind()
			}
		}
		if kind == rules.None {
			return nil, rules.Faultf(message.CodeProperty, "messages of the domain %s have no attribute %q", d.Path(), s.Attribute)
		}
		values, err := r.read(s)
		if err != nil {
			return nil, err
		}
		if len(values) == 0 {
			continue
		}
		if out[s.Attribute], err = shaped(kind, s, values); err != nil {
			return nil, fmt.Errorf("attribute %s: %w", s.Attribute, err)
		}
		if text, ok := out[s.Attribute].(string); ok && len(text) > maxText {
			return nil, fmt.Errorf("attribute %s: %w: the text has %d bytes", s.Attribute, ErrTooLarge, len(text))
		}
	}
	return out, nil
}

// spoken refuses a body of a type that none of the sources reads: the service may read it all the same.
func (c Config) spoken(in Input) error {
	if len(in.Body) == 0 {
		return nil
	}
	media, _, _ := mime.ParseMediaType(in.ContentType)
	reads := false
	for _, s := range c.Sources {
		switch s.From {
		case "form", "json", "multipart":
			if speaks(media, s.From) {
				return nil
			}
			reads = true
		}
	}
	if !reads {
		return nil
	}
	return fmt.Errorf("%w: content type %q", ErrUnreadable, rules.Clip(in.ContentType, 64))
}

// Fingerprint is a hash of what a message says, the same when its sender sends it again: what depends on who asks, and
// how a body is written (boundaries, order, encodings), is not part of it.
func (c Config) Fingerprint(values map[string]any) [sha256.Size]byte {
	h := sha256.New()
	var n [8]byte
	text := func(s string) {
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		io.WriteString(h, s) //nolint:errcheck,gosec // a hash does not fail
	}
	for _, s := range c.Sources {
		if s.From == "subject" || s.From == "address" {
			continue
		}
		if v, ok := values[s.Attribute]; ok {
			text(s.Attribute)
			text(fmt.Sprint(v))
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// shaped turns what was read into a value of a kind.
func shaped(kind rules.Kind, s Source, values []string) (any, error) {
	switch kind {
	case rules.Int, rules.UniqueInt:
		n, err := strconv.ParseInt(message.TrimText(values[0]), 10, 64)
		if err == nil {
			return n, nil
		}
		if kind == rules.UniqueInt && s.From != "json" {
			// Who it is matters and not the number: a name or a subject has one, too.
			h := fnv.New64a()
			io.WriteString(h, strings.ToLower(values[0])) //nolint:errcheck,gosec // a hash does not fail
			return int64(h.Sum64() >> 1), nil
		}
		return nil, fmt.Errorf("%w: not a whole number", ErrUnreadable)
	case rules.IP:
		addr, err := netip.ParseAddr(message.TrimText(values[0]))
		if err != nil {
			return nil, fmt.Errorf("%w: not an address", ErrUnreadable)
		}
		return addr.WithZone(""), nil
	default:
		return strings.Join(values, "\n"), nil
	}
}
