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
	Key       string `mapstructure:"key"`      // field, JSON pointer or header; "*" in a pointer stands for all elements
	Optional  bool   `mapstructure:"optional"` // the message is one without it, too
}

// Config says how the messages of a route are read.
type Config struct {
	Sources []Source `mapstructure:"sources"`
	MaxBody int64    `mapstructure:"max_body"` // bytes as they are sent
	Charset string   `mapstructure:"charset"`  // of texts that are no UTF-8 and name none; empty: guessed
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

// problems gathers what is wrong with a configuration.
type problems []error

func (p *problems) addf(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

// What is wrong with a body that can't be read. What happens then is the route's config: nothing is skipped silently.
var (
	ErrTooLarge   = errors.New("the body is too large")
	ErrUnreadable = errors.New("the body is not readable")
	ErrMissing    = errors.New("the message lacks it")
)

// Input is the request that a message is read from. Nothing of it is changed or kept.
type Input struct {
	ContentType     string
	ContentEncoding string
	Body            []byte
	Query           string                     // raw
	Header          func(name string) []string // all values of a header field
	Subject         string                     // the sender, as kind:id
	Address         netip.Addr
}

const (
	maxFields = 1000 // of a form
	maxParts  = 100  // of a multipart body
	expansion = 4    // times MaxBody is what a body may have after decompression
)

// maxReadings bounds what a message may say at once.
const maxReadings = 16

// Values reads the values of a message of domain d, for System.JudgeInline. Texts become what the attribute's type asks
// for, as HTTP has no types; a text that can't is ErrUnreadable, an attribute that is not there ErrMissing.
//
// The first reading has all values of each attribute, joined by newlines. Where it depends on the service which one it
// reads (a name that occurs twice, or in another case), a reading for each of them follows.
func (c Config) Values(d *message.Domain, in Input) (readings []map[string]any, err error) {
	known, maxText, err := d.Attributes()
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
		if text, ok := joined[name].(string); ok && len(text) > maxText {
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

// found is what the sources of an attribute have.
type found struct {
	values []string
	twice  bool // which of the values a service reads is not known
	json   bool
}

// gather reads all sources.
func (c Config) gather(d *message.Domain, known []message.AttributeConfig, in Input) (map[string]*found, map[string]rules.Kind, error) {
	r := newReader(in, c)
	all, kinds := make(map[string]*found), make(map[string]rules.Kind)
	for _, s := range c.Sources {
		for _, a := range known {
			if a.Name == s.Attribute {
				kinds[a.Name], _ = a.Kind()
			}
		}
		if kinds[s.Attribute] == rules.None {
			return nil, nil, rules.Faultf(message.CodeProperty, "messages of the domain %s have no attribute %q", d.Path(), s.Attribute)
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

// spoken refuses a body of a type that none of the sources reads, since the service may read it nevertheless.
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

// Fingerprint is a hash of what a message says, the same when its sender sends it again: what depends on the sender, and
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
func shaped(kind rules.Kind, fromJSON bool, values []string) (any, error) {
	switch kind {
	case rules.Int, rules.UniqueInt:
		n, err := strconv.ParseInt(message.TrimText(values[0]), 10, 64)
		if err == nil {
			return n, nil
		}
		if kind == rules.UniqueInt && !fromJSON {
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
