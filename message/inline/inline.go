// Package inline reads messages from forms, JSON, multipart bodies, queries and header fields.
//
// A request is neither changed nor kept, and everything read has a bound. Services differ in how leniently they
// read, so every reading that a service is known to use is judged.
package inline

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/text/encoding/htmlindex"

	"antirobot/message"
	"antirobot/rules"
)

// Source says where an attribute of a message is read from.
type Source struct {
	Attribute string `mapstructure:"attribute"`
	From      string `mapstructure:"from"`     // form, json, multipart, query, header, subject or address
	Key       string `mapstructure:"key"`      // field, JSON pointer ("*": all elements) or header
	Optional  bool   `mapstructure:"optional"` // a message may lack it
}

// Config says how the messages of a route are read.
type Config struct {
	Sources []Source `mapstructure:"sources"`
	MaxBody int64    `mapstructure:"max_body"`
	Charset string   `mapstructure:"charset"` // of texts that are not UTF-8 and name none; empty: guessed
}

// DefaultConfig returns limits, and no sources.
func DefaultConfig() Config {
	return Config{MaxBody: 256 << 10}
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
	if c.Charset != "" {
		if _, err := htmlindex.Get(c.Charset); err != nil {
			v.addf("charset: %q is not known", c.Charset)
		}
	}
	return errors.Join(v...)
}

type problems []error

func (p *problems) addf(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

// Reasons why a body can't be read; the route says what follows.
var (
	ErrTooLarge   = errors.New("the body is too large")
	ErrUnreadable = errors.New("the body is not readable")
	ErrMissing    = errors.New("the message lacks it")
)

// Input is the request that a message is read from.
type Input struct {
	ContentType     string
	ContentEncoding string
	Body            []byte
	Query           string
	Header          func(name string) []string
	Subject         string
	Address         netip.Addr
}

const (
	maxFields = 1000
	maxParts  = 100
	expansion = 4 // times MaxBody is the bound after decompression
)

const maxReadings = 16

// Values reads the messages of domain d for System.JudgeInline and converts texts to the types of the attributes. A
// text that can't be converted is ErrUnreadable, an absent attribute ErrMissing.
//
// The first reading joins all values of each attribute by newlines. If services differ in which value they read,
// one reading for each of them follows.
func (c Config) Values(d *message.Domain, in Input) (readings []map[string]any, err error) {
	known, err := d.Attributes()
	if err != nil {
		return nil, err
	}
	if err := c.spoken(in); err != nil {
		return nil, err
	}
	all, kinds, err := c.gather(d, known, in)
	if err != nil {
		return nil, err
	}
	joined := make(map[string]any, len(all))
	for name, f := range all {
		if joined[name], err = shaped(kinds[name], f.json, f.values); err != nil {
			return nil, fmt.Errorf("attribute %s: %w", name, err)
		}
		if text, ok := joined[name].(string); ok && len(text) > message.MaxText {
			return nil, fmt.Errorf("attribute %s: %w: the text has %d bytes", name, ErrTooLarge, len(text))
		}
	}
	readings = append(readings, joined)
	for _, a := range known {
		f := all[a.Name]
		if f == nil || !f.twice {
			continue
		}
		for i := range f.values {
			one := maps.Clone(joined)
			if one[a.Name], err = shaped(kinds[a.Name], f.json, f.values[i:i+1]); err != nil {
				return nil, fmt.Errorf("attribute %s: %w", a.Name, err)
			}
			if readings = append(readings, one); len(readings) > maxReadings {
				return nil, fmt.Errorf("attribute %s: %w: it can be read in too many ways", a.Name, ErrUnreadable)
			}
		}
	}
	return readings, nil
}

type found struct {
	values []string
	twice  bool // services differ in which value they read
	json   bool
}

func (c Config) gather(d *message.Domain, known []message.AttributeConfig, in Input) (
	map[string]*found, map[string]rules.Kind, error,
) {
	r := newReader(in, c)
	all, kinds := make(map[string]*found), make(map[string]rules.Kind)
	for _, s := range c.Sources {
		for _, a := range known {
			if a.Name == s.Attribute {
				kinds[a.Name], _ = a.Kind()
			}
		}
		if kinds[s.Attribute] == rules.None {
			return nil, nil, rules.Faultf(message.CodeProperty, "messages of the domain %s have no attribute %q",
				d.Path(), s.Attribute)
		}
		f, err := r.read(s)
		if err != nil {
			return nil, nil, err
		}
		if len(f.values) == 0 {
			continue
		}
		if before := all[s.Attribute]; before != nil {
			f.values, f.twice = append(before.values, f.values...), true
		}
		all[s.Attribute] = &f
	}
	for _, s := range c.Sources {
		if all[s.Attribute] == nil && !s.Optional && s.From != "subject" && s.From != "address" {
			return nil, nil, fmt.Errorf("attribute %s: %w", s.Attribute, ErrMissing)
		}
	}
	return all, kinds, nil
}

// spoken refuses a body type that no source reads: the service may read it all the same.
func (c Config) spoken(in Input) error {
	if len(in.Body) == 0 {
		return nil
	}
	content, reads := readContent(in.ContentType), false
	for _, s := range c.Sources {
		switch s.From {
		case "form", "json", "multipart":
			if content.speaks(s.From) {
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

// Fingerprint hashes the content of a message, regardless of its sender and encoding.
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

func shaped(kind rules.Kind, fromJSON bool, values []string) (any, error) {
	switch kind {
	case rules.Int, rules.UniqueInt:
		n, err := strconv.ParseInt(message.TrimText(values[0]), 10, 64)
		if err == nil {
			return n, nil
		}
		if kind == rules.UniqueInt && !fromJSON {
			// A UniqueInt identifies, so any text will do.
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
