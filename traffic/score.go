package traffic

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"antirobot/replay"
)

// Score counts what happened to each kind of client. The zero value is ready to use.
type Score struct {
	Begin   time.Time // minutes are counted from this time
	clients map[Kind]map[int]*fate
}

// fate is what happened to one client.
type fate struct {
	first, last, stop time.Time
	requests          int
	before            int // requests before the first that was stopped
	stopped           int
	episodes          int // runs of stopped requests at most a few minutes apart
	lastStop          time.Time
	subject           string
	why, factors      string
	habit             string
	pages             int
	pagesBefore       int  // before the first that was stopped
	taken             bool // for a robot; otherwise only asked because of what is read
	checks            int  // silent checks that its browser took
}

// Add counts a request.
func (s *Score) Add(r *Request, served *replay.Served) {
	if s.clients == nil {
		s.clients = map[Kind]map[int]*fate{}
	}
	of := s.clients[r.Kind]
	if of == nil {
		of = map[int]*fate{}
		s.clients[r.Kind] = of
	}
	f := of[r.Client]
	if f == nil {
		f = &fate{first: r.View.At, habit: r.Habit}
		of[r.Client] = f
	}
	f.last = r.View.At
	f.requests++
	if r.Page {
		f.pages++
	}
	if served == nil || !served.Stopped || r.Led {
		return
	}
	if r.Check {
		f.checks++
		return
	}
	f.taken = f.taken || !served.Asked()
	if f.stopped++; f.stopped == 1 {
		d := served.Decision
		f.before, f.stop, f.subject, f.why = f.requests-1, r.View.At, d.Ban.Subject.String(), served.Why()
		f.pagesBefore = f.pages
		for _, x := range d.Ban.Factors {
			if x.Name != "" {
				f.factors += fmt.Sprintf(" %s=%.4g (%+.2f)", x.Name, x.Value, x.Amount)
			}
		}
	}
	if r.View.At.Sub(f.lastStop) > apart {
		f.episodes++
	}
	f.lastStop = r.View.At
}

// apart is the time without a stopped request after which the next one begins another episode.
const apart = 5 * time.Minute

// Hurt is a client that is not a robot and was stopped.
type Hurt struct {
	Kind    Kind      `json:"kind"`
	Client  int       `json:"client"`
	Habit   string    `json:"habit,omitempty"`
	At      time.Time `json:"at"`
	Before  int       `json:"requests_before"`
	Stopped int       `json:"stopped"`
	Taken   bool      `json:"taken_for_a_robot"` // otherwise only asked because of what it reads
	Held    bool      `json:"held_out"`
	Subject string    `json:"subject"`
	Reason  string    `json:"reason"`
	Factors string    `json:"factors"` // name=value (what it added to the score)
}

// Hurt returns the people who were stopped.
func (s *Score) Hurt() []Hurt {
	var list []Hurt
	for _, k := range Kinds() {
		if k.Robot() {
			continue
		}
		for n, f := range s.clients[k] {
			if f.stopped > 0 {
				list = append(list, Hurt{
					Kind: k, Client: n, Habit: f.habit, At: f.stop, Before: f.before, Stopped: f.stopped, Taken: f.taken, Held: IsHeldOut(k, f.habit), Subject: f.subject, Reason: f.why,
					Factors: strings.TrimSpace(f.factors),
				})
			}
		}
	}
	slices.SortFunc(list, func(a, b Hurt) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Client, b.Client)) })
	return list
}

// Outcome is what happened to the clients of a kind.
type Outcome struct {
	Kind            Kind          `json:"kind"`
	Habit           string        `json:"habit,omitempty"`
	Robot           bool          `json:"robot"`
	Held            bool          `json:"held_out"`
	Clients         int           `json:"clients"`
	Requests        int           `json:"requests"`
	Stopped         int           `json:"stopped_clients"`
	RequestsStopped int           `json:"stopped_requests"`
	Asked           int           `json:"asked_clients"`          // of these, those never taken for a robot: only asked
	Checked         int           `json:"checked_clients"`        // others, who took silent checks and were never stopped otherwise
	Checks          int           `json:"checks"`                 // silent checks that were taken, of all clients
	Thirty          int           `json:"stopped_by_30_pages"`    // clients
	BeforeMedian    int           `json:"requests_before_median"` // of the stopped ones
	BeforeMost      int           `json:"requests_before_most"`
	TimeMedian      time.Duration `json:"time_before_median"`
	TimeMost        time.Duration `json:"time_before_most"`
	Minutes         []int         `json:"stopped_by_minute"` // clients stopped within the number of minutes that Marks says
	Episodes        int           `json:"episodes"`          // of all clients: how often they were stopped afresh
	Why             []string      `json:"reasons,omitempty"` // of first stops, the most common first
	Hurt            []Hurt        `json:"hurt,omitempty"`    // of those who are no robots
}

// marks are the minutes after a client's first request at which Outcome.Minutes counts.
var marks = [...]int{1, 2, 3, 5, 10, 15, 30, 60, 120, 360, 1440}

// Outcomes returns what happened to all clients, in the order of Kinds; kinds with habits have one for each habit.
func (s *Score) Outcomes() []Outcome {
	var list []Outcome
	hurt := s.Hurt()
	for _, k := range Kinds() {
		habits := map[string]map[int]*fate{}
		for n, f := range s.clients[k] {
			if habits[f.habit] == nil {
				habits[f.habit] = map[int]*fate{}
			}
			habits[f.habit][n] = f
		}
		for _, h := range slices.Sorted(maps.Keys(habits)) {
			o := outcome(k, habits[h])
			o.Habit, o.Held = h, IsHeldOut(k, h)
			for _, x := range hurt {
				if x.Kind == k && x.Habit == h {
					o.Hurt = append(o.Hurt, x)
				}
			}
			list = append(list, o)
		}
	}
	return list
}

// name is the kind and the habit.
func (o *Outcome) name() string {
	if o.Habit == "" {
		return string(o.Kind)
	}
	return string(o.Kind) + ": " + o.Habit
}

func outcome(k Kind, of map[int]*fate) Outcome {
	o := Outcome{Kind: k, Robot: k.Robot(), Clients: len(of), Minutes: make([]int, len(marks))}
	var before []int
	var took []time.Duration
	why := map[string]int{}
	for _, f := range of {
		o.Requests += f.requests
		o.RequestsStopped += f.stopped
		o.Checks += f.checks
		if f.stopped == 0 && f.checks > 0 {
			o.Checked++
		}
		if f.stopped == 0 {
			continue
		}
		o.Stopped++
		if !f.taken {
			o.Asked++
		}
		if f.pagesBefore <= 30 {
			o.Thirty++
		}
		o.Episodes += f.episodes
		why[f.why]++
		d := f.stop.Sub(f.first)
		before, took = append(before, f.before), append(took, d)
		for i, m := range marks {
			if d < time.Duration(m)*time.Minute {
				o.Minutes[i]++
			}
		}
	}
	if o.Stopped > 0 {
		slices.Sort(before)
		slices.Sort(took)
		o.BeforeMedian, o.BeforeMost = before[len(before)/2], before[len(before)-1]
		o.TimeMedian, o.TimeMost = took[len(took)/2], took[len(took)-1]
	}
	for w := range why {
		o.Why = append(o.Why, w)
	}
	slices.SortFunc(o.Why, func(a, b string) int { return cmp.Or(cmp.Compare(why[b], why[a]), cmp.Compare(a, b)) })
	return o
}

// Text writes the outcomes as two tables: what happened to each kind, and how many of it were stopped by each minute.
func (s *Score) Text(w io.Writer) error {
	list := s.Outcomes()
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "kind\tis\tclients\trequests\tclients stopped\tonly asked\tonly checked\twithin 30 pages\tafter requests: median, most\tafter: median, most\trequests stopped\ttimes")
	for i := range list {
		o := &list[i]
		after, took := "–", "–"
		if o.Stopped > 0 {
			after = fmt.Sprintf("%d, %d", o.BeforeMedian, o.BeforeMost)
			took = fmt.Sprintf("%v, %v", round(o.TimeMedian), round(o.TimeMost))
		}
		fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%d (%s)\t%d\t%d\t%d\t%s\t%s\t%d (%s)\t%d\n", o.name(), o.is(), o.Clients, o.Requests,
			o.Stopped, share(o.Stopped, o.Clients), o.Asked, o.Checked, o.Thirty, after, took, o.RequestsStopped, share(o.RequestsStopped, o.Requests), o.Episodes)
	}
	fmt.Fprintln(tw)
	if err := tw.Flush(); err != nil {
		return err
	}
	tw = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	head := []string{"clients stopped within minutes"}
	for _, m := range marks {
		head = append(head, fmt.Sprint(m))
	}
	fmt.Fprintln(tw, strings.Join(head, "\t")+"\t")
	for i := range list {
		o := &list[i]
		row := []string{o.name()}
		for _, n := range o.Minutes {
			row = append(row, share(n, o.Clients))
		}
		fmt.Fprintln(tw, strings.Join(row, "\t")+"\t")
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	return s.hurtText(w)
}

func spaced(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

// maxHurt bounds the people that the text names.
const maxHurt = 30

func (s *Score) hurtText(w io.Writer) error {
	hurt := s.Hurt()
	if len(hurt) == 0 {
		_, err := fmt.Fprintln(w, "\nNobody who is not a robot was stopped.")
		return err
	}
	fmt.Fprintf(w, "\n%d who are no robots were stopped:\n", len(hurt))
	for i, h := range hurt {
		if i == maxHurt {
			fmt.Fprintf(w, "  and %d more (--json)\n", len(hurt)-i)
			break
		}
		fmt.Fprintf(w, "  %s %d%s at %s after %d requests, %d stopped, %s: %s [%s]\n", h.Kind, h.Client, spaced(h.Habit), h.At.Format(time.DateTime), h.Before, h.Stopped,
			h.Subject, h.Reason, h.Factors)
	}
	return nil
}

func (o *Outcome) is() string {
	switch {
	case o.Robot && o.Held:
		return "robot, held out"
	case o.Robot:
		return "robot"
	case o.Held:
		return "human, held out"
	case o.Kind == Crawler:
		return "welcome"
	}
	return "human"
}

func share(n, of int) string {
	if of == 0 {
		return "–"
	}
	p := 100 * float64(n) / float64(of)
	switch {
	case n == 0:
		return "0 %"
	case n == of:
		return "100 %"
	}
	return fmt.Sprintf("%.1f %%", p)
}

func round(d time.Duration) time.Duration {
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond)
	case d < time.Hour:
		return d.Round(time.Second)
	}
	return d.Round(time.Minute)
}
