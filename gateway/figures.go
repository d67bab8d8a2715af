package gateway

import (
	"bufio"
	"bytes"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"antirobot/alarm"
	"antirobot/journal"
	"antirobot/verdict"
	"antirobot/verdict/bans"
)

// figures are the counts that the journal and the alarms read, over reloads that remove services.
type figures struct {
	*base
	journal   *journal.Journal // nil: off
	decisions *verdict.Recent

	mu sync.Mutex
	// services and addresses that are gone and keep their counters, in the order in which they went
	gone []counted
	sums map[string]float64 // of those whose counters were released
}

// keptGone is how many services and addresses that are gone keep their counters, because they may come back.
const keptGone = 64

// counted has counters: a service, or one of its addresses.
type counted struct{ service, addr string }

// countedBy returns the service and address in the labels of a metric; ok is false without a service.
func countedBy(labels map[string]string) (of counted, ok bool) {
	of.service, ok = labels["service"]
	of.addr = labels["addr"]
	return of, ok
}

// openJournal opens the journal. A gateway whose journal can't be opened serves without.
func (a *Server) openJournal() error {
	if a.Config().Journal.MaxBytes == 0 {
		return nil
	}
	j, err := journal.New(a.Config().Journal, journal.Deps{
		Dir: a.inDataDir(journalName), Stories: &a.figures, Counts: a.figures.counts, Log: a.Logger("journal"),
		Metrics: a.set,
	})
	if err != nil {
		a.log.Error().Err(err).Msg("there is no journal: decisions are remembered in memory alone")
		return nil
	}
	a.figures.journal = j
	return nil
}

func (f *figures) close() error {
	if f.journal == nil {
		return nil
	}
	return f.journal.Close()
}

// Noted implements journal.Teller, with the decisions in memory.
func (f *figures) Noted(n *verdict.Note) (verdict.Story, bool) { return f.decisions.Noted(n) }

func (f *figures) banned(b *bans.Ban) {
	if f.journal != nil {
		f.journal.Ban(b)
	}
}

// figureNames are the metrics in the journal, with their names there.
var figureNames = map[string]string{
	"antirobot_requests_total": "requests", "antirobot_captcha_shown_total": "shown",
	"antirobot_captcha_answers_total": "answers",
	"antirobot_bans_made_total":       "bans", "antirobot_events_shed_total": "shed",
	"antirobot_request_seconds_bucket":  "seconds",
	"antirobot_upstream_failures_total": "failures", "antirobot_journal_shed_total": "journal-shed",
}

// counts returns the counts since the start, by name and the labels that matter: requests/robot/ban.
func (f *figures) counts() map[string]float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.sum(nil)
	for name, n := range f.sums {
		all[name] += n
	}
	return all
}

// sum adds up the counters of the services and addresses for which of returns true; nil: all counters.
func (f *figures) sum(of func(counted) bool) map[string]float64 {
	var b bytes.Buffer
	f.set.WritePrometheus(&b)
	all := map[string]float64{}
	for s := bufio.NewScanner(&b); s.Scan(); {
		name, value, labels := metricLine(s.Text())
		as, ok := figureNames[name]
		if !ok || labels["form"] == "redirect" { // the page that it leads to is counted
			continue
		}
		if by, ok := countedBy(labels); of != nil && (!ok || !of(by)) {
			continue
		}
		for _, label := range [...]string{"verdict", "cause", "result", "source", "le"} {
			if v := labels[label]; v != "" {
				as += "/" + v
			}
		}
		all[as] += value
	}
	return all
}

// forgetGone releases the counters of the services and addresses that have been gone for longest. It is called while
// reloading is locked.
func (a *Server) forgetGone() {
	here := map[counted]bool{}
	for name, addresses := range a.judge.addresses() {
		here[counted{service: name}] = true
		for _, addr := range addresses {
			here[counted{name, addr.Addr}] = true
		}
	}
	for _, of := range a.figures.forget(here) {
		if of.addr == "" {
			a.proxy.Forget(of.service)
			a.judge.forget(of.service)
		}
	}
}

// forget returns those whose counters it has released; here are those that are in use.
func (f *figures) forget(here map[counted]bool) []counted {
	f.mu.Lock()
	defer f.mu.Unlock()
	metrics := map[counted][]string{}
	for _, name := range f.set.ListMetricNames() {
		_, _, labels := metricLine(name + " 0")
		of, ok := countedBy(labels)
		if !ok || here[of] {
			continue
		}
		if metrics[of] == nil && !slices.Contains(f.gone, of) {
			f.gone = append(f.gone, of)
		}
		metrics[of] = append(metrics[of], name)
	}
	f.gone = slices.DeleteFunc(f.gone, func(of counted) bool { return metrics[of] == nil })
	forgotten := slices.Clone(f.gone[:max(len(f.gone)-keptGone, 0)])
	if len(forgotten) == 0 {
		return nil
	}
	for name, n := range f.sum(func(of counted) bool { return slices.Contains(forgotten, of) }) {
		f.sums[name] += n
	}
	for _, of := range forgotten {
		for _, name := range metrics[of] {
			f.set.UnregisterMetric(name)
		}
	}
	f.gone = slices.Clone(f.gone[len(forgotten):])
	return forgotten
}

// metricLine parses a line of the Prometheus text format, as this program writes it.
func metricLine(line string) (name string, value float64, labels map[string]string) {
	space := strings.LastIndexByte(line, ' ')
	if space < 0 || line[0] == '#' {
		return "", 0, nil
	}
	value, err := strconv.ParseFloat(line[space+1:], 64)
	if err != nil {
		return "", 0, nil
	}
	name, rest, _ := strings.Cut(line[:space], "{")
	labels = map[string]string{}
	for rest != "" && rest != "}" {
		key, after, ok := strings.Cut(rest, "=")
		if !ok {
			break
		}
		quoted, err := strconv.QuotedPrefix(after)
		if err != nil {
			break
		}
		labels[key], _ = strconv.Unquote(quoted) // QuotedPrefix has checked it
		rest = strings.TrimPrefix(after[len(quoted):], ",")
	}
	return name, value, labels
}

// share adds up the requests of a span, and the stopped ones among them.
func (f *figures) share(by string, from, to time.Time) (s alarm.Share) {
	all, err := f.journal.Figures(by, from, to)
	if err != nil {
		return s // the journal is being closed
	}
	for i := range all {
		for name, n := range all[i].Counts {
			verdict, ok := strings.CutPrefix(name, "requests/")
			if !ok {
				continue
			}
			s.Requests += n
			if strings.HasPrefix(verdict, "robot") || strings.HasPrefix(verdict, "blocked") {
				s.Stopped += n
			}
		}
	}
	return s
}
