package admin

import (
	"cmp"
	"slices"
	"time"
)

// challengesBody is what became of challenges: what the captcha counts, by its names in JSON.
type challengesBody struct {
	Since     time.Time      `json:"since"`
	Total     challengeRow   `json:"total"`
	Ways      []challengeRow `json:"ways"`
	Languages []challengeRow `json:"languages"`
	Devices   []challengeRow `json:"devices"`
	Networks  []challengeRow `json:"networks"`
	Machines  []string       `json:"machines-solve"`
	Campaigns []challengeRow `json:"campaigns"`
	Gateways  []GatewayState `json:"gateways,omitempty"`
}

type challengeRow struct {
	Name     string  `json:"name,omitempty"`
	Shown    int64   `json:"shown"`
	Tried    int64   `json:"tried"`
	Solved   int64   `json:"solved"`
	GaveUp   int64   `json:"gave-up"`
	Seconds  float64 `json:"seconds"` // on average
	Quick    int64   `json:"quick"`
	Loaded   int64   `json:"loaded"`
	CameBack int64   `json:"came-back"`
}

func (r *challengeRow) add(more *challengeRow) {
	r.Seconds = (r.Seconds*float64(r.Solved) + more.Seconds*float64(more.Solved)) / float64(max(r.Solved+more.Solved, 1))
	r.Shown += more.Shown
	r.Tried += more.Tried
	r.Solved += more.Solved
	r.GaveUp += more.GaveUp
	r.Quick += more.Quick
	r.Loaded += more.Loaded
	r.CameBack += more.CameBack
}

// mergeChallenges adds up what each gateway counted, since the earliest beginning.
func mergeChallenges(_ *call, g *gathered) (any, error) {
	sum := challengesBody{}
	for i, r := range replies[challengesBody](g) {
		if i == 0 {
			sum = r.v
			continue
		}
		if r.v.Since.Before(sum.Since) {
			sum.Since = r.v.Since
		}
		sum.Total.add(&r.v.Total)
		for _, of := range [...]struct {
			to   *[]challengeRow
			more []challengeRow
		}{{&sum.Ways, r.v.Ways}, {&sum.Languages, r.v.Languages}, {&sum.Devices, r.v.Devices}, {&sum.Networks, r.v.Networks}, {&sum.Campaigns, r.v.Campaigns}} {
			*of.to = addRows(*of.to, of.more)
		}
		for _, name := range r.v.Machines {
			if !slices.Contains(sum.Machines, name) {
				sum.Machines = append(sum.Machines, name)
			}
		}
	}
	if sum.Devices == nil {
		sum.Devices = []challengeRow{} // gateways of the version before do not count them
	}
	sum.Gateways = g.states
	return sum, nil
}

func addRows(to, more []challengeRow) []challengeRow {
	for i := range more {
		k := slices.IndexFunc(to, func(r challengeRow) bool { return r.Name == more[i].Name })
		if k < 0 {
			to = append(to, more[i])
			continue
		}
		to[k].add(&more[i])
	}
	slices.SortStableFunc(to, func(a, b challengeRow) int { return cmp.Compare(b.Shown, a.Shown) })
	return to
}
