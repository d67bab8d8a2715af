package scaling

import "math"

// Report is what a simulation found. Figures are of the whole site unless they say otherwise.
type Report struct {
	Config  Config  `json:"config"`
	Draws   int     `json:"draws"`   // counters that were drawn
	Scale   float64 `json:"scale"`   // updates of the simulated time for each that was drawn
	Gateway Gateway `json:"gateway"` // one of them
	Load    Load    `json:"load"`
	Space   Space   `json:"space"`
	Lost    *Lost   `json:"lost,omitempty"` // nil: no node was lost
}

// Gateway is what one gateway does and needs.
type Gateway struct {
	Updates    float64 `json:"updates"`       // a second
	Sums       float64 `json:"sums"`          // a second, to the nodes
	PerSum     float64 `json:"updatesPerSum"` // what summing saves
	Unbuffered float64 `json:"lostShare"`     // of the updates: max-buffered has no room for them
	Hits       float64 `json:"hits"`          // of the reads, from its cache
	Cores      float64 `json:"cores"`
	Memory     float64 `json:"memoryBytes"`
}

// Load is what the nodes do while all are there.
type Load struct {
	Sums         float64 `json:"sums"`         // a second, each copy counted
	Reads        float64 `json:"reads"`        // a second, those that no gateway's cache answered
	WriteCores   float64 `json:"writeCores"`   // of one copy's nodes together
	ReadCores    float64 `json:"readCores"`    // of all nodes together
	Cores        float64 `json:"cores"`        // of all nodes together, with all copies
	Busiest      float64 `json:"busiestCores"` // of one node
	Imbalance    float64 `json:"busiestNode"`  // its work over the mean
	BusiestShard float64 `json:"busiestShard"` // its sums over the mean
	NodeSums     float64 `json:"nodeSums"`     // a second, to one node
	Written      float64 `json:"nodeWritten"`  // bytes a second, to one node's disk; 0: not measured
	NodeReads    float64 `json:"nodeReads"`    // a second, of one node
	Behind       float64 `json:"behind"`       // sums that nodes have not written yet
	KeepsUp      bool    `json:"keepsUp"`
}

// Space is what counters take when they have been counted for as long as they are kept. Those that are met in several periods
// take more: only those met once were measured.
type Space struct {
	Counters float64 `json:"countersADay"` // different ones
	Grows    float64 `json:"newADayBytes"` // of one copy
	Fine     float64 `json:"fineBytes"`    // ten-minute counts, kept for two days, of one copy
	Daily    float64 `json:"dailyBytes"`   // daily counts, kept for two fortnights, of one copy
	Copy     float64 `json:"copyBytes"`
	All      float64 `json:"bytes"`
	Node     float64 `json:"nodeBytes"`
	InMemory bool    `json:"inMemory"` // or else on disk
}

// Lost is what happens while a node is lost, the busiest. Seconds are nil if the simulated time ended before.
type Lost struct {
	Waiting    float64  `json:"waiting"`            // sums in the gateways' queues, the most at once
	Queue      float64  `json:"gatewayQueueBytes"`  // of one gateway
	Refused    float64  `json:"refused"`            // sums that found no room there
	Unanswered float64  `json:"unanswered"`         // reads
	Empty      *float64 `json:"emptySeconds"`       // from the loss until nothing waits
	Survivor   float64  `json:"busiestCores"`       // of the survivors, while it is lost
	More       float64  `json:"more"`               // of the survivors' work: the most that one has more than before
	Queued     float64  `json:"queued"`             // sums that nodes had not written yet, the most at once
	Kept       float64  `json:"kept"`               // sums that it missed
	CatchUp    *float64 `json:"catchUpSeconds"`     // from its return until it has them
	Overloaded bool     `json:"survivorOverloaded"` // a survivor has more to do than it can
}

// Run simulates c. Equal configurations give equal reports.
func Run(c Config) (*Report, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	d := drawGateway(&c)
	f := newFleet(&c, d)
	f.run()
	r := &Report{Config: c, Draws: d.draws, Gateway: gateway(&c, d), Load: f.report(), Space: space(&c)}
	r.Scale = c.Rate * c.Length.Seconds() / d.updates
	if c.LostFor > 0 {
		r.Lost = f.lostReport()
	}
	return r, nil
}

func gateway(c *Config, d *drawn) Gateway {
	seconds := float64(c.Sample) * c.FlushEvery.Seconds()
	g := Gateway{Updates: d.updates / seconds, Sums: d.written / seconds, Unbuffered: d.lost / d.updates}
	g.PerSum = (d.updates - d.lost) / d.written
	if d.reads > 0 {
		g.Hits = 1 - d.missed/d.reads
	}
	g.Cores = g.Updates * c.Node.UpdateCPU.Seconds()
	g.Memory = float64(d.buffered)*c.Node.BufferedBytes + float64(c.CacheBytes)
	return g
}

// report is what the nodes did before one was lost.
func (f *fleet) report() Load {
	c := f.c
	var l Load
	shards := make([]float64, c.Shards)
	each := f.scale / float64(len(f.d.sums))
	for i := range f.d.sums {
		for s, n := range f.d.sums[i] {
			shards[s] += n * each
			l.Sums += n * each * float64(c.Copies)
			l.Reads += f.d.misses[i][s] * each
		}
	}
	most := 0.0
	for _, n := range shards {
		most = math.Max(most, n)
	}
	l.BusiestShard = most / (l.Sums / float64(c.Copies)) * float64(c.Shards)
	l.WriteCores = l.Sums / float64(c.Copies) * c.Node.SumCPU.Seconds()
	l.ReadCores = l.Reads * c.Node.ReadCPU.Seconds()
	l.Cores = l.WriteCores*float64(c.Copies) + l.ReadCores
	nodes := float64(c.Nodes)
	work := f.mean()
	l.Busiest = work[f.lost].before
	all := 0.0
	for _, w := range work {
		all += w.before
	}
	l.Imbalance = l.Busiest / all * nodes
	l.NodeSums, l.NodeReads = l.Sums/nodes, l.Reads/nodes
	l.Written = l.NodeSums * c.Node.SumBytes
	l.Behind = f.out.behind
	l.KeepsUp = f.out.behind < 1
	return l
}

// mean returns the work of nodes in cores.
func (f *fleet) mean() []phase {
	before, during := f.c.LostAt.Seconds(), (f.c.LostAt+f.c.LostFor).Seconds()-f.settledAt()
	if f.c.LostFor == 0 {
		before = f.c.Length.Seconds()
	}
	work := make([]phase, len(f.load))
	for n, w := range f.load {
		work[n] = phase{w.before / before, w.during / during}
	}
	return work
}

func space(c *Config) Space {
	k := &keys{law: c.Keys, pool: c.Pool}
	const fineDays, fortnights, fortnight = 2, 2, 14
	s := Space{Counters: k.distinct(c.PerDay), InMemory: c.Node.Engine == Redis}
	s.Grows = s.Counters * (c.Node.FineBytes + c.Node.DailyBytes)
	s.Fine = fineDays * s.Counters * c.Node.FineBytes
	s.Daily = fortnights * k.distinct(fortnight*c.PerDay) * c.Node.DailyBytes
	s.Copy = s.Fine + s.Daily
	s.All = s.Copy * float64(c.Copies)
	s.Node = s.All / float64(c.Nodes)
	return s
}

func (f *fleet) lostReport() *Lost {
	o := &f.out
	l := &Lost{Waiting: o.waiting, Refused: o.refused, Unanswered: o.unanswered, Queued: o.queued, Kept: o.kept}
	l.Queue = o.waiting / float64(f.c.Gateways) * f.c.Node.QueuedBytes
	for n, w := range f.mean() {
		if n == f.lost {
			continue
		}
		l.Survivor = math.Max(l.Survivor, w.during)
		if w.before > 0 {
			l.More = math.Max(l.More, w.during/w.before-1)
		}
	}
	l.Overloaded = l.Survivor > f.c.Node.Cores
	since := func(at float64, from float64) *float64 {
		if math.IsInf(at, 1) {
			return nil
		}
		at = math.Max(0, at-from)
		return &at
	}
	l.Empty = since(o.empty, f.c.LostAt.Seconds())
	l.CatchUp = since(o.caught, (f.c.LostAt + f.c.LostFor).Seconds())
	return l
}
