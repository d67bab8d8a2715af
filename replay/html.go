package replay

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"time"

	"antirobot/svg"
	"antirobot/verdict"
	"antirobot/verdict/words"
)

//go:embed report.html
var reportHTML string

//go:embed report.css
var reportCSS string

// maxRows bounds the rows of a table in a page: the page is for people to read, the JSON has all rows.
const maxRows = 200

// HTML writes a result as a self-contained page: no script, its styles allowed by hash in its own policy, plots as SVG,
// light and dark.
func (res *Result) HTML(w io.Writer) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"thousands": thousands, "percent": percent, "printable": printable, "traffic": trafficPlot,
		"reasons": reasonsPlot, "spans": spansPlot,
		"first":      func(l []Person) []Person { return l[:min(len(l), maxRows)] },
		"firstStops": func(l []Stop) []Stop { return l[:min(len(l), maxRows)] },
	}).Parse(reportHTML)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	sum := sha256.Sum256([]byte(reportCSS))
	page := struct {
		*Result
		CSS  template.CSS
		Hash string
	}{res, template.CSS(reportCSS), "sha256-" +
		base64.StdEncoding.EncodeToString(sum[:])} //nolint:gosec // our own file
	if err := t.Execute(w, page); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// maxBuckets bounds the buckets of a Series; when there are more, they become wider.
const maxBuckets = 240

// widths of buckets, each a multiple of the previous one.
var widths = [...]time.Duration{
	time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 10 * time.Minute,
	30 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour,
	28 * 24 * time.Hour,
	364 * 24 * time.Hour, 3640 * 24 * time.Hour,
}

// Series is the traffic over time, in buckets of equal width. The zero value is empty and ready to use.
type Series struct {
	Seconds int64    `json:"bucket_seconds"`
	Begins  int64    `json:"begins"` // unix seconds
	Buckets []Bucket `json:"buckets,omitempty"`

	width int
}

// Bucket counts the requests in a period by their verdict.
type Bucket struct {
	Human   uint64 `json:"human"`
	Robot   uint64 `json:"robot"`
	Blocked uint64 `json:"blocked"`
}

// add counts a request; times never go back.
func (s *Series) add(at time.Time, is verdict.Verdict) {
	unix := at.Unix()
	if len(s.Buckets) == 0 {
		s.Seconds = int64(widths[s.width] / time.Second)
		s.Begins = unix
	}
	for (unix-s.Begins)/s.Seconds >= maxBuckets && s.width+1 < len(widths) {
		s.widen()
	}
	i := min(int((unix-s.Begins)/s.Seconds), maxBuckets-1)
	for len(s.Buckets) <= i {
		s.Buckets = append(s.Buckets, Bucket{})
	}
	b := &s.Buckets[i]
	switch is {
	case verdict.Human:
		b.Human++
	case verdict.Robot, verdict.Unsure:
		b.Robot++
	default:
		b.Blocked++
	}
}

// widen makes the buckets wider, and aligns them to a round time.
func (s *Series) widen() {
	old := *s
	s.width++
	s.Seconds = int64(widths[s.width] / time.Second)
	s.Begins = old.Begins - mod(old.Begins, s.Seconds)
	s.Buckets = nil
	for i, b := range old.Buckets {
		k := int((old.Begins + int64(i)*old.Seconds - s.Begins) / s.Seconds)
		for len(s.Buckets) <= k {
			s.Buckets = append(s.Buckets, Bucket{})
		}
		s.Buckets[k].Human += b.Human
		s.Buckets[k].Robot += b.Robot
		s.Buckets[k].Blocked += b.Blocked
	}
}

func mod(a, b int64) int64 { return ((a % b) + b) % b }

// plot is a plot in the report. Its style is in report.css.
type plot struct {
	*svg.Image
}

const (
	plotWidth  = 960
	plotLeft   = 64
	plotRight  = 12
	plotInside = plotWidth - plotLeft - plotRight
)

func newPlot(height int, label string) plot { return plot{svg.New(plotWidth, height, label)} }

func (p plot) text(x, y float64, anchor, class, s string) { p.Text(x, y, anchor, class, printable(s)) }

func (p plot) rect(x, y, w, h float64, class, title string) {
	p.Rect(x, y, w, h, class, printable(title))
}

func (p plot) grid(x1, y1, x2, y2 float64) { p.Line(x1, y1, x2, y2, "grid", "") }

// timeAxis draws ticks at round times below y, and returns the position of a time.
func (p plot) timeAxis(from, to int64, top, y float64) func(unix int64) float64 {
	to = max(to, from+1)
	x := func(unix int64) float64 { return plotLeft + plotInside*float64(unix-from)/float64(to-from) }
	step := widths[len(widths)-1]
	for _, w := range widths {
		if time.Duration(to-from)*time.Second/w <= 10 {
			step = w
			break
		}
	}
	seconds := int64(step / time.Second)
	layout := "15:04:05"
	switch {
	case step >= 24*time.Hour:
		layout = "2006-01-02"
	case to-from > 24*3600:
		layout = "01-02 15:04"
	case step >= time.Minute:
		layout = "15:04"
	}
	for at := from - mod(from, seconds) + seconds; at <= to; at += seconds {
		if px := x(at); px >= plotLeft && px <= plotWidth-plotRight {
			p.grid(px, top, px, y)
			anchor := "middle"
			if px > plotWidth-plotRight-40 {
				anchor = "end"
			}
			p.text(px, y+16, anchor, "", time.Unix(at, 0).UTC().Format(layout))
		}
	}
	return x
}

// roundUp returns the next of 1, 2, 5 times a power of ten.
func roundUp(n uint64) uint64 {
	for scale := uint64(1); scale < 1e18; scale *= 10 {
		for _, m := range [...]uint64{1, 2, 5} {
			if m*scale >= n {
				return m * scale
			}
		}
	}
	return n
}

// trafficPlot shows the requests over time: those that passed, those that got a captcha, those that were blocked.
func trafficPlot(r *Report) template.HTML {
	const height, top, bottom = 300, 28, 268
	p := newPlot(height, "requests over time by verdict")
	s := &r.Series
	var most uint64 = 1
	for _, b := range s.Buckets {
		most = max(most, b.Human+b.Robot+b.Blocked)
	}
	most = roundUp(most)
	for i := range 5 {
		n := most * uint64(i) / 4 //nolint:gosec // small
		y := bottom - float64(bottom-top)*float64(i)/4
		p.grid(plotLeft, y, plotWidth-plotRight, y)
		p.text(plotLeft-6, y+4, "end", "", thousands(n))
	}
	end := s.Begins + s.Seconds*int64(len(s.Buckets))
	x := p.timeAxis(s.Begins, end, top, bottom)
	scale := float64(bottom-top) / float64(most)
	for i, b := range s.Buckets {
		at := s.Begins + int64(i)*s.Seconds
		left := x(at)
		width := x(at+s.Seconds) - left
		y := float64(bottom)
		title := fmt.Sprintf("%s UTC, %s: %d passed, %d captcha, %d blocked",
			time.Unix(at, 0).UTC().Format("2006-01-02 15:04:05"),
			span(time.Duration(s.Seconds)*time.Second), b.Human, b.Robot, b.Blocked)
		for _, part := range [...]struct {
			n     uint64
			class string
		}{{b.Blocked, "blocked"}, {b.Robot, "robot"}, {b.Human, "human"}} {
			h := float64(part.n) * scale
			y -= h
			p.rect(left, y, max(width-0.5, 0.5), h, part.class, title)
		}
	}
	p.legend(float64(plotLeft), 8)
	return p.HTML()
}

func (p plot) legend(x, y float64) {
	for _, l := range [...]struct{ class, text string }{
		{"human", "passed"},
		{"robot", "captcha"},
		{"blocked", "blocked"},
	} {
		p.rect(x, y, 12, 12, l.class, l.text)
		p.text(x+18, y+10, "start", "", l.text)
		x += 90
	}
}

// How much of a long list a plot shows; the tables have more.
const (
	maxBars       = 25
	maxReasonBars = 12
)

func reasonsPlot(r *Report) template.HTML {
	list := r.Reasons[:min(len(r.Reasons), maxReasonBars)]
	p := newPlot(len(list)*38+8, "requests stopped by reason")
	most := uint64(1)
	for i := range list {
		most = max(most, list[i].Requests)
	}
	for i := range list {
		x := &list[i]
		y := float64(i * 38)
		title := fmt.Sprintf("%s (%s)", x.Reason, x.Cause)
		p.text(0, y+14, "start", "strong", shorten(title, 110))
		class := "robot"
		if answerOf(x.Verdict) == "blocked" {
			class = "blocked"
		}
		w := max(2, (plotWidth-150)*float64(x.Requests)/float64(most))
		p.rect(0, y+19, w, 12, class, title)
		n := thousands(x.Requests)
		if x.Subjects > 0 {
			n += words.Sprintf(words.English, " (first for %s {subject|subjects})",
				thousands(uint64(x.Subjects))) //nolint:gosec // a count
		}
		p.text(w+8, y+30, "start", "", n)
	}
	return p.HTML()
}

// spansPlot has one line for each of the most stopped subjects.
func spansPlot(r *Report) template.HTML {
	const left = 200
	list := r.Who[:min(len(r.Who), maxBars)]
	height := len(list)*20 + 32
	p := newPlot(height, "when the most stopped subjects were stopped")
	bottom := float64(height - 24)
	from, to := r.From.Unix(), max(r.To.Unix(), r.From.Unix()+1)
	// The axis leaves room for the names of subjects on its left.
	first := from - (to-from)*(left-plotLeft)/(plotInside-(left-plotLeft))
	x := p.timeAxis(first, to, 0, bottom)
	for i := range list {
		s := &list[i]
		y := float64(i*20 + 12)
		p.text(0, y+4, "start", "strong", shorten(s.Subject, 34))
		class := "span"
		if answerOf(s.Verdict) == "blocked" {
			class = "span b"
		}
		p.Line(x(s.First.Unix()), y, x(s.Last.Unix())+0.1, y, class,
			printable(fmt.Sprintf("%s: %s stopped of %s, after %s; %s",
				s.Subject, thousands(s.Requests), thousands(s.Total), thousands(s.Before), s.Reason)))
		p.Dot(x(s.First.Unix()), y, 3.5, "dot")
	}
	return p.HTML()
}
