package gateway

import (
	"bufio"
	"bytes"
	"path/filepath"
	"strconv"
	"strings"

	"antirobot/journal"
	"antirobot/proxy/traces"
	"antirobot/verdict"
	"antirobot/verdict/bans"
)

// openJournal opens what is remembered of requests. A gateway whose journal can't be opened serves all the same.
func (a *Server) openJournal() error {
	if !a.Config().Journal.Enabled {
		return nil
	}
	j, err := journal.New(a.Config().Journal, journal.Deps{
		Dir: filepath.Join(a.Config().DataDir, journalName), Stories: stories{a}, Counts: a.counts, Log: a.Logger("journal"), Metrics: a.set,
	})
	if err != nil {
		a.log.Error().Err(err).Msg("there is no journal: what is decided is forgotten with the memory of verdict.decisions")
		return nil
	}
	a.journal = j
	return nil
}

func (a *Server) closeJournal() error {
	if a.journal == nil {
		return nil
	}
	return a.journal.Close()
}

// openTraces begins to tell a receiver of requests, if there is one.
func (a *Server) openTraces() (err error) {
	a.traces, err = traces.New(a.Config().Traces, traces.Deps{Version: a.version, Log: a.Logger("traces"), Metrics: a.set})
	return err
}

func (a *Server) closeTraces() error {
	if a.traces == nil {
		return nil
	}
	return a.traces.Close()
}

// stories are the decisions that the cacher has in memory; it is opened after the journal, since it tells of bans.
type stories struct{ a *Server }

// Noted implements journal.Teller.
func (s stories) Noted(n *verdict.Note) (verdict.Story, bool) { return s.a.cacher.Decisions().Noted(n) }

// banned tells the journal of a ban.
func (a *Server) banned(b *bans.Ban) {
	if a.journal != nil {
		a.journal.Ban(b)
	}
}

// figureNames are the metrics of which the journal keeps figures, by what they are called there.
var figureNames = map[string]string{
	"antirobot_requests_total": "requests", "antirobot_captcha_shown_total": "shown", "antirobot_captcha_answers_total": "answers",
	"antirobot_bans_made_total": "bans", "antirobot_events_shed_total": "shed", "antirobot_request_seconds_bucket": "seconds",
	"antirobot_upstream_failures_total": "failures", "antirobot_journal_shed_total": "journal-shed",
}

// counts returns what has been counted since the start, by name and the labels that matter: requests/robot/ban.
func (a *Server) counts() map[string]float64 {
	a.gone.mu.Lock()
	defer a.gone.mu.Unlock()
	all := a.sum(nil)
	for name, n := range a.gone.sums {
		all[name] += n
	}
	return all
}

// sum sums up what is counted now for the services and addresses that of names; nil: all that is counted.
func (a *Server) sum(of func(counted) bool) map[string]float64 {
	var b bytes.Buffer
	a.set.WritePrometheus(&b)
	all := map[string]float64{}
	for s := bufio.NewScanner(&b); s.Scan(); {
		name, value, labels := metricLine(s.Text())
		as, ok := figureNames[name]
		if !ok || labels["form"] == "redirect" { // where it leads to is counted, if anybody goes there
			continue
		}
		if by, ok := countedBy(labels); of != nil && !(ok && of(by)) {
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

// metricLine takes a line of the Prometheus text format apart, as this program writes them.
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
		labels[key], _ = strconv.Unquote(quoted) // it was found to be quoted
		rest = strings.TrimPrefix(after[len(quoted):], ",")
	}
	return name, value, labels
}
