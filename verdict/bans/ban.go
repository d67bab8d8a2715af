// Package bans is what is known of bans: how one looks, how the store keeps it, and the table of those that are live, which
// is asked on the path of requests. Making and lifting them is the business of package verdict.
package bans

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"antirobot/identity"
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
	Amount float32 // what it added to the score, in log-odds; 0 if the ban does not come from a formula
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

	// Only is the one client of an address that the ban stops (Event.Client), since it alone has read there as a robot does;
	// 0: everybody who has nothing better to show.
	Only uint32

	Lifted bool // the ban was lifted: only that fact is kept, and when the ban would have ended
}

// Moved returns the ban with its times converted to a clock that is d ahead.
func (b Ban) Moved(d time.Duration) *Ban {
	b.Until, b.Made = b.Until.Add(d), b.Made.Add(d)
	return &b
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
	if len(b.Reason) > maxReason {
		errs = append(errs, fmt.Errorf("reason: longer than %d bytes", maxReason))
	}
	if len(b.Service) > MaxName {
		errs = append(errs, fmt.Errorf("service: longer than %d bytes", MaxName))
	}
	if len(b.Model) > MaxName {
		errs = append(errs, fmt.Errorf("model: longer than %d bytes", MaxName))
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

// AppendTo appends the store's key: prefix, kind, ID, source, service.
func (k Key) AppendTo(dst []byte) []byte {
	dst = append(dst, Prefix...)
	dst = append(dst, byte(k.Subject.Kind))
	dst = append(dst, k.Subject.ID[:]...)
	dst = append(dst, byte(k.Source))
	return append(dst, k.Service...)
}

// ParseKey reads a key as AppendTo writes it.
func ParseKey(b []byte) (k Key, ok bool) {
	const fixed = len(Prefix) + 1 + 16 + 1
	if len(b) < fixed || string(b[:len(Prefix)]) != Prefix || len(b) > fixed+MaxName {
		return Key{}, false
	}
	b = b[len(Prefix):]
	k.Subject.Kind = identity.Kind(b[0])
	copy(k.Subject.ID[:], b[1:17])
	k.Source = Source(b[17])
	k.Service = string(b[18:])
	return k, k.Subject.Kind != identity.KindNone && k.Subject.Kind <= identity.KindIP && k.Source <= SourceProcessor
}

// plainVersion begins every stored ban. Version 1 had no factor amounts. A lifted ban has a version of its own, and
// stores nothing after its times. So has a ban on one client of an address: an earlier version of the program must not
// take it for one on everybody there.
const (
	plainVersion  = 2
	liftedVersion = 3
	onlyVersion   = 4
)

// AppendValue appends what is not in the key: version, until and made in unix nanoseconds, score, threshold, the one
// client (onlyVersion), reason, model, factors with value and amount.
func (b *Ban) AppendValue(dst []byte) []byte {
	version := byte(plainVersion)
	switch {
	case b.Lifted:
		version = liftedVersion
	case b.Only != 0:
		version = onlyVersion
	}
	dst = append(dst, version)
	dst = binary.BigEndian.AppendUint64(dst, uint64(b.Until.UnixNano()))
	dst = binary.BigEndian.AppendUint64(dst, uint64(b.Made.UnixNano()))
	if b.Lifted {
		return dst
	}
	dst = binary.BigEndian.AppendUint32(dst, math.Float32bits(b.Score))
	dst = binary.BigEndian.AppendUint32(dst, math.Float32bits(b.Threshold))
	if version == onlyVersion {
		dst = binary.BigEndian.AppendUint32(dst, b.Only)
	}
	dst = AppendText(dst, b.Reason)
	dst = AppendText(dst, b.Model)
	for i := range b.Factors {
		if b.Factors[i].Name == "" {
			break
		}
		dst = AppendText(dst, b.Factors[i].Name)
		dst = binary.BigEndian.AppendUint32(dst, math.Float32bits(b.Factors[i].Value))
		dst = binary.BigEndian.AppendUint32(dst, math.Float32bits(b.Factors[i].Amount))
	}
	return dst
}

// ErrMalformed is returned for what is not a ban as AppendValue writes it.
var ErrMalformed = errors.New("malformed ban")

// Parse reads a stored ban. Nothing in the result points into key or val.
func Parse(key, val []byte) (b Ban, err error) {
	k, ok := ParseKey(key)
	if !ok || len(val) < 17 {
		return Ban{}, ErrMalformed
	}
	b.Subject, b.Source, b.Service = k.Subject, k.Source, k.Service
	b.Until = time.Unix(0, int64(binary.BigEndian.Uint64(val[1:])))
	b.Made = time.Unix(0, int64(binary.BigEndian.Uint64(val[9:])))
	if val[0] == liftedVersion && len(val) == 17 {
		b.Lifted = true
		return b, nil
	}
	if len(val) < 25 || val[0] != 1 && val[0] != plainVersion && val[0] != onlyVersion {
		return Ban{}, ErrMalformed
	}
	b.Score = math.Float32frombits(binary.BigEndian.Uint32(val[17:]))
	b.Threshold = math.Float32frombits(binary.BigEndian.Uint32(val[21:]))
	amounts, only := val[0] > 1, val[0] == onlyVersion
	if val = val[25:]; only {
		if len(val) < 4 || binary.BigEndian.Uint32(val) == 0 {
			return Ban{}, ErrMalformed
		}
		b.Only, val = binary.BigEndian.Uint32(val), val[4:]
	}
	if b.Reason, val, ok = CutText(val, maxReason); !ok {
		return Ban{}, ErrMalformed
	}
	if b.Model, val, ok = CutText(val, MaxName); !ok {
		return Ban{}, ErrMalformed
	}
	for i := 0; len(val) > 0; i++ {
		if i == MaxFactors {
			return Ban{}, ErrMalformed
		}
		f := &b.Factors[i]
		if f.Name, val, ok = CutText(val, MaxName); !ok || f.Name == "" || len(val) < 4 {
			return Ban{}, ErrMalformed
		}
		f.Value = math.Float32frombits(binary.BigEndian.Uint32(val))
		val = val[4:]
		if !amounts {
			continue
		}
		if len(val) < 4 {
			return Ban{}, ErrMalformed
		}
		f.Amount = math.Float32frombits(binary.BigEndian.Uint32(val))
		val = val[4:]
	}
	if err := b.Validate(time.Unix(0, math.MinInt64)); err != nil {
		return Ban{}, ErrMalformed
	}
	return b, nil
}

// AppendText appends a text with its length before it.
func AppendText(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// CutText cuts off a text that AppendText appended, if it has no more than most bytes.
func CutText(b []byte, most int) (s string, rest []byte, ok bool) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(most) || n > uint64(len(b)-w) {
		return "", nil, false
	}
	return string(b[w : w+int(n)]), b[w+int(n):], true
}
