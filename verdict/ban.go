package verdict

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
	maxName   = 64
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

	lifted bool // the ban was lifted: only that fact is kept, and when the ban would have ended
}

// moved returns the ban with its times converted to a clock that is d ahead.
func (b Ban) moved(d time.Duration) *Ban {
	b.Until, b.Made = b.Until.Add(d), b.Made.Add(d)
	return &b
}

// Holds reports whether the ban, while it lasts, stops requests to the service.
func (b *Ban) Holds(s *Settings) bool {
	if b.Service != "" && b.Service != s.Name {
		return false
	}
	return b.Source == SourceAPI || b.Score > s.Threshold
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
	if len(b.Service) > maxName {
		errs = append(errs, fmt.Errorf("service: longer than %d bytes", maxName))
	}
	if len(b.Model) > maxName {
		errs = append(errs, fmt.Errorf("model: longer than %d bytes", maxName))
	}
	for i := range b.Factors {
		if len(b.Factors[i].Name) > maxName {
			errs = append(errs, fmt.Errorf("factors[%d]: name longer than %d bytes", i, maxName))
		}
		for _, v := range [...]float64{float64(b.Factors[i].Value), float64(b.Factors[i].Amount)} {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				errs = append(errs, fmt.Errorf("factors[%d]: %v is not a number", i, v)) // JSON could not print it either
			}
		}
	}
	return errors.Join(errs...)
}

// banKey identifies a ban: there is at most one per key. The operator's and the processor's bans exist side by side, as
// do those of different services.
type banKey struct {
	subject identity.Subject
	source  Source
	service string
}

func (b *Ban) key() banKey { return banKey{subject: b.Subject, source: b.Source, service: b.Service} }

const banPrefix = "ban/"

// appendTo appends the store's key: prefix, kind, ID, source, service.
func (k banKey) appendTo(dst []byte) []byte {
	dst = append(dst, banPrefix...)
	dst = append(dst, byte(k.subject.Kind))
	dst = append(dst, k.subject.ID[:]...)
	dst = append(dst, byte(k.source))
	return append(dst, k.service...)
}

func parseBanKey(b []byte) (k banKey, ok bool) {
	const fixed = len(banPrefix) + 1 + 16 + 1
	if len(b) < fixed || string(b[:len(banPrefix)]) != banPrefix || len(b) > fixed+maxName {
		return banKey{}, false
	}
	b = b[len(banPrefix):]
	k.subject.Kind = identity.Kind(b[0])
	copy(k.subject.ID[:], b[1:17])
	k.source = Source(b[17])
	k.service = string(b[18:])
	return k, k.subject.Kind != identity.KindNone && k.subject.Kind <= identity.KindIP && k.source <= SourceProcessor
}

// banVersion begins every stored ban. Version 1 had no factor amounts. A lifted ban has a version of its own, and
// stores nothing after its times. So has a ban on one client of an address: an earlier version of the program must not
// take it for one on everybody there.
const (
	banVersion    = 2
	liftedVersion = 3
	onlyVersion   = 4
)

// appendValue appends what is not in the key: version, until and made in unix nanoseconds, score, threshold, the one
// client (onlyVersion), reason, model, factors with value and amount.
func (b *Ban) appendValue(dst []byte) []byte {
	version := byte(banVersion)
	switch {
	case b.lifted:
		version = liftedVersion
	case b.Only != 0:
		version = onlyVersion
	}
	dst = append(dst, version)
	dst = binary.BigEndian.AppendUint64(dst, uint64(b.Until.UnixNano()))
	dst = binary.BigEndian.AppendUint64(dst, uint64(b.Made.UnixNano()))
	if b.lifted {
		return dst
	}
	dst = binary.BigEndian.AppendUint32(dst, math.Float32bits(b.Score))
	dst = binary.BigEndian.AppendUint32(dst, math.Float32bits(b.Threshold))
	if version == onlyVersion {
		dst = binary.BigEndian.AppendUint32(dst, b.Only)
	}
	dst = appendText(dst, b.Reason)
	dst = appendText(dst, b.Model)
	for i := range b.Factors {
		if b.Factors[i].Name == "" {
			break
		}
		dst = appendText(dst, b.Factors[i].Name)
		dst = binary.BigEndian.AppendUint32(dst, math.Float32bits(b.Factors[i].Value))
		dst = binary.BigEndian.AppendUint32(dst, math.Float32bits(b.Factors[i].Amount))
	}
	return dst
}

var errBanValue = errors.New("malformed ban")

// parseBan reads a stored ban. Nothing in the result points into key or val.
func parseBan(key, val []byte) (b Ban, err error) {
	k, ok := parseBanKey(key)
	if !ok || len(val) < 17 {
		return Ban{}, errBanValue
	}
	b.Subject, b.Source, b.Service = k.subject, k.source, k.service
	b.Until = time.Unix(0, int64(binary.BigEndian.Uint64(val[1:])))
	b.Made = time.Unix(0, int64(binary.BigEndian.Uint64(val[9:])))
	if val[0] == liftedVersion && len(val) == 17 {
		b.lifted = true
		return b, nil
	}
	if len(val) < 25 || val[0] != 1 && val[0] != banVersion && val[0] != onlyVersion {
		return Ban{}, errBanValue
	}
	b.Score = math.Float32frombits(binary.BigEndian.Uint32(val[17:]))
	b.Threshold = math.Float32frombits(binary.BigEndian.Uint32(val[21:]))
	amounts, only := val[0] > 1, val[0] == onlyVersion
	if val = val[25:]; only {
		if len(val) < 4 || binary.BigEndian.Uint32(val) == 0 {
			return Ban{}, errBanValue
		}
		b.Only, val = binary.BigEndian.Uint32(val), val[4:]
	}
	if b.Reason, val, ok = cutText(val, maxReason); !ok {
		return Ban{}, errBanValue
	}
	if b.Model, val, ok = cutText(val, maxName); !ok {
		return Ban{}, errBanValue
	}
	for i := 0; len(val) > 0; i++ {
		if i == MaxFactors {
			return Ban{}, errBanValue
		}
		f := &b.Factors[i]
		if f.Name, val, ok = cutText(val, maxName); !ok || f.Name == "" || len(val) < 4 {
			return Ban{}, errBanValue
		}
		f.Value = math.Float32frombits(binary.BigEndian.Uint32(val))
		val = val[4:]
		if !amounts {
			continue
		}
		if len(val) < 4 {
			return Ban{}, errBanValue
		}
		f.Amount = math.Float32frombits(binary.BigEndian.Uint32(val))
		val = val[4:]
	}
	if err := b.Validate(time.Unix(0, math.MinInt64)); err != nil {
		return Ban{}, errBanValue
	}
	return b, nil
}

func appendText(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

func cutText(b []byte, most int) (s string, rest []byte, ok bool) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(most) || n > uint64(len(b)-w) {
		return "", nil, false
	}
	return string(b[w : w+int(n)]), b[w+int(n):], true
}
