package scaling

import "math"

// step of the simulated time, in seconds.
const step = 0.1

// fleet is the nodes at a moment of the simulated time.
type fleet struct {
	c     *Config
	d     *drawn
	scale float64   // from what was drawn in an interval to all gateways in a second
	queue []float64 // by node: sums that it has not written yet
	wait  []float64 // by shard: sums that wait in the gateways' queues, once for all copies
	lag   float64   // sums that the lost node's copies keep for it
	lost  int       // the node that is lost

	now       float64
	unwritten float64 // sums of all queues
	down      bool    // the node is lost
	following bool    // it is back and not complete

	sums, reads []float64 // by node: what comes in this step
	load        []phase   // by node
	out         outcome
}

// phase is a node's work in CPU seconds before a node is lost, and while others do its work.
type phase struct{ before, during float64 }

// outcome is what the lost node cost.
type outcome struct {
	waiting, kept float64 // sums, the most at once
	unanswered    float64 // reads
	refused       float64 // sums that found no room in a queue
	behind        float64 // sums that nodes have not written yet, the most at once before the loss
	queued        float64 // the same, after it
	empty, caught float64 // seconds of the simulated time when it was over; infinite: not in the time simulated
}

// holder returns the node of a shard's copy. A shard's first copies go round the nodes, and the others of one node's shards
// are spread over all other nodes, so that no neighbour takes over everything.
func (c *Config) holder(shard, copied int) int {
	first := shard % c.Nodes
	if copied == 0 {
		return first
	}
	round := shard / c.Nodes
	return (first + 1 + (round*(c.Copies-1)+copied-1)%(c.Nodes-1)) % c.Nodes
}

// newFleet makes nodes that are up, the busiest of which will be lost.
func newFleet(c *Config, d *drawn) *fleet {
	f := &fleet{c: c, d: d, scale: float64(c.Gateways) / c.FlushEvery.Seconds()}
	f.queue, f.wait = make([]float64, c.Nodes), make([]float64, c.Shards)
	f.sums, f.reads, f.load = make([]float64, c.Nodes), make([]float64, c.Nodes), make([]phase, c.Nodes)
	work := make([]float64, c.Nodes)
	for i := range d.sums {
		for s, n := range d.sums[i] {
			for j := range c.Copies {
				work[c.holder(s, j)] += n * c.Node.SumCPU.Seconds()
			}
			work[c.holder(s, 0)] += d.misses[i][s] * c.Node.ReadCPU.Seconds()
		}
	}
	for n := range work {
		if work[n] > work[f.lost] {
			f.lost = n
		}
	}
	return f
}

// run lets the simulated time pass.
func (f *fleet) run() {
	from, until := f.c.LostAt.Seconds(), (f.c.LostAt + f.c.LostFor).Seconds()
	f.out.empty, f.out.caught = math.Inf(1), math.Inf(1)
	for i := range int(math.Round(f.c.Length.Seconds() / step)) {
		f.now = (float64(i) + 0.5) * step
		back := f.down && f.now >= until
		f.down = f.c.LostFor > 0 && f.now >= from && f.now < until
		f.following = f.following || back && f.lag > 0
		f.step()
		if f.c.LostFor > 0 && f.now > from+f.c.Notice.Seconds() && f.waits()+f.unwritten < 1 && math.IsInf(f.out.empty, 1) {
			f.out.empty = f.now
		}
		if f.now >= until && !f.following && math.IsInf(f.out.caught, 1) {
			f.out.caught = f.now - step/2
		}
	}
}

// step lets all gateways send what they have, and all nodes do what they can, in a tenth of a second.
func (f *fleet) step() {
	clear(f.sums)
	clear(f.reads)
	interval := int(f.now/f.c.FlushEvery.Seconds()) % len(f.d.sums)
	stuck := f.stuck()
	room := maxQueue() / f.c.Node.QueuedBytes * float64(f.c.Gateways)
	waiting := f.waits()
	for s := range f.wait {
		sums, reads := f.d.sums[interval][s]*f.scale*step, f.d.misses[interval][s]*f.scale*step
		if n := f.leader(s); n >= 0 {
			f.reads[n] += reads
		} else {
			f.out.unanswered += reads
		}
		if stuck { // a queue is sent in order: what is for others waits, too
			if waiting+sums > room {
				f.out.refused += sums
				continue
			}
			f.wait[s] += sums
			waiting += sums
			continue
		}
		f.deliver(s, sums+f.wait[s])
		f.wait[s] = 0
	}
	f.out.waiting = math.Max(f.out.waiting, waiting)
	f.out.kept = math.Max(f.out.kept, f.lag)
	f.work()
	f.note()
}

// deliver gives a shard's sums to its copies. The others keep them for one that is lost.
func (f *fleet) deliver(s int, sums float64) {
	for j := range f.c.Copies {
		n := f.c.holder(s, j)
		if n == f.lost && f.down {
			f.lag += sums
			continue
		}
		f.sums[n] += sums
	}
}

// noticed reports whether it is known that the lost node is.
func (f *fleet) noticed() bool { return f.now >= (f.c.LostAt + f.c.Notice).Seconds() }

// leader returns the node that answers for a shard, or -1.
func (f *fleet) leader(s int) int {
	for j := range f.c.Copies {
		n := f.c.holder(s, j)
		if n != f.lost || !f.down && !f.following {
			return n
		}
		if f.down && !f.noticed() {
			return -1
		}
	}
	return -1
}

// stuck reports whether some shard has nobody to take its sums.
func (f *fleet) stuck() bool { return f.down && (!f.noticed() || f.c.Copies == 1) }

// waits returns how many sums are in the gateways' queues.
func (f *fleet) waits() (n float64) {
	for _, w := range f.wait {
		n += w
	}
	return n
}

// work lets every node answer reads first, then write what came, then what it missed.
func (f *fleet) work() {
	f.unwritten = 0
	for n := range f.queue {
		f.queue[n] += f.sums[n]
		if n == f.lost && f.down {
			continue
		}
		cpu := f.c.Node.Cores * step
		answered := math.Min(f.reads[n], cpu/f.c.Node.ReadCPU.Seconds())
		f.out.unanswered += f.reads[n] - answered
		cpu -= answered * f.c.Node.ReadCPU.Seconds()
		can := math.Min(cpu/f.c.Node.SumCPU.Seconds(), f.c.Node.SumsMost*step)
		done := math.Min(f.queue[n], can)
		f.queue[n] -= done
		f.unwritten += f.queue[n]
		if n == f.lost && f.following {
			f.lag -= math.Min(f.lag, can-done)
			f.following = f.lag > 0
		}
	}
	if f.intact() {
		f.out.behind = math.Max(f.out.behind, f.unwritten)
	} else {
		f.out.queued = math.Max(f.out.queued, f.unwritten)
	}
}

// intact reports whether no node has been lost yet.
func (f *fleet) intact() bool { return f.c.LostFor == 0 || f.now < f.c.LostAt.Seconds() }

// note adds up what came to each node. What waited for the lost node to be noticed came at once, and is left out.
func (f *fleet) note() {
	settled := f.down && f.now >= f.settledAt()
	for n := range f.load {
		cpu := f.sums[n]*f.c.Node.SumCPU.Seconds() + f.reads[n]*f.c.Node.ReadCPU.Seconds()
		switch {
		case settled:
			f.load[n].during += cpu
		case f.intact():
			f.load[n].before += cpu
		}
	}
}

// settledAt is when the others do the lost node's work, and what waited has been sent.
func (f *fleet) settledAt() float64 { return (f.c.LostAt + f.c.Notice).Seconds() + 2*step }
