package main

import (
	"bufio"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"time"

	"antirobot/replay"
)

// logWriter returns an Each that writes a line of a combined log for each request. It does not say who made it, unless
// named is set: then the last column is the client, as walkers-foraging-17.
func logWriter(w *bufio.Writer, named bool) Each {
	var line []byte
	return func(r *Request, _ *replay.Served) error {
		line = r.View.Peer.AppendTo(line[:0])
		line = append(line, " - - ["...)
		line = r.View.At.UTC().AppendFormat(line, "02/Jan/2006:15:04:05 -0700")
		line = append(line, "] \""...)
		line = append(line, r.View.Method...)
		line = append(line, ' ')
		line = append(line, r.View.Target...)
		line = append(line, " HTTP/1.1\" "...)
		line = strconv.AppendUint(line, uint64(r.Answer.Status), 10)
		line = append(line, ' ')
		line = strconv.AppendUint(line, r.Answer.Bytes, 10)
		for _, name := range [...]string{"Referer", "User-Agent"} {
			line = append(line, " \""...)
			line = appendQuoted(line, r.View.Get(name))
			line = append(line, '"')
		}
		if named {
			name := string(r.Kind) + "-" + r.Habit + "-" + strconv.Itoa(r.Client)
			line = append(line, ' ')
			line = append(line, strings.ReplaceAll(name, " ", "_")...)
		}
		_, err := w.Write(append(line, '\n'))
		return err
	}
}

func appendQuoted(dst, value []byte) []byte {
	if len(value) == 0 {
		return append(dst, '-')
	}
	for _, c := range value {
		if c == '"' || c == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return dst
}

// event is a line of eventWriter.
type event struct {
	At      time.Time   `json:"at"`
	Kind    Kind        `json:"kind"`
	Client  int         `json:"client"`
	Robot   bool        `json:"robot"`
	Addr    string      `json:"address"`
	Method  string      `json:"method"`
	Target  string      `json:"target"`
	Headers [][2]string `json:"headers"` // in wire order
	Status  uint16      `json:"status"`
	Bytes   uint64      `json:"bytes"`
	Type    string      `json:"content_type"`
	Took    float64     `json:"seconds"`
	Stopped bool        `json:"stopped"`
	Reason  string      `json:"reason,omitempty"`
}

// eventWriter returns an Each that writes each request with all its header fields, and its author, as a line of JSON.
func eventWriter(w io.Writer) Each {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	var e event
	return func(r *Request, s *replay.Served) error {
		headers := e.Headers[:0]
		for _, f := range r.View.Fields {
			headers = append(headers, [2]string{string(f.Name), string(f.Value)})
		}
		e = event{
			At: r.View.At, Kind: r.Kind, Client: r.Client, Robot: r.Kind.robot(), Addr: r.View.Peer.String(), Method: string(r.View.Method),
			Target: string(r.View.Target), Headers: headers, Status: r.Answer.Status, Bytes: r.Answer.Bytes,
			Type: string(r.Answer.ContentType), Took: r.Answer.Took.Seconds(),
		}
		if s != nil {
			e.Stopped, e.Reason = s.Stopped, s.Decision.Ban.Reason
		}
		return enc.Encode(&e)
	}
}
