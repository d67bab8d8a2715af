package cbb

import (
	"fmt"
	"io"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// Stats is the state of the lists for operators.
type Stats struct {
	Networks int           `json:"networks"` // of all lists
	Pieces   int           `json:"pieces"`   // of the address space in the table: where the answer changes
	Subjects int           `json:"subjects"`
	Patterns int           `json:"patterns"`
	Runtime  int           `json:"runtime"` // entries made at run time, including ended ones not yet swept
	BuiltAt  time.Time     `json:"built_at"`
	Took     time.Duration `json:"took"` // to build the table
	Lists    []ListStats   `json:"lists"`
	Crawlers CrawlerStats  `json:"crawlers"`
	// StoreError is why run-time entries may lag behind the store; empty if they do not.
	StoreError string `json:"store_error,omitempty"`
}

// ListStats is the state of one list, or of one source of a crawler's ranges.
type ListStats struct {
	Name      string        `json:"name"`
	Flag      string        `json:"flag"`
	Of        string        `json:"of,omitempty"` // words, domains or keys; absent: networks
	Service   string        `json:"service,omitempty"`
	Kind      string        `json:"kind"` // url, file, inline or ranges
	Entries   int           `json:"entries"`
	Loaded    bool          `json:"loaded"`              // there is a good copy, however old
	FromDisk  bool          `json:"from_disk,omitempty"` // it is the copy kept on disk, not confirmed since the start
	Fetched   time.Time     `json:"fetched,omitzero"`    // when the copy was made
	Checked   time.Time     `json:"checked,omitzero"`    // when it was last found up to date
	Age       time.Duration `json:"age"`                 // since Checked
	Next      time.Time     `json:"next,omitzero"`
	LastError string        `json:"last_error,omitempty"`
	Failures  int           `json:"failures,omitempty"` // consecutive
	Bad       int           `json:"bad,omitempty"`      // bad lines of the last attempt
	BadLines  []BadLine     `json:"bad_lines,omitempty"`
}

// CrawlerStats counts verifications since the start or the last change of the settings.
type CrawlerStats struct {
	Confirmed   uint64 `json:"confirmed"`
	Refuted     uint64 `json:"refuted"`
	Failed      uint64 `json:"failed"`      // DNS did not answer
	Shed        uint64 `json:"shed"`        // look-ups that were not made: queue full, or too many a second
	Provisional uint64 `json:"provisional"` // requests that passed while their address was looked up
	Denied      uint64 `json:"denied"`      // requests that had no provisional pass left
	Pending     int    `json:"pending"`
}

// Stats returns the current state.
func (l *Lists) Stats() Stats {
	p, s, now := l.plan.Load(), l.snap.Load(), l.now()
	st := Stats{
		Networks: s.table.networks, Pieces: len(s.table.v4.sets) + len(s.table.v6.sets),
		Subjects: len(s.table.subjects),
		Patterns: len(s.rules.patterns), Runtime: l.live.over.size(), BuiltAt: s.builtAt, Took: s.took,
	}
	if e := l.live.storeErr.Load(); e != nil {
		st.StoreError = (*e).Error()
	}
	for i := range p.lists {
		q := &p.lists[i]
		ls := ListStats{Name: q.base.List, Flag: q.base.Flag.String(), Service: q.base.Service, Kind: "inline"}
		ls.Of = q.of
		if q.source != nil {
			q.source.describe(&ls, now)
		} else {
			ls.Loaded, ls.Entries = true, q.fixed.entries
		}
		st.Lists = append(st.Lists, ls)
	}
	for _, c := range p.crawlers {
		for _, src := range c.sources {
			ls := ListStats{Name: c.name, Flag: White.String()}
			src.describe(&ls, now)
			ls.Kind = "ranges"
			st.Lists = append(st.Lists, ls)
		}
	}
	st.Crawlers = p.verifier.snapshot()
	return st
}

func (l *Lists) writeMetrics(w io.Writer) {
	st := l.Stats()
	gauge := func(name string, v int) { metrics.WriteGaugeUint64(w, name, uint64(max(v, 0))) }
	gauge("antirobot_cbb_networks", st.Networks)
	gauge("antirobot_cbb_pieces", st.Pieces)
	gauge("antirobot_cbb_subjects", st.Subjects)
	gauge("antirobot_cbb_patterns", st.Patterns)
	gauge("antirobot_cbb_runtime_entries", st.Runtime)
	metrics.WriteGaugeFloat64(w, "antirobot_cbb_build_seconds", st.Took.Seconds())
	bad := 0
	if st.StoreError != "" {
		bad = 1
	}
	gauge("antirobot_cbb_store_behind", bad)
	seen := map[string]int{}
	for i := range st.Lists {
		s := &st.Lists[i]
		labels := fmt.Sprintf(`{list=%q,flag=%q,kind=%q`, s.Name, s.Flag, s.Kind)
		if seen[labels]++; seen[labels] > 1 { // a crawler with several sources
			labels += fmt.Sprintf(`,part="%d"`, seen[labels])
		}
		labels += "}"
		gauge("antirobot_cbb_list_entries"+labels, s.Entries)
		gauge("antirobot_cbb_list_bad_lines"+labels, s.Bad)
		gauge("antirobot_cbb_list_failures"+labels, s.Failures)
		if !s.Checked.IsZero() {
			metrics.WriteGaugeFloat64(w, "antirobot_cbb_list_age_seconds"+labels, s.Age.Seconds())
		}
	}
	count := func(outcome string, v uint64) {
		metrics.WriteCounterUint64(w, fmt.Sprintf("antirobot_cbb_crawler_lookups_total{outcome=%q}", outcome), v)
	}
	count("confirmed", st.Crawlers.Confirmed)
	count("refuted", st.Crawlers.Refuted)
	count("failed", st.Crawlers.Failed)
	count("shed", st.Crawlers.Shed)
	metrics.WriteCounterUint64(w, "antirobot_cbb_crawler_provisional_total", st.Crawlers.Provisional)
	metrics.WriteCounterUint64(w, "antirobot_cbb_crawler_provisional_denied_total", st.Crawlers.Denied)
	gauge("antirobot_cbb_crawler_pending", st.Crawlers.Pending)
}
