package cmd

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"

	"antirobot/verdict/formula"
	"antirobot/verdict/processor"
)

// judged is one counted thing: a subject, or a row.
type judged struct {
	formula.Sample
	source string
	client string
	mixed  bool
	mean   formula.Mean
}

// tally counts labelled rows by subject, in the order of the file. Make it with newTally.
type tally struct {
	list    []*judged
	subject map[string]*judged
}

func newTally() *tally { return &tally{subject: map[string]*judged{}} }

// add counts a row for its subject. A subject is a robot if one of its rows is.
func (t *tally) add(row *formula.Row, client string, s formula.Sample) {
	name := row.Kind + ":" + row.Subject
	j := t.subject[name]
	if j == nil || row.Subject == "" {
		j = &judged{Sample: s, source: row.Source, client: client}
		t.subject[name] = j
		t.list = append(t.list, j)
	}
	j.mixed = j.mixed || j.Robot != s.Robot
	j.Score, j.Robot = max(j.Score, s.Score), j.Robot || s.Robot
	p := min(max(float64(s.Score), 1e-7), 1-1e-7)
	j.mean.Add(math.Log(p / (1 - p)))
}

func (t *tally) samples(by string) []formula.Sample {
	all := make([]formula.Sample, 0, len(t.list))
	for _, j := range t.list {
		if by == byMean && j.mean.N > 1 {
			j.Score = float32(probability(float32(j.mean.LogOdds())))
		}
		all = append(all, j.Sample)
	}
	return all
}

// rowsOnly reports whether no row names a subject.
func (t *tally) rowsOnly() bool { return len(t.subject) == 1 && t.subject[":"] != nil }

// sourceFigures is the effect of a threshold on the subjects whose label comes from one source.
type sourceFigures struct {
	Source string `json:"source"`
	Robot  bool   `json:"robots"`
	Count  int    `json:"count"`
	Banned int    `json:"banned"`
}

// mostSources bounds the sources of a report.
const mostSources = 40

func bySource(list []*judged, threshold float32) []sourceFigures {
	var out []sourceFigures
	for _, j := range list {
		i := slices.IndexFunc(out, func(s sourceFigures) bool { return s.Source == j.source && s.Robot == j.Robot })
		if i < 0 {
			i = len(out)
			out = append(out, sourceFigures{Source: j.source, Robot: j.Robot})
		}
		out[i].Count++
		if j.Score > threshold {
			out[i].Banned++
		}
	}
	slices.SortStableFunc(out, func(a, b sourceFigures) int { return b.Count - a.Count })
	return out[:min(len(out), mostSources)]
}

// clientFigures is the effect of a threshold on the clients of one kind.
type clientFigures struct {
	Client       string `json:"client"`
	People       int    `json:"people"`
	PeopleBanned int    `json:"people_banned"`
	Robots       int    `json:"robots"`
	RobotsBanned int    `json:"robots_banned"`
}

// clientKinds are the factors that say what a client claims to be; the first one that is 1 holds.
var clientKinds = [...]struct{ factor, name string }{
	{"agent_missing", "no User-Agent"},
	{"agent_crawler", "crawler"},
	{"agent_robot", "declared robot"},
	{"agent_headless", "headless browser"},
	{"agent_library", "library"},
	{"agent_app", "app"},
	{"agent_browser", "browser"},
	{"agent_other", "something else"},
}

func clientOf(x []float32) string {
	names := processor.FactorNames()
	for _, k := range clientKinds {
		if i := slices.Index(names, k.factor); i >= 0 && x[i] == 1 {
			return k.name
		}
	}
	return "unknown"
}

func byClient(list []*judged, threshold float32) []clientFigures {
	var out []clientFigures
	for _, j := range list {
		i := slices.IndexFunc(out, func(c clientFigures) bool { return c.Client == j.client })
		if i < 0 {
			i = len(out)
			out = append(out, clientFigures{Client: j.client})
		}
		all, banned := &out[i].People, &out[i].PeopleBanned
		if j.Robot {
			all, banned = &out[i].Robots, &out[i].RobotsBanned
		}
		*all++
		if j.Score > threshold {
			*banned++
		}
	}
	slices.SortFunc(out, func(a, b clientFigures) int {
		return cmp.Or(cmp.Compare(b.People+b.Robots, a.People+a.Robots), cmp.Compare(a.Client, b.Client))
	})
	return out
}

func printClients(w io.Writer, clients []clientFigures) {
	fmt.Fprintln(w, "\nkind of client\tpeople\tabove\t\trobots\tabove\t")
	for _, c := range clients {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%d\t%d\t%s\n", c.Client, c.People, c.PeopleBanned, shareOf(c.PeopleBanned, c.People),
			c.Robots, c.RobotsBanned, shareOf(c.RobotsBanned, c.Robots))
	}
}
