package admin

import (
	"errors"
	"strings"
	"time"

	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/journal"
)

type entry struct {
	Entry   string    `json:"entry"`
	Service string    `json:"service,omitempty"` // empty: all services
	Reason  string    `json:"reason,omitempty"`
	Until   time.Time `json:"until,omitzero"` // absent: for ever
	spoken
	Silent bool `json:"silent,omitzero"` // known not to have decided in the last 30 days
}

// listCalls are calls about the block base and the white list.
type listCalls struct{ *api }

// Naming is an entry of a list that names a subject, as JSON shows it.
type Naming struct {
	List    string    `json:"list"` // api, inline, or the name of a list
	Flag    string    `json:"flag"` // block, ban or white
	Entry   string    `json:"entry"`
	Service string    `json:"service,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Until   time.Time `json:"until,omitzero"`
}

func (s *api) naming(sub identity.Subject) []Naming {
	var services []string
	for _, v := range s.deps.Gateway.Services() {
		services = append(services, v.Name)
	}
	addr, _ := sub.Addr()
	var list []Naming
	for _, e := range s.deps.Lists.Naming(sub, services, s.now()) {
		list = append(list, Naming{
			List: e.List, Flag: e.Flag.String(), Entry: s.deps.Lists.Describe(e, addr),
			Service: e.Service, Reason: e.Reason, Until: e.Until,
		})
	}
	return list
}

// spoken is how often an entry or a list decided, as JSON shows it.
type spoken struct {
	Decided      uint64    `json:"decided,omitzero"`
	DecidedOn    string    `json:"decided_on,omitzero"`    // the day of the last time, in UTC
	CountedSince time.Time `json:"counted_since,omitzero"` // when the counting began
}

func spokenOf(c *cbb.Count) spoken {
	v := spoken{Decided: c.Times, CountedSince: c.Since}
	if !c.Last.IsZero() {
		v.DecidedOn = c.Last.Format(time.DateOnly)
	}
	return v
}

// source is a file, a URL or another origin of entries, as JSON shows it.
type source struct {
	Name    string `json:"name"`
	Flag    string `json:"flag"`
	Service string `json:"service,omitempty"`
	Kind    string `json:"kind"` // url, file, inline or ranges
	Entries int    `json:"entries"`
	Loaded  bool   `json:"loaded"` // there is a good copy, from whenever
	// it is the last good copy on disk, not confirmed since the start
	FromDisk bool          `json:"from_disk,omitempty"`
	Checked  time.Time     `json:"checked,omitzero"` // when it was last found up to date
	Age      float64       `json:"age_seconds"`      // since then; -1: never
	Next     time.Time     `json:"next,omitzero"`
	Failures int           `json:"failures,omitzero"` // in a row
	Error    string        `json:"error,omitempty"`
	Bad      int           `json:"bad_lines,omitzero"` // of the last attempt
	BadLines []cbb.BadLine `json:"bad_examples,omitempty"`
	spoken
	Lately int `json:"decided_entries,omitzero"` // that decided in the last 30 days
}

func (s *listCalls) listSources(*call) (any, error) {
	return s.lists(), nil
}

// listsView is the block base as JSON shows it.
type listsView struct {
	Networks   int              `json:"networks"`
	Subjects   int              `json:"subjects"`
	Patterns   int              `json:"patterns"`
	Runtime    int              `json:"runtime"`
	Built      time.Time        `json:"built,omitzero"`
	Sources    []source         `json:"sources"`
	Crawlers   cbb.CrawlerStats `json:"crawlers"`
	StoreError string           `json:"store_error,omitempty"`
}

func (s *api) lists() listsView {
	st, counts := s.deps.Lists.Stats(), s.deps.Lists.Counts()
	out := listsView{
		Networks: st.Networks, Subjects: st.Subjects, Patterns: st.Patterns, Runtime: st.Runtime,
		Built:   st.BuiltAt.UTC(),
		Sources: make([]source, len(st.Lists)), Crawlers: st.Crawlers, StoreError: st.StoreError,
	}
	for i, l := range st.Lists {
		v := source{
			Name: l.Name, Flag: l.Flag, Service: l.Service, Kind: l.Kind, Entries: l.Entries, Loaded: l.Loaded,
			FromDisk: l.FromDisk,
			Age:      -1, Failures: l.Failures, Error: l.LastError, Bad: l.Bad, BadLines: l.BadLines,
		}
		if !l.Checked.IsZero() {
			v.Checked, v.Age = l.Checked.UTC(), l.Age.Round(time.Millisecond).Seconds()
		}
		if !l.Next.IsZero() {
			v.Next = l.Next.UTC()
		}
		if n, ok := counts[l.Name]; ok && l.Kind != "ranges" {
			v.spoken, v.Lately = spokenOf(&n.Count), n.Lately
		}
		out.Sources[i] = v
	}
	return out
}

// listsCheck is the readiness of the lists: each has a good copy, even if only the last one on disk. The published
// ranges of crawlers only need to have been requested: an outage of somebody else's site must not keep a new node from
// serving.
func (s *api) listsCheck() Check {
	c := Check{Name: "lists", OK: true}
	var missing []string
	for _, l := range s.deps.Lists.Stats().Lists {
		asked := l.Kind == "ranges" && l.Failures > 0
		if !l.Loaded && !asked {
			missing = append(missing, l.Name)
		}
	}
	if missing != nil {
		c.OK, c.Detail = false, "not loaded yet: "+strings.Join(missing, ", ")
	}
	return c
}

func (s *listCalls) list(c *call) (cbb.Flag, error) {
	f, err := cbb.ParseFlag(c.arg)
	if err != nil {
		return 0, notFound("there is no list %q; the lists are block, ban and white", c.arg)
	}
	return f, nil
}

// listEntries returns the entries of a list, with how often each decided: of a run-time one, or of a source by its
// name.
func (s *listCalls) listEntries(c *call) (any, error) {
	p, err := newPage[entry](c)
	if err != nil {
		return nil, err
	}
	silent := string(c.QueryArgs().Peek("silent"))
	if silent != "" && silent != "true" {
		return nil, badField("silent", "%q is not true", silent)
	}
	now := s.now()
	known := s.deps.Lists.Lines(c.arg, func(l *cbb.Line) {
		v := entry{
			Entry: l.Text, Service: l.Service, Reason: l.Reason, spoken: spokenOf(&l.Count),
			Silent: l.Silent(now),
		}
		if !l.Until.IsZero() {
			v.Until = l.Until.UTC()
		}
		if v.Silent || silent == "" {
			p.offer(l.Text+"\x00"+l.Service+"\x00"+l.Flag.String(), v)
		}
	})
	if !known {
		return nil, notFound("there is no list %q; the lists are block, ban and white, and the sources that "+
			"/api/lists names", c.arg)
	}
	items, next := p.take()
	return listed[entry]{items, next}, nil
}

func (s *listCalls) addEntry(c *call) (any, error) {
	list, err := s.list(c)
	if err != nil {
		return nil, err
	}
	var in struct {
		Entry   string `json:"entry"`
		TTL     string `json:"ttl"`
		Reason  string `json:"reason"`
		Service string `json:"service"`
	}
	if err := decode(c.RequestCtx, &in); err != nil {
		return nil, err
	}
	e := entry{Entry: in.Entry, Service: in.Service, Reason: in.Reason}
	var ttl time.Duration
	if in.TTL != "" {
		if ttl, err = s.ttl(in.TTL); err != nil {
			return nil, err
		}
		e.Until = s.second().Add(ttl)
	}
	if err := errors.Join(checkReason(in.Reason), s.checkService(in.Service)); err != nil {
		return nil, err
	}
	if err := s.deps.Lists.Add(c.work, list, in.Entry, ttl, in.Reason, in.Service); err != nil {
		return nil, entryProblem(err)
	}
	s.act(c, journal.Act{
		What: "list " + list.String(), Subject: e.Entry, Service: e.Service, TTL: in.TTL,
		Reason: e.Reason,
	})
	return e, nil
}

func (s *listCalls) removeEntry(c *call) (any, error) {
	list, err := s.list(c)
	if err != nil {
		return nil, err
	}
	text, service := string(c.QueryArgs().Peek("entry")), string(c.QueryArgs().Peek("service"))
	if text == "" {
		return nil, badField("entry", "name the entry to remove: ?entry=203.0.113.0/24")
	}
	if err := s.deps.Lists.Remove(c.work, list, text, service); err != nil {
		return nil, entryProblem(err)
	}
	s.act(c, journal.Act{What: "unlist " + list.String(), Subject: text, Service: service})
	return struct {
		Removed string `json:"removed"`
		Service string `json:"service,omitempty"`
	}{text, service}, nil
}

// entryProblem turns an error of the block base into an answer. Here the store comes first: what fails has not
// happened.
func entryProblem(err error) error {
	switch {
	case errors.Is(err, cbb.ErrNoEntry):
		return notFound("%v; only run-time entries can be removed here, those of files, URLs and the configuration "+
			"are removed there", err)
	case errors.Is(err, cbb.ErrBadEntry):
		return badField("entry", "%v; write an address, a network such as 203.0.113.0/24, a range, or kind:id", err)
	case errors.Is(err, cbb.ErrTooWide):
		return badField("entry", "%v", err)
	case errors.Is(err, cbb.ErrFull):
		return &problem{status: statusFull, Code: "full", Message: err.Error() +
			"; raise the bound in the configuration or remove something"}
	}
	return &problem{
		status: statusUnavailable, Code: "store_failed",
		Message: "nothing has changed, since the store failed; try again when /healthz says that it works: " +
			err.Error(),
	}
}
