package cmd

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"antirobot/verdict/formula"
	"antirobot/verdict/processor"
)

// What of a subject's scores counts.
const (
	byMean    = "mean"
	byHighest = "highest"
)

// clientFigures is the effect of the threshold on the clients of one kind.
type clientFigures struct {
	Client       string `json:"client"`
	People       int    `json:"people"`
	PeopleBanned int    `json:"people_banned"`
	Robots       int    `json:"robots"`
	RobotsBanned int    `json:"robots_banned"`
}

// clientKinds are the factors that say what a client claims to be, the first one that is 1 holds.
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
		c, banned := &out[i], j.Score > threshold
		switch {
		case j.Robot && banned:
			c.RobotsBanned++
			c.Robots++
		case j.Robot:
			c.Robots++
		case banned:
			c.PeopleBanned++
			c.People++
		default:
			c.People++
		}
	}
	slices.SortFunc(out, func(a, b clientFigures) int {
		return cmp.Or(cmp.Compare(b.People+b.Robots, a.People+a.Robots), cmp.Compare(a.Client, b.Client))
	})
	return out
}

func (r *formulaReport) printClients(w io.Writer) {
	fmt.Fprintln(w, "\nkind of client\tpeople\tabove\t\trobots\tabove\t")
	for _, c := range r.Clients {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%d\t%d\t%s\n", c.Client, c.People, c.PeopleBanned, c.PeopleShare(), c.Robots,
			c.RobotsBanned, c.RobotsShare())
	}
}

func (r *formulaReport) printCalibration(w io.Writer) {
	fmt.Fprintln(w, "\nscores from\tmean\tcount\trobots")
	for _, b := range r.Total.Calibration {
		fmt.Fprintf(w, "%.1f\t%.3f\t%d\t%s\n", b.From, b.Score, b.Count,
			percent(formula.Figure(float64(b.Robots)/float64(b.Count))))
	}
}

// PeopleShare is for the page.
func (c clientFigures) PeopleShare() string { return shareOf(c.PeopleBanned, c.People) }

// RobotsShare is for the page.
func (c clientFigures) RobotsShare() string { return shareOf(c.RobotsBanned, c.Robots) }

func shareOf(part, of int) string {
	if of == 0 {
		return ""
	}
	return percent(formula.Figure(float64(part) / float64(of)))
}
