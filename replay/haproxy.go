package replay

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"antirobot/verdict/words"
)

var errNotHTTPLog = errors.New("is HAProxy's, and neither of option httplog nor of option httpslog")

// haproxyTime is how the time looks that every line about a connection has, behind the client.
const haproxyTime = "[00/AAA/0000:00:00:00.000] "

// haproxyFields are the fields between the time and the captured headers, with the names that HAProxy gives them.
var haproxyFields = [...]string{
	"%ft", "%b/%s", "%TR/%Tw/%Tc/%Tr/%Ta", "%ST", "%B", "%CC", "%CS", "%tsc",
	"%ac/%fc/%bc/%sc/%rc", "%sq/%bq",
}

// isHAProxy reports whether a line is HAProxy's, by syslog or without it, perhaps about something other than a
// connection.
func isHAProxy(line []byte) bool {
	if haproxyTimeIn(line) >= 0 {
		return true
	}
	before, _, _ := bytes.Cut(line[:min(len(line), maxSyslog)], []byte{'"'})
	_, process, ok := bytes.Cut(before, []byte(" haproxy["))
	return ok && bytes.Contains(process, []byte("]:")) // a colon, which the name of a user never has
}

// maxSyslog bounds where a program's name stands that syslog writes.
const maxSyslog = 128

// haproxyTimeIn returns where the time stands, -1 if nowhere before what visitors choose.
func haproxyTimeIn(line []byte) int {
	for i, c := range line {
		if c == '"' || c == '{' {
			break
		}
		if c == '[' && shaped(line[i:], haproxyTime) {
			return i
		}
	}
	return -1
}

// parseHAProxy reads the lines of option httplog and option httpslog, whatever syslog writes before them
// (https://docs.haproxy.org/3.0/configuration.html#8.2.3):
//
//	Mar  2 10:15:30 lb haproxy[1234]: 203.0.113.7:2817 [02/Mar/2026:10:15:30.250] web~ shop/s1 0/0/1/248/250 200 5120 - - ---- 1/1/0/0/0 0/0
//	{shop.example|https://shop.example/|curl/8.5.0} {text/html} "GET /a?b HTTP/1.1"
//
// in one line. captures names what stands in the first braces.
func parseHAProxy(r *Record, line []byte, captures [][]byte) error {
	buf := r.reset(line)
	begin := haproxyTimeIn(buf)
	if begin < 0 {
		switch _, quoted, _ := bytes.Cut(buf, []byte{'"'}); {
		case !isHAProxy(buf):
			return errTime
		case bytes.Contains(quoted, []byte(" HTTP/")): // of another log-format
			return errNotHTTPLog
		}
		return errNoRequest // that a server is down
	}
	before := bytes.TrimRight(buf[:begin], " ")
	from := bytes.LastIndexByte(before, ' ') + 1
	at, rest := buf[begin+1:begin+len(haproxyTime)-2], buf[begin+len(haproxyTime):]
	var ok bool
	if r.At, ok = parseHAProxyTime(at, zoneIn(before)); !ok {
		return badField("%tr", at)
	}
	if r.Addr, ok = parseClient(before[from:]); !ok {
		return badField("%ci:%cp", before[from:])
	}
	var values [len(haproxyFields)][]byte
	for i := range values {
		values[i], rest = word(rest)
	}
	timers := bytes.Split(values[2], []byte{'/'})
	if len(timers) != 5 { // of option tcplog, or about a handshake that failed
		return errNoRequest
	}
	if status := values[3]; string(status) != "-1" { // without an answer
		if r.Answer.Status, ok = parseStatus(status); !ok {
			return badField("%ST", status)
		}
	}
	r.TLS = bytes.HasSuffix(values[0], []byte{'~'})
	r.Answer.Took = clampTook(parseFloat(timers[4]) / 1000) // with + in front if the answer went on, which is read, too
	r.Answer.Bytes = parseCount(bytes.TrimPrefix(values[4], []byte{'+'}))
	r.identifyCLF(line[from:]) // what syslog writes has more columns or fewer
	for n := 0; len(rest) > 0 && rest[0] == '{'; n++ {
		end := bytes.IndexByte(rest, '}')
		if end < 0 {
			return badField("end of the captured headers", nil)
		}
		if n == 0 {
			if err := r.captured(rest[1:end], captures); err != nil {
				return err
			}
		}
		rest = bytes.TrimLeft(rest[end+1:], " ")
	}
	if len(rest) == 0 || rest[0] != '"' {
		return badField("request in quotes", nil)
	}
	request, _, whole := bytes.Cut(rest[1:], []byte{'"'})
	err := r.request(unhash(request))
	r.HTTP10 = r.HTTP10 && whole // a long line is cut off
	return err
}

// captured takes the request's headers between braces.
func (r *Record) captured(list []byte, captures [][]byte) error {
	if len(captures) == 0 {
		r.unread = true
		return nil
	}
	values := bytes.Split(list, []byte{'|'})
	if len(values) != len(captures) {
		return errors.New(words.Sprintf(words.English, "has %d captured {header|headers}, and --captures names %d",
			len(values), len(captures)))
	}
	for i, name := range captures {
		value := unhash(values[i])
		switch strings.ToLower(string(name)) {
		case "host":
			r.Host = value
			continue
		case "x-forwarded-for":
			r.forwarded(value)
		case "cookie":
			for _, i := range [...]*Identity{r.from, r.signs} {
				if i != nil && i.cookie != "" {
					r.take(i, cookieOf(value, i.cookie))
				}
			}
		}
		r.field(name, value)
	}
	return nil
}

// unhash undoes #HH in place, by which HAProxy writes what would end a field.
func unhash(b []byte) []byte { return unhex(b, '#') }

// parseHAProxyTime reads 02/Mar/2026:10:15:30.250 of a zone.
func parseHAProxyTime(b []byte, zone time.Duration) (time.Time, bool) {
	const seconds = len("02/Mar/2026:10:15:30")
	at, ok := parseCLFTime(append(append(make([]byte, 0, seconds+6), b[:seconds]...), " +0000"...))
	ms, _ := number(b[seconds+1:], 0, 999)
	return at.Add(time.Duration(ms)*time.Millisecond - zone), ok
}

// zoneIn returns how far east of Greenwich the machine is, if syslog writes its time with a zone: HAProxy's own has
// none.
func zoneIn(syslog []byte) time.Duration {
	for w := range bytes.FieldsSeq(syslog) {
		w = w[bytes.LastIndexByte(w, '>')+1:] // behind <134>
		if !shaped(w, isoShape) {
			continue
		}
		if at, err := time.Parse(time.RFC3339, string(w)); err == nil {
			_, east := at.Zone()
			return time.Duration(east) * time.Second
		}
	}
	return 0
}
