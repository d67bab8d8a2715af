package replay

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/fnv"
	"net/netip"
	"strconv"
	"time"

	"antirobot/request"
)

// The problems of lines. A problem with one line is never a reason to stop.
var (
	errNoRequest = errors.New("holds no HTTP request") // a well-formed line about something else
	errAddress   = errors.New("does not begin with an address")
	errTime      = errors.New("has no time that can be read")
	errStatus    = errors.New("has no status")
	errQuotes    = errors.New("has a quoted field without an end")
	errShape     = errors.New("is neither a common nor a combined log line")
	errNoAgent   = errors.New("has no Referer and User-Agent: it is common, not combined")
)

// parseCLF reads the common log format, and the combined one, which adds Referer and User-Agent:
//
//	203.0.113.7 - anna [17/May/2015:10:05:03 +0000] "GET /a?b HTTP/1.1" 200 203023 "https://example.com/" "Mozilla/5.0 …"
//
// A first column with the virtual host (vhost_combined) is taken as the host. What follows is ignored.
func parseCLF(r *Record, line []byte) error {
	rest := r.reset(line)
	first, rest := word(rest)
	addr, ok := parseAddr(first)
	if !ok {
		second, after := word(rest)
		switch addr, ok = parseAddr(second); {
		case ok: // vhost_combined: host:port comes before the address
			r.Host, rest = first, after
		case !isName(first):
			return errAddress
		default: // the name of the client's machine, or nothing: known once the whole line is read
			r.named = true
		}
	}
	r.Addr = addr
	open := clfTimeIn(rest)
	if open < 0 {
		return errTime
	}
	_, user := word(rest[:open]) // a user's name may contain spaces
	if user = bytes.TrimSpace(user); !isDash(user) {
		r.User = user
	}
	rest = rest[open+1:]
	end := bytes.IndexByte(rest, ']')
	if end < 0 {
		return errTime
	}
	if r.At, ok = parseCLFTime(rest[:end]); !ok {
		return errTime
	}
	rest = bytes.TrimLeft(rest[end+1:], " ")
	request, rest, err := quoted(rest)
	if err != nil {
		return err
	}
	if err := r.answerCLF(&rest); err != nil {
		return err
	}
	if err := r.tailCLF(rest, r.identifyCLF(line)); err != nil {
		return err
	}
	switch {
	case r.named && isDash(first) && len(r.Who) > 0: // a log that was made to be passed on
		r.named = false
		r.setApart()
	case r.named:
		r.Addr = standIn(first, r.User, r.Agent())
	}
	return r.request(request)
}

// clfTimeIn returns where the time in brackets begins, -1 if nowhere. A user's name before it may have brackets, but no
// colons.
func clfTimeIn(b []byte) int {
	for i, c := range b {
		switch {
		case c == '[' && shaped(b[i+1:], "00/AAA/0000:00:00:00 "):
			return i
		case c == '"':
			return -1
		}
	}
	return -1
}

func parseStatus(b []byte) (uint16, bool) {
	n, err := strconv.ParseUint(string(b), 10, 16)
	return uint16(n), err == nil && n <= 999
}

// isName reports whether b may be the name of a machine, or the hyphen that means nothing.
func isName(b []byte) bool {
	if len(b) == 0 || len(b) > 255 {
		return false
	}
	for _, c := range b {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}

// standIn makes up an address for a client that the log identifies by its machine's name, or not at all: in that case
// by user and User-Agent. It is in fd00::/8, which is not used on the Internet, with a /64 of its own.
func standIn(name, user, agent []byte) netip.Addr {
	h := fnv.New64a()
	_, _ = h.Write(bytes.ToLower(name))
	if isDash(name) {
		_, _ = h.Write(append(append([]byte{0}, user...), 0))
		_, _ = h.Write(agent)
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], h.Sum64())
	b[0], b[15] = 0xfd, 1
	return netip.AddrFrom16(b)
}

// setApart gives the visitor an address of its own, where the log has none that says who it is.
func (r *Record) setApart() { r.Addr, r.apart = standIn(r.Who, nil, nil), true }

// answerCLF reads status and bytes.
func (r *Record) answerCLF(rest *[]byte) error {
	status, tail := word(*rest)
	var ok bool
	if r.Answer.Status, ok = parseStatus(status); !ok {
		return errStatus
	}
	size, tail := word(tail)
	if !isDash(size) {
		var err error
		if r.Answer.Bytes, err = strconv.ParseUint(string(size), 10, 64); err != nil {
			return errShape
		}
	}
	*rest = tail
	return nil
}

// tailCLF reads Referer and User-Agent if they are present: the first columns in quotes, but for the one that names the
// visitor and that the last own bytes of the line follow. What others write between them has no quotes: times, keys of
// sessions.
func (r *Record) tailCLF(rest []byte, own int) error {
	wanted := [...][]byte{nameReferer, nameAgent}
	for k := 0; k < len(wanted) && len(rest) > 0; {
		if rest[0] != '"' {
			_, rest = word(rest)
			continue
		}
		text, after, err := quoted(rest)
		if err != nil {
			return err
		}
		if rest = after; len(rest) == own {
			continue
		}
		if !isDash(text) {
			r.field(wanted[k], text)
		}
		k++
	}
	return nil
}

func (r *Record) request(line []byte) error {
	method, rest := word(line)
	target, proto := word(rest)
	if !isMethod(method) || len(target) == 0 {
		return errNoRequest
	}
	if sp := bytes.LastIndex(rest, []byte(" HTTP/")); sp >= 0 { // a target with spaces, which some clients send
		target, proto = rest[:sp], rest[sp+1:]
	}
	r.Method, r.Target = method, target
	r.HTTP10 = len(proto) == 0 || string(proto) == "HTTP/1.0" || string(proto) == "HTTP/0.9"
	return nil
}

func isMethod(m []byte) bool {
	if isDash(m) || len(m) > 24 {
		return false
	}
	for _, c := range m {
		if (c < 'A' || c > 'Z') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

func isDash(b []byte) bool { return len(b) == 0 || len(b) == 1 && b[0] == '-' }

// word returns what precedes the first space, and what follows after the spaces.
func word(b []byte) (w, rest []byte) {
	i := bytes.IndexByte(b, ' ')
	if i < 0 {
		return b, nil
	}
	w, rest = b[:i], b[i+1:]
	for len(rest) > 0 && rest[0] == ' ' {
		rest = rest[1:]
	}
	return w, rest
}

// quoted returns the text between quotes, with the escapes of Apache and nginx undone in place, and what follows it.
func quoted(b []byte) (text, rest []byte, err error) {
	if len(b) == 0 || b[0] != '"' {
		return nil, nil, errShape
	}
	end, escaped := quoteEnd(b)
	if end == len(b) {
		return nil, nil, errQuotes
	}
	text, rest = b[1:end], b[end+1:]
	if escaped {
		text = unescape(text)
	}
	for len(rest) > 0 && rest[0] == ' ' {
		rest = rest[1:]
	}
	return text, rest, nil
}

// quoteEnd returns where the quote that b begins with ends, len(b) if nowhere, and whether there are escapes before.
func quoteEnd(b []byte) (end int, escaped bool) {
	for end = 1; end < len(b) && b[end] != '"'; end++ {
		if b[end] == '\\' {
			escaped = true
			end++
		}
	}
	return min(end, len(b)), escaped
}

// unescape undoes \", \\, \t, \n, \r and \xHH in place.
func unescape(b []byte) []byte {
	out := b[:0]
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' || i+1 == len(b) {
			out = append(out, b[i])
			continue
		}
		i++
		switch c := b[i]; c {
		case 't':
			out = append(out, '\t')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 'x':
			if i+2 < len(b) {
				if n, ok := hexByte(b[i+1 : i+3]); ok {
					out = append(out, n)
					i += 2
					continue
				}
			}
			out = append(out, '\\', 'x')
		default:
			out = append(out, c)
		}
	}
	return out
}

// hexByte reads two hexadecimal digits.
func hexByte(b []byte) (byte, bool) {
	var out [1]byte
	_, err := hex.Decode(out[:], b[:2])
	return out[0], err == nil
}

// parseAddr reads an address, with or without a port.
func parseAddr(b []byte) (netip.Addr, bool) {
	if len(b) < 2 || len(b) > 64 {
		return netip.Addr{}, false
	}
	s := string(b)
	if a, err := netip.ParseAddr(s); err == nil {
		return request.Unwrap(a.WithZone("")), true
	}
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return request.Unwrap(ap.Addr().WithZone("")), true
	}
	return netip.Addr{}, false
}

// forwarded takes the visitor's address from a list as in X-Forwarded-For if the line has none else, or one that is not
// reachable from everywhere: a balancer's, in front of the server. It is the last one that is; what stands before it
// the visitor may have made up.
func (r *Record) forwarded(list []byte) {
	for len(list) > 0 && !public(r.Addr) {
		one := list
		if i := bytes.LastIndexByte(list, ','); i >= 0 {
			one, list = list[i+1:], list[:i]
		} else {
			list = nil
		}
		if a, ok := parseAddr(bytes.TrimSpace(one)); ok && (public(a) || !r.Addr.IsValid()) {
			r.Addr = a
		}
	}
}

// public reports whether an address may be one on the Internet.
func public(a netip.Addr) bool {
	return a.IsValid() && a.IsGlobalUnicast() && !a.IsPrivate() && !shared.Contains(a)
}

// shared is what stands between providers and their customers (RFC 6598), and within clouds.
var shared = netip.MustParsePrefix("100.64.0.0/10")

var months = [...]string{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"}

// parseCLFTime reads 17/May/2015:10:05:03 +0000.
func parseCLFTime(b []byte) (time.Time, bool) {
	if len(b) < 26 || b[2] != '/' || b[6] != '/' || b[11] != ':' || b[14] != ':' || b[17] != ':' || b[20] != ' ' {
		return time.Time{}, false
	}
	month := 0
	for i, m := range months {
		if string(b[3:6]) == m {
			month = i + 1
		}
	}
	day, ok1 := number(b[0:2], 1, 31)
	year, ok2 := number(b[7:11], 1970, 9999)
	hour, ok3 := number(b[12:14], 0, 23)
	minute, ok4 := number(b[15:17], 0, 59)
	second, ok5 := number(b[18:20], 0, 60)
	zoneHours, ok6 := number(b[22:24], 0, 23)
	zoneMinutes, ok7 := number(b[24:26], 0, 59)
	if month == 0 || !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6 && ok7) || b[21] != '+' && b[21] != '-' {
		return time.Time{}, false
	}
	east := zoneHours*60 + zoneMinutes
	if b[21] == '-' {
		east = -east
	}
	return time.Date(year, time.Month(month), day, hour, minute-east, second, 0, time.UTC), true
}

func number(b []byte, least, most int) (int, bool) {
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, n >= least && n <= most
}
