package bench

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// Report is what was measured.
type Report struct {
	options  Options
	measured []measured
}

// count says of a class or a sort of visitors how many were taken for robots, and how many perhaps.
type count struct{ above, unsure, of int }

func (c *count) add(v visitor, o Options) {
	c.of++
	switch {
	case v.most > o.Threshold:
		c.above++
	case v.most > o.Unsure:
		c.unsure++
	}
}

func (c count) cells() string { return fmt.Sprintf("%d\t%d\t%d", c.above, c.unsure, c.of) }

// share says how many of all, as a percentage with its interval.
func share(k, n int) string {
	low, high := wilson(k, n)
	return fmt.Sprintf("%d of %d (%.1f %%; %.1f to %.1f)", k, n, 100*float64(k)/float64(max(1, n)), 100*low, 100*high)
}

// row sums up logs.
type row struct {
	areas          []area
	people, robots count
}

func (r *row) add(visitors []visitor, o Options) {
	r.areas = append(r.areas, areaOf(visitors))
	for _, v := range visitors {
		if v.robot {
			r.robots.add(v, o)
		} else {
			r.people.add(v, o)
		}
	}
}

func (r *row) area() string {
	a := meanArea(r.areas)
	low, high := a.interval()
	return fmt.Sprintf("%.3f (%.3f to %.3f)", a.value, low, high)
}

// Write prints the table by site and form, the sums by form and, if asked for, what became of each sort of visitor.
func (r *Report) Write(to io.Writer, sorts bool) error {
	o := r.options
	fmt.Fprintf(to, "Seeds %v. ROC AUC: mean of the logs' areas, by the mean of a visitor's scores, with DeLong's interval (95 %%).\n", o.Seeds)
	fmt.Fprintf(to, "Logs: plain is the combined format with the visitor, types is JSON with the types of answers, all has Accept and Sec-Fetch, too.\n")
	fmt.Fprintf(to, "Above: judged at any time by a score above %v, at which a first ban is given; unsure: by one above %v. Of visitors with two pages or more.\n\n", o.Threshold, o.Unsure)
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "site\tlog\tROC AUC\tpeople above\tunsure\tof\trobots above\tunsure\tof\t")
	sums := make([]row, len(forms))
	for i, m := range r.measured {
		var one row
		for _, visitors := range m.logs {
			one.add(visitors, o)
			sums[i%len(forms)].add(visitors, o)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t\n", m.site, m.form.name, one.area(), one.people.cells(), one.robots.cells())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(to, "\nIn all %d logs of each form, shares with Wilson's interval:\n\n", len(o.Sites)*len(o.Seeds))
	w = tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "log\tROC AUC\tpeople above\tpeople above or unsure\trobots above\trobots above or unsure")
	for i, f := range forms {
		p, b := sums[i].people, sums[i].robots
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", f.name, sums[i].area(), share(p.above, p.of), share(p.above+p.unsure, p.of), share(b.above, b.of), share(b.above+b.unsure, b.of))
	}
	if err := w.Flush(); err != nil || !sorts {
		return err
	}
	return r.writeSorts(to)
}

// writeSorts prints what became of each sort, people first, those above the threshold most often before others.
func (r *Report) writeSorts(to io.Writer) error {
	type sort struct {
		name  string
		robot bool
		of    []count // by form
	}
	known := map[string]*sort{}
	for i, m := range r.measured {
		for _, visitors := range m.logs {
			for _, v := range visitors {
				s := known[v.sort]
				if s == nil {
					s = &sort{v.sort, v.robot, make([]count, len(forms))}
					known[v.sort] = s
				}
				s.of[i%len(forms)].add(v, r.options)
			}
		}
	}
	fmt.Fprint(to, "\nBy sort, above, unsure and of how many:\n\n")
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "sort\twho\t")
	for _, f := range forms {
		fmt.Fprintf(w, "%s\tunsure\tof\t", f.name)
	}
	fmt.Fprintln(w)
	rate := func(s *sort) (above, of int) {
		for _, c := range s.of {
			above, of = above+c.above, of+c.of
		}
		return above, of
	}
	for _, s := range slices.SortedFunc(maps.Values(known), func(a, b *sort) int {
		x, n := rate(a)
		y, m := rate(b)
		return cmp.Or(compareBool(a.robot, b.robot), cmp.Compare(y*n, x*m), cmp.Compare(a.name, b.name))
	}) {
		who := "person"
		if s.robot {
			who = "robot"
		}
		fmt.Fprintf(w, "%s\t%s\t", s.name, who)
		for _, c := range s.of {
			fmt.Fprintf(w, "%s\t", c.cells())
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
