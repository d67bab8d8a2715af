package scaling

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"antirobot/verdict/words"
)

// Text writes a report for people: a row for each figure.
func (r *Report) Text(out io.Writer) error {
	c := &r.Config
	fmt.Fprintln(out, words.Sprintf(words.English, "%s updates a second, %s a day, keys %s, reads to an update: %s; %d {gateway|gateways}, %d {node|nodes} (%s), %d {shard|shards}, %d {copy|copies}",
		amount(c.Rate), amount(c.PerDay), r.keys(), number(c.Reads), c.Gateways, c.Nodes, c.Node.Engine, c.Shards, c.Copies))
	fmt.Fprintf(out, "One gateway of %d is drawn, for %d intervals of %v: an update that is drawn stands for %s of the %v simulated. Seed %d.\n\n",
		c.Gateways, c.Sample, c.FlushEvery, amount(r.Scale), c.Length, c.Seed)
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(what, format string, args ...any) {
		fmt.Fprintf(tw, "%s\t%s\n", what, fmt.Sprintf(format, args...))
	}
	r.Gateway.rows(row)
	r.Load.rows(row, &c.Node)
	r.Space.rows(row)
	if r.Lost != nil {
		r.Lost.rows(row, c)
	}
	return tw.Flush()
}

func (r *Report) keys() string {
	if r.Config.Keys == fresh {
		return fresh
	}
	return fmt.Sprintf("%s of %s", r.Config.Keys, amount(float64(r.Config.Pool)))
}

func (g *Gateway) rows(row func(what, format string, args ...any)) {
	row("a gateway: sums a second", "%s (updates to a sum: %s)", amount(g.Sums), number(g.PerSum))
	row("  updates lost, for its buffer is full", "%s %%", number(100*g.Unbuffered))
	row("  reads from its cache", "%s %%", number(100*g.Hits))
	row("  cores", "%s", number(g.Cores))
	row("  memory for sums and cache", "%s", size(g.Memory))
}

func (l *Load) rows(row func(what, format string, args ...any), n *Node) {
	row("all nodes: cores to write one copy", "%s", number(l.WriteCores))
	row("  to read", "%s", number(l.ReadCores))
	row("  together, with all copies", "%s", number(l.Cores))
	row("busiest node: cores", "%s of %s (%s times the mean; the busiest shard drawn %s)", number(l.Busiest), number(n.Cores), number(l.Imbalance), number(l.BusiestShard))
	row("a node: sums a second", "%s of %s measured", amount(l.NodeSums), amount(n.SumsMost))
	if n.SumBytes > 0 {
		row("  written to disk a second", "%s", size(l.Written))
	}
	if n.ReadsMost > 0 {
		row("  reads a second", "%s: %s times what a disk did, if none is in the engine's cache", amount(l.NodeReads), number(l.NodeReads/n.ReadsMost))
	} else {
		row("  reads a second", "%s", amount(l.NodeReads))
	}
	if l.KeepsUp {
		row("  keeps up, by its cores and writes", "yes")
	} else {
		row("  keeps up, by its cores and writes", "no: %s sums are not written in time", amount(l.Behind))
	}
}

func (s *Space) rows(row func(what, format string, args ...any)) {
	where := "disk"
	if s.InMemory {
		where = "memory"
	}
	row(where+": different counters a day", "%s, %s a copy", amount(s.Counters), size(s.Grows))
	row("  ten-minute counts of two days, a copy", "%s", size(s.Fine))
	row("  daily counts of two fortnights, a copy", "%s", size(s.Daily))
	row("  all copies", "%s, %s a node", size(s.All), size(s.Node))
}

func (l *Lost) rows(row func(what, format string, args ...any), c *Config) {
	row(fmt.Sprintf("a node lost for %v, noticed after %v", c.LostFor, c.Notice), "the busiest")
	row("  updates that wait, at most", "%s sums, %s on a gateway's disk", amount(l.Waiting), size(l.Queue))
	row("  sums refused, for the queue is full", "%s", amount(l.Refused))
	row("  until nothing waits, from the loss", "%s", seconds(l.Empty))
	row("  reads without an answer", "%s", amount(l.Unanswered))
	over := ""
	if l.Overloaded {
		over = ": more than it has"
	}
	row("  busiest survivor: cores", "%s of %s%s (at most %s %% more than before)", number(l.Survivor), number(c.Node.Cores), over, number(100*l.More))
	row("  sums it missed, kept by the copies", "%s", amount(l.Kept))
	row("  until it has caught up, from its return", "%s", seconds(l.CatchUp))
}

// number prints three digits.
func number(v float64) string { return fmt.Sprintf("%.3g", v) }

// scaled prints three digits and a unit, the last that is not larger than v.
func scaled(v float64, units []string) string {
	i := 0
	for ; v >= 999.5 && i < len(units)-1; i++ {
		v /= 1000
	}
	if v >= 999.5 {
		return fmt.Sprintf("%.0f%s", v, units[i])
	}
	return number(v) + units[i]
}

func amount(v float64) string {
	return scaled(v, []string{"", " thousand", " million", " billion", " trillion"})
}

func size(v float64) string { return scaled(v, []string{" B", " KB", " MB", " GB", " TB", " PB"}) }

func seconds(v *float64) string {
	if v == nil {
		return "not within the time simulated"
	}
	return time.Duration(*v * float64(time.Second)).Round(100 * time.Millisecond).String()
}
