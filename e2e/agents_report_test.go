//go:build agents

package e2e

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
)

// report gathers what became of the sessions, from several goroutines.
type report struct {
	t        *testing.T
	pages    int
	planned  int
	mu       sync.Mutex
	all      []agentSession
	versions map[string]string // by tool
}

// plan returns what is to be done.
// plan lists the sessions, but for those whose manner is not wanted.
func (r *report) plan(tools []agentTool, rounds int, wanted func(*agentSession) bool) (todo []agentSession) {
	for range rounds {
		for m := range manners {
			for i := range tools {
				for _, script := range []bool{false, true} {
					// Without the script nobody sees what is hidden: such sessions are like those of named.
					f := agentSession{tool: &tools[i], manner: &manners[m], script: script}
					if (script || f.manner.dress != hidden) && wanted(&f) {
						todo = append(todo, f)
					}
				}
			}
		}
	}
	r.planned = len(todo)
	return todo
}

func (r *report) lacks(tool, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.versions[tool] = "SKIPPED for want of " + what + ": tools/deps.sh agents"
}

// add takes a session, and returns what is to be said of it.
func (r *report) add(f *agentSession, version string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, *f)
	r.versions[f.tool.name] = version
	page := func(n int) string {
		if n == 0 {
			return "never"
		}
		return fmt.Sprintf("at page %d", n)
	}
	return fmt.Sprintf("%d of %d, %s, %s: read %d pages, unsure %s, above %s, asked %s, score %.2f %s; %s",
		len(r.all), r.planned, f.tool.name, f.describe(), f.read, page(f.unsure), page(f.above), page(f.asked), f.score, f.why, strings.Join(f.signs, ", "))
}

// print prints the tables.
func (r *report) print() {
	var b strings.Builder
	for _, tool := range slices.Sorted(maps.Keys(r.versions)) {
		fmt.Fprintf(&b, "%s: %s\n", tool, r.versions[tool])
	}
	fmt.Fprintf(&b, "\nRobots in real browsers found within %d pages by a gateway that knows nobody: unsure or above / above the threshold, of sessions\n\n", r.pages)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	head := []string{"browser", "manner", ""}
	for _, tool := range agentTools {
		head = append(head, tool.name)
	}
	fmt.Fprintln(w, strings.Join(append(head, "all (95 %)", "pages read: median, most"), "\t"))
	for _, m := range manners {
		for _, script := range []bool{false, true} {
			r.row(w, []string{m.dress, m.name, scripted[script]}, func(f *agentSession) bool {
				return f.manner.dress == m.dress && f.manner.name == m.name && f.script == script
			})
		}
	}
	for _, dress := range []string{plain, named, hidden} {
		for _, script := range []bool{false, true} {
			r.row(w, []string{dress, "all", scripted[script]}, func(f *agentSession) bool { return f.manner.dress == dress && f.script == script })
		}
	}
	_ = w.Flush()
	fmt.Print("\n" + b.String())
}

var scripted = map[bool]string{false: "without the script", true: "with the script"}

// row prints a line of the table, if there are any such sessions.
func (r *report) row(w *tabwriter.Writer, cells []string, of func(*agentSession) bool) {
	tally := func(tool string) (n, unsure, above int, reads []int) {
		for i := range r.all {
			if f := &r.all[i]; of(f) && (tool == "" || f.tool.name == tool) {
				n, reads = n+1, append(reads, f.read)
				if f.unsure > 0 {
					unsure++
				}
				if f.above > 0 {
					above++
				}
			}
		}
		return n, unsure, above, reads
	}
	n, unsure, above, reads := tally("")
	if n == 0 {
		return
	}
	for _, tool := range agentTools {
		n, unsure, above, _ := tally(tool.name)
		if n == 0 {
			cells = append(cells, "–")
		} else {
			cells = append(cells, fmt.Sprintf("%d / %d of %d", unsure, above, n))
		}
	}
	slices.Sort(reads)
	all := fmt.Sprintf("%d%s / %d%s of %d", unsure, wilson(unsure, n), above, wilson(above, n), n)
	cells = append(cells, all, fmt.Sprintf("%d, %d", reads[len(reads)/2], reads[len(reads)-1]))
	fmt.Fprintln(w, strings.Join(cells, "\t"))
}

// wilson is the interval of a share in which it lies with 95 % (Wilson's score interval), from ten on.
func wilson(k, n int) string {
	if n < 10 {
		return ""
	}
	const z = 1.959964
	p, m := float64(k)/float64(n), float64(n)
	mid, half := p+z*z/(2*m), z*math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return fmt.Sprintf(" (%.0f to %.0f %%)", 100*max(0, (mid-half)/(1+z*z/m)), 100*min(1, (mid+half)/(1+z*z/m)))
}
