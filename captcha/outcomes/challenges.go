// Package outcomes counts challenges that are shown, loaded, tried and solved, and passes that come back.
//
// Rules:
//  1. Challenges are counted by way, language, device, network, kind of browser in a network, and shape of clients, for
//     an hour or two.
//  2. The report of a gateway covers itself, so that reports add up. Machines are recognized by the counts of all
//     gateways of a store (tally_shared.go).
//  3. Rows are bounded. Further names count as others, and a flood of names hides no solver.
package outcomes

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Challenges is a node's report of the last hour or two.
type Challenges struct {
	Since     time.Time `json:"since"`
	Total     Count     `json:"total"`
	Ways      []Row     `json:"ways"` // see Ways
	Languages []Row     `json:"languages"`
	Devices   []Row     `json:"devices"`  // desk, phone, tablet, other, as the User-Agent says
	Networks  []Row     `json:"networks"` // /24 and /48, those with the most first; the rest is summed up in "others"
	// MachinesSolve lists the networks that appear to solve by machine: many right and quick answers.
	MachinesSolve []string `json:"machines-solve"`
	// Campaigns are the kinds of browser in a network, and the shapes of clients, of which the same is true: a network
	// and the hash of the User-Agent's family in hexadecimal, or shape and a hash.
	Campaigns []Row `json:"campaigns"`
}

// Ways are the ways of presentation, Devices the devices, Answers the results of answers.
var (
	Answers = [...]string{
		"solved", "failed", "expired", "empty", "used", "earned", "repeated", "limited", "next", "moved", "not-moved",
		"unavailable",
	}
	Ways    = [...]string{"page", "form", "script", "xml", "work", "silent", "press", "dynamic"}
	Devices = [...]string{"desk", "phone", "tablet", "other"}
)

// Row is the count of a way, a language, a device, a network or a campaign.
type Row struct {
	Name string `json:"name"`
	Count
}

// Count counts outcomes. A challenge that was neither tried nor replaced was given up, or is still open.
type Count struct {
	Shown  int64 `json:"shown"`
	Tried  int64 `json:"tried"`
	Solved int64 `json:"solved"`
	GaveUp int64 `json:"gave-up"`
	Quick  int64 `json:"quick"` // right answers faster than people type, or pressed as machines press
	// Loaded counts challenges whose picture, sound or part was fetched, CameBack passes used within the hour.
	Loaded   int64 `json:"loaded"`
	CameBack int64 `json:"came-back"`
	// Median and P90 are seconds from a challenge to its right answer, from Times; 0 without one.
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
	Times  Times   `json:"times,omitempty"`
}

// Sum adds up the reports of several nodes.
func Sum(nodes []Challenges) Challenges {
	sum := Challenges{
		Ways: []Row{}, Languages: []Row{}, Devices: []Row{}, Networks: []Row{},
		MachinesSolve: []string{}, Campaigns: []Row{},
	}
	for i := range nodes {
		n := &nodes[i]
		if i == 0 || n.Since.Before(sum.Since) {
			sum.Since = n.Since
		}
		sum.Total.add(&n.Total)
		sum.Ways = addRows(sum.Ways, n.Ways)
		sum.Languages = addRows(sum.Languages, n.Languages)
		sum.Devices = addRows(sum.Devices, n.Devices)
		sum.Networks = addRows(sum.Networks, n.Networks)
		sum.Campaigns = addRows(sum.Campaigns, n.Campaigns)
		for _, name := range n.MachinesSolve {
			if !slices.Contains(sum.MachinesSolve, name) {
				sum.MachinesSolve = append(sum.MachinesSolve, name)
			}
		}
	}
	return sum
}

func addRows(to, more []Row) []Row {
	for i := range more {
		k := slices.IndexFunc(to, func(r Row) bool { return r.Name == more[i].Name })
		if k < 0 {
			to = append(to, more[i])
			continue
		}
		to[k].add(&more[i].Count)
	}
	slices.SortStableFunc(to, func(a, b Row) int { return cmp.Compare(b.Shown, a.Shown) })
	return to
}

// add adds another span's or node's counts: a visitor who answers at another node has not given up.
func (n *Count) add(more *Count) {
	n.Shown += more.Shown
	n.Tried += more.Tried
	n.Solved += more.Solved
	n.GaveUp = max(n.Shown-n.Tried, 0)
	n.Quick += more.Quick
	n.Loaded += more.Loaded
	n.CameBack += more.CameBack
	if len(more.Times) > 0 {
		n.Times = n.Times.plus(more.Times)
		n.Median, n.P90 = n.Times.quantile(0.5), n.Times.quantile(0.9)
	}
}

// Times counts answers by duration: the first up to an eighth of a second, each further one up to a fifth (2^¼) more,
// up to the longest. It is never changed in place, so that counts can be copied.
type Times []uint32

const (
	shortest  = 0.125 // seconds
	perOctave = 4
	mostTimes = 1 + 14*perOctave // up to 34 minutes; a key can be answered for 30
)

// Took is the Times of one answer.
func Took(d time.Duration) Times {
	i := 0
	if s := d.Seconds(); s > shortest {
		i = min(1+int(perOctave*math.Log2(s/shortest)), mostTimes-1)
	}
	t := make(Times, i+1)
	t[i] = 1
	return t
}

// plus returns the sum of both, cut off at mostTimes.
func (t Times) plus(more Times) Times {
	sum := make(Times, min(max(len(t), len(more)), mostTimes))
	for i := range sum {
		if i < len(t) {
			sum[i] += t[i]
		}
		if i < len(more) {
			sum[i] += more[i]
		}
	}
	return sum
}

// quantile returns the seconds within which a share of the answers came, within a tenth; 0 without answers.
func (t Times) quantile(share float64) float64 {
	left := 0.0
	for _, n := range t {
		left += share * float64(n)
	}
	for i, n := range t {
		if left -= float64(n); n > 0 && left <= 0 {
			middle := shortest * math.Exp2((float64(i)-0.5)/perOctave)
			return math.Round(middle*10) / 10
		}
	}
	return 0
}
