package replay

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// Format is how a log represents a request.
type Format uint8

// The formats.
const (
	Auto       Format = iota // each line is examined
	Common                   // address, user, time, request, status, bytes
	Combined                 // common, Referer, User-Agent
	Nginx                    // JSON with the names of nginx variables
	Caddy                    // JSON of Caddy's access log
	Traefik                  // JSON of Traefik's access log
	W3C                      // W3C extended, as IIS and CloudFront write it
	ALB                      // AWS Application Load Balancer, and the classic one
	Cloudflare               // JSON of Cloudflare's Logpush
	Google                   // JSON of Google Cloud's load balancers
	Envoy                    // Envoy's and Istio's text, and their JSON
	HAProxy                  // option httplog and httpslog
)

var formatNames = [...]string{
	"auto", "common", "combined", "nginx", "caddy", "traefik", "w3c", "alb", "cloudflare",
	"google", "envoy", "haproxy",
}

func (f Format) String() string {
	if int(f) < len(formatNames) {
		return formatNames[f]
	}
	return "unknown"
}

// FormatNames lists the names that ParseFormat reads, as a sentence does.
func FormatNames() string {
	last := len(formatNames) - 1
	return strings.Join(formatNames[:last], ", ") + " or " + formatNames[last]
}

// ParseFormat reads the name of a format.
func ParseFormat(s string) (Format, error) {
	for i, n := range formatNames {
		if n == s {
			return Format(i), nil
		}
	}
	return Auto, fmt.Errorf("format %q is none of %s", s, strings.Join(formatNames[:], ", "))
}

// Named reports whether the lines of a format can name their columns.
func (f Format) Named() bool { return f != Common && f != Combined && f != ALB && f != HAProxy }

// The problems of lines of any format.
var (
	errNotJSON   = errors.New("is not JSON")
	errNoAddress = errors.New("names no client address")
)

// badField names the field of a line that can't be read, and its value.
func badField(name string, value []byte) error {
	if isDash(value) {
		return fmt.Errorf("has no %s", name)
	}
	return fmt.Errorf("has %q for %s", clip(value, maxShown), name)
}

// maxShown bounds how much of a field a problem shows, in bytes.
const maxShown = 40

// parser reads the lines of one input, in their order: some lines say what the columns of the following ones are. Make
// it with newParser.
type parser struct {
	format   Format
	captures [][]byte // Options.Captures
	columns  columns  // of a W3C log
	// a line of another format was read: what looks like a directive from now on is a name that a visitor has sent
	other bool
}

func newParser(o *Options) parser {
	p := parser{format: o.Format}
	for _, name := range o.Captures {
		p.captures = append(p.captures, []byte(name))
	}
	return p
}

// Parse reads one line alone, as parser.parse does: it knows of no lines before it.
func (f Format) Parse(r *Record, line []byte) error {
	p := newParser(&Options{Format: f})
	return p.parse(r, line)
}

// parse reads one line, without its line end, into r. The line may be changed afterwards. An error says what is wrong
// with the line, to follow the words "line 7".
func (p *parser) parse(r *Record, line []byte) error {
	line = bytes.TrimRight(line, "\r\n")
	f := p.format
	if f == Auto {
		f = p.detect(line)
		p.other = p.other || f != W3C && len(line) > 0
	}
	json := len(line) > 0 && line[0] == '{'
	switch f {
	case Common:
		return parseCLF(r, line)
	case Combined:
		err := parseCLF(r, line)
		if err == nil && !bytes.HasSuffix(line, []byte{'"'}) && len(r.Fields) == 0 {
			return errNoAgent
		}
		return err
	case W3C:
		return p.columns.parse(r, line)
	case ALB:
		return parseALB(r, line)
	case HAProxy:
		return parseHAProxy(r, line, p.captures)
	case Envoy:
		if !json {
			return parseEnvoy(r, line)
		}
	}
	if !json {
		return errNotJSON
	}
	return parseJSON(r, line, f)
}

// detect tells the format of a line; Auto is JSON of some server, whose keys show which.
func (p *parser) detect(line []byte) Format {
	switch {
	case len(line) > 0 && line[0] == '{':
		return Auto
	case p.columns.known() || isDirective(line) && !p.other || beginsW3C(line):
		return W3C
	case isALB(line):
		return ALB
	case isEnvoy(line):
		return Envoy
	case isHAProxy(line):
		return HAProxy
	}
	return Common
}

// shaped reports whether b begins like shape, in which 0 stands for any digit and A for any letter.
func shaped(b []byte, shape string) bool {
	if len(b) < len(shape) {
		return false
	}
	for i := range shape {
		ok := b[i] == shape[i]
		switch shape[i] {
		case '0':
			ok = b[i] >= '0' && b[i] <= '9'
		case 'A':
			ok = b[i]|0x20 >= 'a' && b[i]|0x20 <= 'z'
		}
		if !ok {
			return false
		}
	}
	return true
}
