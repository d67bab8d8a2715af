package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"antirobot/tools/strangers/sim"
)

// form is how much of a request a log has.
type form struct {
	name     string
	identity string // where the visitor is, for --identity
	write    func(io.Writer, sim.Line) error
}

var forms = []form{
	{"plain", "column:10", writeCombined},
	{"types", "column:visitor", func(w io.Writer, l sim.Line) error { return writeJSON(w, withoutHeaders{Line: l}) }},
	{"all", "column:visitor", func(w io.Writer, l sim.Line) error { return writeJSON(w, l) }},
}

// file writes a log.
func (f form) file(name string, lines []sim.Line) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer file.Close()
	w := bufio.NewWriter(file)
	for _, l := range lines {
		if err := f.write(w, l); err != nil {
			return err
		}
	}
	return errors.Join(w.Flush(), file.Close())
}

// writeCombined writes a line of the combined format, and the visitor as the tenth column.
func writeCombined(w io.Writer, l sim.Line) error {
	at, err := time.Parse(sim.Stamp, l.Time)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s - - [%s] \"%s %s %s\" %d %d \"%s\" \"%s\" %s\n", l.Addr, at.Format("02/Jan/2006:15:04:05 -0700"),
		l.Method, l.URI, l.Proto, l.Status, l.Bytes, quoted(l.Ref), quoted(l.UA), l.Visitor)
	return err
}

var escapes = strings.NewReplacer(`"`, `\x22`, `\`, `\x5C`)

// quoted is a field as nginx writes it between quotation marks.
func quoted(s string) string {
	if s == "" {
		return "-"
	}
	return escapes.Replace(s)
}

// withoutHeaders is a line as servers write it that were asked for the types of answers, but not for these fields of requests.
type withoutHeaders struct {
	sim.Line
	Accept *string `json:"http_accept,omitempty"`
	Mode   *string `json:"http_sec_fetch_mode,omitempty"`
	Dest   *string `json:"http_sec_fetch_dest,omitempty"`
	Site   *string `json:"http_sec_fetch_site,omitempty"`
}

func writeJSON(w io.Writer, line any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(line)
}
