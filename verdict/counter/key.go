package counter

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"antirobot/store"
)

// Types of shingles. Those below 100 are the original's and keep their meaning; the processor's begin at 100. A rule
// may use any other number.
const (
	TypeSubject          uint16 = 8 // subject line of a message
	TypeFrom             uint16 = 14
	TypeAddress          uint16 = 15 // network address: IPv4 as it is, IPv6 by /64
	TypePair             uint16 = 30 // a pair
	TypeUnique           uint16 = 31 // the counter of different pairs
	TypeAttachmentName   uint16 = 42
	TypeAttachmentDigest uint16 = 62

	TypeNetwork uint16 = 100 // the address's /24 or /48
	TypeAgent   uint16 = 101
	TypePath    uint16 = 102 // path of a request, without its query
	TypeSession uint16 = 103 // a subject: its kind and ID
	TypeText    uint16 = 104 // a piece of a text
	TypeLink    uint16 = 105 // a link's host and path
	TypeHost    uint16 = 106

	// By convention a shingle is judged in four counters of these types, under its own prefix.
	TypeJudgedGood uint16 = 120 // by the formula or the rules
	TypeJudgedBad  uint16 = 121
	TypeMarkedSpam uint16 = 122 // by people
	TypeMarkedGood uint16 = 123
	TypeSolved     uint16 = 124 // captchas solved by the shingle's client
	TypeFailed     uint16 = 125 // and answered wrongly
)

// Key names one count: a counter in a period. It prints as prefix, shingle, type, unit and period:
// mass_in_5791f8cac2b7d8dd_14_10m_2831519.
type Key struct {
	store.Counter
	store.Period
}

func (k Key) appendTo(dst []byte) []byte {
	dst = append(dst, k.Prefix...)
	dst = fmt.Appendf(dst, "_%016x_", k.Shingle)
	dst = strconv.AppendUint(dst, uint64(k.Type), 10)
	dst = append(dst, '_')
	dst = append(dst, k.Unit.String()...)
	dst = append(dst, '_')
	return strconv.AppendUint(dst, uint64(k.Number), 10)
}

func (k Key) String() string { return string(k.appendTo(nil)) }

// errKey is returned by ParseKey for any other text.
var errKey = errors.New("counter: not a key")

// ParseKey reads a key exactly as String writes it. The prefix may contain underscores.
func ParseKey(s string) (Key, error) {
	bad := func(what string) (Key, error) { return Key{}, fmt.Errorf("%w: %s in %.160q", errKey, what, s) }
	var parts [4]string // shingle, type, unit, number
	rest := s
	for i := len(parts) - 1; i >= 0; i-- {
		cut := strings.LastIndexByte(rest, '_')
		if cut < 0 {
			return bad("too few parts")
		}
		rest, parts[i] = rest[:cut], rest[cut+1:]
	}
	var k Key
	if k.Prefix = rest; !ValidPrefix(rest) {
		return bad("bad prefix")
	}
	shingle, err := strconv.ParseUint(parts[0], 16, 64)
	if err != nil || len(parts[0]) != 16 {
		return bad("bad shingle")
	}
	typ, err := strconv.ParseUint(parts[1], 10, 16)
	if err != nil {
		return bad("bad type")
	}
	switch parts[2] {
	case "10m":
		k.Unit = store.TenMinutes
	case "1d":
		k.Unit = store.Day
	default:
		return bad("unit is neither 10m nor 1d")
	}
	number, err := strconv.ParseUint(parts[3], 10, 32)
	if err != nil {
		return bad("bad period")
	}
	k.Shingle, k.Type, k.Number = shingle, uint16(typ), uint32(number)
	if k.String() != s {
		return bad("not the usual form")
	}
	return k, nil
}

// ValidPrefix reports whether p has only letters, digits, '_', '-' and '.', 64 bytes at most.
func ValidPrefix(p string) bool {
	for i := range len(p) {
		c := p[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.' {
			return false
		}
	}
	return p != "" && len(p) <= store.MaxPrefix
}
