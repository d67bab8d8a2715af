package replay

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/words"
)

// Text writes a result for people to read; top bounds the lines of each table, 0 is all.
func (res *Result) Text(w io.Writer, top int) error {
	p := &printer{top: top}
	p.log(res)
	p.report(res.Report)
	if res.Against != nil {
		p.line("")
		p.report(res.Against)
		p.difference(res)
	}
	_, err := io.WriteString(w, p.b.String())
	return err
}

type printer struct {
	b   strings.Builder
	top int
}

func (p *printer) line(format string, args ...any) {
	p.b.WriteString(words.Sprintf(words.English, format, args...))
	p.b.WriteByte('\n')
}

const minute = "2006-01-02 15:04"

func (p *printer) log(res *Result) {
	c, r := &res.Log, res.Report
	if r.Requests > 0 {
		p.line("%s {request|requests} of %s {subject|subjects}, %s to %s UTC (%s)", thousands(r.Requests),
			thousands(uint64(r.Subjects)), //nolint:gosec // a count
			r.From.Format(minute), r.To.Format(minute), span(r.To.Sub(r.From)))
	}
	if c.Lines == 0 {
		p.line("The log is empty.")
	}
	rest := ""
	if c.Other > 0 {
		rest += fmt.Sprintf(", %s without a request", thousands(c.Other))
	}
	if c.Late > 0 {
		rest += words.Sprintf(words.English, ", %s left out because {it|they} came too late (--window)",
			thousands(c.Late))
	}
	if c.Bad > 0 || rest != "" {
		p.line("%s {line|lines}: %s could not be read%s", thousands(c.Lines), thousands(c.Bad), rest)
	}
	for _, b := range c.Problems {
		p.line("  %s:%d %s: %s", b.Input, b.Line, b.What, printable(b.Text))
	}
	if more := c.Bad - uint64(len(c.Problems)); more > 0 && len(c.Problems) > 0 {
		p.line("  and %s more", thousands(more))
	}
	p.line("")
}

func (p *printer) report(r *Report) {
	p.line("With %s, %s of %s {request|requests} would have been stopped (%s): %s by a captcha (programs: 403 or "+
		"429), %s blocked.", r.Config,
		thousands(r.Stopped), thousands(r.Requests), percent(r.Stopped, r.Requests), thousands(r.Captcha),
		thousands(r.Blocked))
	p.line("That is %s of %s {subject|subjects}, %s of the pages, %s of the bytes; %s of these subjects {says that "+
		"it is a robot|say that they are robots}.",
		thousands(uint64(r.StoppedSubjects)), thousands(uint64(r.Subjects)), percent(r.StoppedPages, r.Pages),
		//nolint:gosec // counts
		percent(r.StoppedBytes, r.Bytes), thousands(uint64(r.DeclaredRobots))) //nolint:gosec // a count
	for _, n := range r.Notes {
		p.line("Note: %s.", n)
	}
	p.reasons(r)
	p.who("Who", r.Who)
	p.crawlers(r)
	p.people(r)
}

func (p *printer) table(title string, head []string, n int, row func(i int) []string) {
	if n == 0 {
		return
	}
	p.line("\n%s", title)
	w := tabwriter.NewWriter(&p.b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  "+strings.Join(head, "\t"))
	shown := n
	if p.top > 0 && n > p.top {
		shown = p.top
	}
	for i := range shown {
		fmt.Fprintln(w, "  "+strings.Join(row(i), "\t"))
	}
	_ = w.Flush() // to a Builder
	if shown < n {
		p.line("  and %s more (--top)", thousands(uint64(n-shown))) //nolint:gosec // a count
	}
}

func (p *printer) reasons(r *Report) {
	p.table("Why", []string{"requests", "subjects", "answer", "cause", "reason"}, len(r.Reasons), func(i int) []string {
		x := &r.Reasons[i]
		return []string{
			thousands(x.Requests), strconv.Itoa(x.Subjects), answerOf(x.Verdict), x.Cause,
			printable(words.Reason(words.English, x.Reason)),
		}
	})
}

func answerOf(v string) string {
	if v == verdict.Blocked.String() {
		return "blocked"
	}
	return "captcha"
}

func (p *printer) who(title string, list []Stop) {
	p.table(title, []string{"subject", "first stopped", "after", "stopped", "of", "top factors", "user agent"},
		len(list), func(i int) []string {
			s := &list[i]
			who := s.Subject
			if s.User != "" {
				who += " (" + printable(s.User) + ")"
			}
			return []string{
				who, s.First.Format("2006-01-02 15:04:05"), thousands(s.Before), thousands(s.Requests),
				thousands(s.Total),
				s.FactorsText(), shorten(printable(s.Agent), 60),
			}
		})
}

// FactorsText returns the strongest factors, or the reason if there are none.
func (s *Stop) FactorsText() string {
	if len(s.Factors) == 0 {
		return printable(words.Reason(words.English, s.Reason))
	}
	var parts []string
	for _, f := range s.Factors {
		parts = append(parts, words.Factor(words.English, f.Name, f.Value))
	}
	return strings.Join(parts, "; ")
}

func (p *printer) crawlers(r *Report) {
	p.table("Declared crawlers (stopped / requests)", []string{
		"crawler", "verified by ranges", "not verifiable here",
		"outside its ranges",
	},
		len(r.Crawlers), func(i int) []string {
			c := &r.Crawlers[i]
			of := func(stopped, all uint64) string {
				if all == 0 {
					return "–"
				}
				return thousands(stopped) + " / " + thousands(all)
			}
			return []string{
				c.Name, of(c.VerifiedStopped, c.Verified), of(c.UnknownStopped, c.Unknown),
				of(c.OutsideStopped, c.Outside),
			}
		})
}

func (p *printer) people(r *Report) {
	if r.SignedIn == 0 {
		return
	}
	p.line("\nOf %s {person|people} who {was|were} signed in, %s would have been stopped.",
		thousands(uint64(r.SignedIn)), thousands(uint64(len(r.People)))) //nolint:gosec // counts
	p.table("Signed-in people", []string{"user", "first stopped", "stopped", "of", "reason"}, len(r.People),
		func(i int) []string {
			u := &r.People[i]
			return []string{
				printable(u.User), u.First.Format("2006-01-02 15:04:05"), thousands(u.Stopped), thousands(u.Requests),
				printable(words.Reason(words.English, u.Reason)),
			}
		})
}

func (p *printer) difference(res *Result) {
	d := res.Difference
	p.line("\nFrom %s to %s: %s {subject|subjects} (%s {request|requests}) newly stopped, %s (%s) newly free, %s stopped by both.", res.Report.Config,
		res.Against.Config, thousands(uint64(len(d.Stopped))), thousands(d.RequestsStopped), //nolint:gosec // a count
		thousands(uint64(len(d.Free))), thousands(d.RequestsFree), thousands(uint64(d.Both))) //nolint:gosec // counts
	p.who("Newly stopped", d.Stopped)
	p.who("Newly free", d.Free)
}

func thousands(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func span(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return words.Sprintf(words.English, "%d {day|days} %d {hour|hours}", d/(24*time.Hour),
			d%(24*time.Hour)/time.Hour)
	case d >= 2*time.Hour:
		return words.Sprintf(words.English, "%d {hour|hours} %d {minute|minutes}", d/time.Hour, d%time.Hour/time.Minute)
	case d >= 2*time.Minute:
		return words.Sprintf(words.English, "%d {minute|minutes}", d/time.Minute)
	}
	return d.Round(time.Second).String()
}

// printable replaces what a terminal would interpret or what would break a table.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '·'
		}
		return r
	}, s)
}

func shorten(s string, most int) string {
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return string(runes[:most-1]) + "…"
}
