package console

import (
	"fmt"
	"html/template"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"antirobot/admin"
	"antirobot/alarm"
	"antirobot/captcha/outcomes"
	"antirobot/journal"
	"antirobot/svg"
)

// figures is the answer of the API about a span of time.
type figures struct {
	By    string            `json:"by"`
	Items []journal.Figures `json:"items"`

	Stopped journal.Stopped `json:"stopped"`

	Gateways []admin.GatewayState `json:"gateways"`
}

var verdicts = []string{"human", "unsure", "robot", "blocked"}

// spans are what the first page can show.
var spans = []struct {
	Name, By   string
	Long, Step time.Duration
}{
	{"hour", "minute", time.Hour, time.Minute},
	{"day", "hour", 24 * time.Hour, time.Hour},
	{"week", "hour", 7 * 24 * time.Hour, time.Hour},
	{"month", "day", 30 * 24 * time.Hour, 24 * time.Hour},
	{"year", "day", 365 * 24 * time.Hour, 24 * time.Hour},
}

type source struct {
	Name     string  `json:"name"`
	Flag     string  `json:"flag"`
	Kind     string  `json:"kind"`
	Entries  int     `json:"entries"`
	Loaded   bool    `json:"loaded"`
	Age      float64 `json:"age_seconds"`
	Failures int     `json:"failures"`
	Error    string  `json:"error"`
	Lately   int     `json:"decided_entries"`
	spoken
}

// Counted reports whether it is counted how often the entries of a source decide.
func (s source) Counted() bool { return !s.Since.IsZero() }

func (v *visit) showNow() {
	span := spans[0]
	for _, s := range spans {
		if s.Name == string(v.ctx.QueryArgs().Peek("span")) {
			span = s
		}
	}
	data := map[string]any{"Span": span.Name, "Spans": spans}
	var is statuses
	if !v.get("/api/status"+everywhere, &is) {
		return
	}
	data["Status"], data["Troubles"], data["Gateways"], data["Lost"] = is.status, is.troubles(), is.health(),
		lost(is.Gateways)
	to := v.now().UTC()
	from := to.Add(-span.Long).Truncate(span.Step)
	var f figures
	if v.look("/api/journal/figures?"+url.Values{
		"by": {span.By}, "from": {from.Format(time.RFC3339)},
		"to": {to.Format(time.RFC3339)}, "top": {"6"}, "gateways": {"all"},
	}.Encode(), &f) {
		data["Plot"] = v.plot(f.Items, from, to, span.Step)
		sum := journal.Sum(f.Items)
		data["Sums"], data["Challenges"], data["Lost"] = sum.Requests, sum.Challenges, lost(f.Gateways)
		data["Reasons"], data["Networks"], data["Agents"] = f.Stopped["reason"], f.Stopped["network"],
			f.Stopped["agent"]
	}
	var watch struct {
		Items    []admin.Alarm     `json:"items"`
		Webhooks []alarm.HookState `json:"webhooks"`
	}
	if v.look("/api/alarms"+everywhere, &watch) {
		// of these the status of this moment says more
		watch.Items = slices.DeleteFunc(watch.Items, func(a admin.Alarm) bool {
			return a.Name == "store-away" || a.Name == "service-away"
		})
		data["Alarms"], data["Webhooks"] = watch.Items, watch.Webhooks
	}
	v.page("now", fasthttp.StatusOK, data)
}

// plot draws the requests of each step, stacked by verdict.
func (v *visit) plot(all []journal.Figures, from, to time.Time, step time.Duration) template.HTML {
	const width, height, left, bottom = 720, 200, 44, 18
	n := int(to.Sub(from)/step) + 1
	at := map[int64]map[string]float64{}
	top := 1.0
	for i := range all {
		sum := journal.Sum(all[i : i+1])
		at[all[i].At.Unix()] = sum.Requests
		top = max(top, sum.Total)
	}
	top = axis(top)
	m := svg.New(width, height, v.said()["requests_by_verdict"])
	for i := range 3 {
		y := float64(height-bottom) * (1 - float64(i)/2)
		m.Line(left, y, width, y, "grid", "")
		m.Text(left-4, max(y, 10), "end", "axis", short(top*float64(i)/2))
	}
	w := float64(width-left) / float64(n)
	for i := range n {
		t := from.Add(time.Duration(i) * step)
		y := float64(height - bottom)
		for _, name := range verdicts {
			count := at[t.Unix()][name]
			h := count / top * float64(height-bottom)
			y -= h
			m.Rect(left+float64(i)*w, y, max(w-1, 0.6), h, "v-"+name,
				fmt.Sprintf("%s UTC: %s %.0f", t.Format("2006-01-02 15:04"), v.said().word("verdict_", name), count))
		}
		if i%max(n/6, 1) == 0 && i+n/12 < n { // the last one would be cut off
			layout := "15:04"
			if step >= 24*time.Hour || n > 30 && step == time.Hour {
				layout = "01-02"
			}
			m.Text(left+float64(i)*w, height-4, "start", "axis", t.Format(layout))
		}
	}
	return m.HTML()
}

// axis rounds the end of an axis up to 2, 4, 6, 8 or 10 of a power of ten, so that its middle is a round number, too.
func axis(top float64) float64 {
	unit := math.Pow(10, max(math.Floor(math.Log10(top)), 0))
	return 2 * unit * math.Ceil(top/(2*unit))
}

func short(n float64) string {
	switch {
	case n >= 1e6:
		return strconv.FormatFloat(n/1e6, 'g', 3, 64) + "M"
	case n >= 1e4:
		return strconv.FormatFloat(n/1e3, 'g', 3, 64) + "k"
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

// coursePlot draws the entries of a subject over time: a line for each kind of what happened.
func (v *visit) coursePlot(all []journal.Entry) template.HTML {
	if len(all) < 2 {
		return ""
	}
	const width, row, left = 720, 18, 110
	first, last := all[len(all)-1].At, all[0].At
	span := max(last.Sub(first).Seconds(), 1)
	said := v.said()
	var names []string
	line := map[string]int{}
	for _, e := range all {
		line[lane(&e)] = 0
	}
	names = slices.Sorted(maps.Keys(line))
	for i, name := range names {
		line[name] = i
	}
	m := svg.New(width, row*len(names)+18, said["course"])
	for i, name := range names {
		y := float64(i*row + row/2)
		m.Line(left, y, width, y, "grid", "")
		m.Text(left-6, y+4, "end", "axis", said.word("verdict_", said.word("kind_", name)))
	}
	for i := range all {
		e := &all[i]
		x := left + 4 + e.At.Sub(first).Seconds()/span*(width-left-8)
		m.Rect(x-1.5, float64(line[lane(e)]*row+3), 3, row-6, "v-"+lane(e), e.At.Format("15:04:05")+" "+e.Path)
	}
	m.Text(left, float64(row*len(names)+14), "start", "axis", first.Format("2006-01-02 15:04:05"))
	m.Text(width, float64(row*len(names)+14), "end", "axis", last.Format("2006-01-02 15:04:05"))
	return m.HTML()
}

// lane is the line of an entry: its verdict, or what else happened.
func lane(e *journal.Entry) string {
	if e.Kind == "request" {
		return e.Verdict
	}
	return e.Kind
}

// took is a time to right answers; none, if there was no such answer.
func took(c outcomes.Count, seconds float64) string {
	if c.Solved == 0 || seconds == 0 {
		return "–"
	}
	return strconv.FormatFloat(seconds, 'f', 1, 64)
}

// solvedShare is how many of a hundred that were shown were solved; unknown where they were shown before the counts
// begin.
func solvedShare(c outcomes.Count) string {
	if c.Shown == 0 || c.Solved > c.Shown {
		return "–"
	}
	return strconv.FormatInt(100*c.Solved/c.Shown, 10) + " %"
}

func (v *visit) showChallenges() {
	var c admin.Challenges
	if !v.get("/api/challenges"+everywhere, &c) {
		return
	}
	c.Networks = c.Networks[:min(len(c.Networks), 20)]
	v.page("challenges", fasthttp.StatusOK, map[string]any{"C": c, "Lost": lost(c.Gateways)})
}
