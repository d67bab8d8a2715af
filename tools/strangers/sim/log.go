package sim

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Event is one request as the server saw it.
type Event struct {
	At                             int64
	Addr, Visitor, Method, URI     string
	Proto                          string
	Status, Bytes                  int
	Ref, UA, Type                  string
	Accept, Mode, Dest, SecFetSite string
}

// Subject is what is known about a visitor.
type Subject struct {
	Label int
	Sort  string
}

// Log gathers the requests of one site.
type Log struct {
	site     *Site
	Events   []Event
	Subjects map[string]Subject
	Clash    int
}

func newLog() *Log { return &Log{Subjects: map[string]Subject{}} }

func (l *Log) subject(id string, s Subject) {
	if old, ok := l.Subjects[id]; ok && old.Label != s.Label {
		l.Clash++
		return
	} else if ok {
		return
	}
	l.Subjects[id] = s
}

// Line is an event as a file has it, in nginx's names.
type Line struct {
	Time    string `json:"time"`
	Addr    string `json:"remote_addr"`
	Visitor string `json:"visitor"`
	Method  string `json:"request_method"`
	URI     string `json:"request_uri"`
	Proto   string `json:"server_protocol"`
	Status  int    `json:"status"`
	Bytes   int    `json:"body_bytes_sent"`
	Ref     string `json:"http_referer"`
	UA      string `json:"http_user_agent"`
	Type    string `json:"sent_http_content_type"`
	Accept  string `json:"http_accept"`
	Mode    string `json:"http_sec_fetch_mode"`
	Dest    string `json:"http_sec_fetch_dest"`
	Site    string `json:"http_sec_fetch_site"`
}

// Stamp is the form of a line's time, for package time.
const Stamp = "2006-01-02T15:04:05.000Z07:00"

// logged are the events of the logged days, in the order in which they were answered.
func (l *Log) logged() []Event {
	from, end := l.site.Start, l.site.Start+int64(l.site.Days)*day
	events := slices.DeleteFunc(slices.Clone(l.Events), func(e Event) bool { return e.At < from || e.At >= end })
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return events
}

// Lines are the requests of the logged days as a file has them.
func (l *Log) Lines() []Line {
	zone := time.FixedZone("", l.site.Zone*60)
	var lines []Line
	for _, e := range l.logged() {
		lines = append(lines, Line{
			time.UnixMilli(e.At).In(zone).Format(Stamp), e.Addr, e.Visitor, e.Method, e.URI, e.Proto, e.Status, e.Bytes,
			e.Ref, e.UA, e.Type, e.Accept, e.Mode, e.Dest, e.SecFetSite,
		})
	}
	return lines
}

// Write stores the log and the labels of its visitors in a directory.
func (l *Log) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, l.site.Name+".json.gz"))
	if err != nil {
		return err
	}
	defer f.Close()
	z := gzip.NewWriter(f)
	w := bufio.NewWriter(z)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, line := range l.Lines() {
		if err := enc.Encode(line); err != nil {
			return err
		}
	}
	if err := errors.Join(w.Flush(), z.Close(), f.Close()); err != nil {
		return err
	}
	return l.WriteLabels(filepath.Join(dir, l.site.Name+".csv"))
}

// WriteLabels stores who the visitors are that the log has: a person (0) or a robot (1), and of what sort.
func (l *Log) WriteLabels(path string) error {
	seen := map[string]bool{}
	for _, e := range l.logged() {
		seen[e.Visitor] = true
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	fmt.Fprintln(w, "visitor,label,sort")
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		fmt.Fprintf(w, "%s,%d,%s\n", id, l.Subjects[id].Label, l.Subjects[id].Sort)
	}
	return errors.Join(w.Flush(), f.Close())
}
