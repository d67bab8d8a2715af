package replay

import (
	"bytes"
	"errors"
	"fmt"
)

// Format is how a log represents a request.
type Format uint8

// The formats.
const (
	Auto     Format = iota // each line is examined
	Common                 // address, user, time, request, status, bytes
	Combined               // common, Referer, User-Agent
	Nginx                  // JSON with the names of nginx variables
	Caddy                  // JSON of Caddy's access log
	Traefik                // JSON of Traefik's access log
)

var formatNames = [...]string{"auto", "common", "combined", "nginx", "caddy", "traefik"}

func (f Format) String() string {
	if int(f) < len(formatNames) {
		return formatNames[f]
	}
	return "unknown"
}

// ParseFormat reads the name of a format.
func ParseFormat(s string) (Format, error) {
	for i, n := range formatNames {
		if n == s {
			return Format(i), nil
		}
	}
	return Auto, fmt.Errorf("format %q is none of auto, common, combined, nginx, caddy, traefik", s)
}

// errNotJSON and others are problems of JSON lines.
var (
	errNotJSON   = errors.New("is not JSON")
	errNoAddress = errors.New("names no client address")
)

// Parse reads one line, without its line end, into r. The line may be changed afterwards. An error says what is wrong
// with the line, to follow the words "line 7".
func (f Format) Parse(r *Record, line []byte) error {
	line = bytes.TrimRight(line, "\r\n")
	json := len(line) > 0 && line[0] == '{'
	switch {
	case f == Common || f == Auto && !json:
		return parseCLF(r, line)
	case f == Combined:
		err := parseCLF(r, line)
		if err == nil && !bytes.HasSuffix(line, []byte{'"'}) && len(r.Fields) == 0 {
			return errNoAgent
		}
		return err
	case !json:
		return errNotJSON
	}
	return parseJSON(r, line, f)
}
