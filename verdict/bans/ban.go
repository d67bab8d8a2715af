// Package bans holds live bans: their form, their records in the store, and the table that requests are looked up in.
// Package verdict makes and lifts them.
package bans

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"time"

	"antirobot/identity"
	"antirobot/verdict/replicate"
)

// Source says who made a ban.
type Source uint8

// The sources.
const (
	SourceAPI       Source = iota // the operator: applies whatever the score
	SourceProcessor               // the slow half: applies where the score exceeds the service's threshold
)

func (s Source) String() string {
	if s == SourceProcessor {
		return "processor"
	}
	return "api"
}

// MaxFactors is how many factors of a judgement a ban keeps.
const MaxFactors = 3

// The longest texts that a ban keeps, in bytes.
const (
	maxReason = 512
	MaxName   = 64 // also of services, models and factors
)

// Factor is one number that counted towards a ban.
type Factor struct {
	Name   string
	Value  float32
	Amount float32 // added to the score, in log-odds; 0 if the ban does not come from a formula
}

// Ban is a conclusion about one subject that holds until a given time. It is a plain value; the strings are immutable.
type Ban struct {
	Subject   identity.Subject
	Until     time.Time
	Made      time.Time // zero: the time of the call that makes it
	Service   string    // the service it holds for; empty: all
	Source    Source
	Score     float32 // of the judgement, 0 to 1
	Threshold float32 // that the score was compared with when the ban was made
	Reason    string
	Factors   [MaxFactors]Factor // the strongest first; an empty name ends them
	Model     string             // version of the formula; empty for limits and for the operator
	Only      uint32             // the one client of an address that the ban stops (Event.Client); 0: all of its clients

	Lifted bool // the ban was lifted: only its times are kept, until it would have ended
}

// Holds reports whether the ban, while it lasts, stops requests to a service with this threshold.
func (b *Ban) Holds(service string, threshold float32) bool {
	if b.Service != "" && b.Service != service {
		return false
	}
	return b.Source == SourceAPI || b.Score > threshold
}

// Validate returns the reasons why the ban can't be made at the given time.
func (b *Ban) Validate(at time.Time) error {
	var errs []error
	if b.Subject.Kind == identity.KindNone || b.Subject.Kind > identity.KindIP {
		errs = append(errs, errors.New("subject: has no kind"))
	}
	if !b.Until.After(at) {
		errs = append(errs, errors.New("until: is in the past"))
	}
	if b.Source > SourceProcessor {
		errs = append(errs, errors.New("source: is unknown"))
	}
	if !(b.Score >= 0 && b.Score <= 1) {
		errs = append(errs, fmt.Errorf("score: %v is not in [0, 1]", b.Score))
	}
	if !(b.Threshold >= 0 && b.Threshold <= 1) {
		errs = append(errs, fmt.Errorf("threshold: %v is not in [0, 1]", b.Threshold))
	}
	for _, text := range [...]struct {
		of, is string
		most   int
	}{{"reason", b.Reason, maxReason}, {"service", b.Service, MaxName}, {"model", b.Model, MaxName}} {
		if len(text.is) > text.most {
			errs = append(errs, fmt.Errorf("%s: longer than %d bytes", text.of, text.most))
		}
	}
	for i := range b.Factors {
		if len(b.Factors[i].Name) > MaxName {
			errs = append(errs, fmt.Errorf("factors[%d]: name longer than %d bytes", i, MaxName))
		}
		for _, v := range [...]float64{float64(b.Factors[i].Value), float64(b.Factors[i].Amount)} {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				errs = append(errs, fmt.Errorf("factors[%d]: %v is not a number", i, v)) // JSON could not print it either
			}
		}
	}
	return errors.Join(errs...)
}

// Key identifies a ban: there is at most one per key. The operator's and the processor's bans exist side by side, as
// do those of different services.
type Key struct {
	Subject identity.Subject
	Source  Source
	Service string
}

// Key is the key of the ban.
func (b *Ban) Key() Key { return Key{Subject: b.Subject, Source: b.Source, Service: b.Service} }

// Prefix begins the keys of all bans in the store.
const Prefix = "ban/"

func (k *Key) code(c *replicate.Codec) {
	c.Subject(&k.Subject)
	replicate.Uint(c, &k.Source)
	c.Text(&k.Service, MaxName)
	c.Fail(k.Source > SourceProcessor)
}

// AppendTo appends the key in the store.
func (k Key) AppendTo(dst []byte) []byte {
	c := replicate.Writer(append(dst, Prefix...), 0)
	k.code(c)
	return c.Bytes()
}

func (b *Ban) code(c *replicate.Codec) {
	c.Time(&b.Until)
	c.Time(&b.Made)
	if c.Bool(&b.Lifted); b.Lifted {
		return
	}
	c.Float(&b.Score)
	c.Float(&b.Threshold)
	replicate.Uint(c, &b.Only)
	c.Text(&b.Reason, maxReason)
	c.Text(&b.Model, MaxName)
	CodeFactors(c, &b.Factors)
}

// Code writes or reads a whole ban, as nodes tell it each other. The caller validates what is read.
func (b *Ban) Code(c *replicate.Codec) {
	k := b.Key()
	k.code(c)
	b.Subject, b.Source, b.Service = k.Subject, k.Source, k.Service
	b.code(c)
}

// CodeFactors writes or reads the factors of a judgement.
func CodeFactors(c *replicate.Codec, list *[MaxFactors]Factor) {
	for i := range list {
		f := &list[i]
		if c.Text(&f.Name, MaxName); f.Name == "" {
			return
		}
		c.Float(&f.Value)
		c.Float(&f.Amount)
	}
}

// AppendValue appends the record in the store, without the key. skew is by how much the store's clock is ahead.
func (b *Ban) AppendValue(dst []byte, skew time.Duration) []byte {
	c := replicate.Writer(dst, skew)
	b.code(c)
	return c.Bytes()
}

// ErrMalformed is returned for a record that is not a ban.
var ErrMalformed = errors.New("malformed ban")

// Parse reads a ban from the store. It does not point into key or val.
func Parse(key, val []byte, skew time.Duration) (b Ban, err error) {
	rest, ok := bytes.CutPrefix(key, []byte(Prefix))
	var k Key
	c := replicate.Reader(rest, 0)
	k.code(c)
	v := replicate.Reader(val, skew)
	b.code(v)
	b.Subject, b.Source, b.Service = k.Subject, k.Source, k.Service
	if !ok || !c.OK() || !v.OK() || b.Validate(time.Unix(0, math.MinInt64)) != nil {
		return Ban{}, ErrMalformed
	}
	return b, nil
}

// Story is a ban as JSON shows it.
type Story struct {
	Subject   string             `json:"subject"`
	Until     time.Time          `json:"until"`
	Made      time.Time          `json:"made"`
	Service   string             `json:"service,omitempty"` // empty: all services
	Source    string             `json:"source"`
	Score     float32            `json:"score,omitempty"`
	Threshold float32            `json:"threshold,omitempty"`
	Reason    string             `json:"reason,omitempty"`
	Factors   map[string]float32 `json:"factors,omitempty"`
	Amounts   map[string]float32 `json:"amounts,omitempty"` // what each factor added to the score, in log-odds
	Model     string             `json:"model,omitempty"`
	OneClient bool               `json:"one_client,omitempty"` // it stops one client of the address only
}

// Story returns the ban as JSON shows it.
func (b *Ban) Story() *Story {
	s := &Story{
		Subject: b.Subject.String(), Until: b.Until.UTC(), Made: b.Made.UTC(), Service: b.Service, Source: b.Source.String(),
		Score: b.Score, Threshold: b.Threshold, Reason: b.Reason, Model: b.Model, OneClient: b.Only != 0,
	}
	s.Factors, s.Amounts = FactorMaps(&b.Factors)
	return s
}

// FactorMaps returns the values of factors by name, and what each added to the score; nil where there is nothing.
func FactorMaps(list *[MaxFactors]Factor) (values, amounts map[string]float32) {
	put := func(m *map[string]float32, name string, x float32) {
		if *m == nil {
			*m = make(map[string]float32, MaxFactors)
		}
		(*m)[name] = x
	}
	for _, f := range list {
		if f.Name != "" {
			put(&values, f.Name, f.Value)
		}
		if f.Name != "" && f.Amount != 0 {
			put(&amounts, f.Name, f.Amount)
		}
	}
	return values, amounts
}
