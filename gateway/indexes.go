package gateway

import (
	"maps"
	"math"

	"antirobot/verdict"
)

// Indexes number the settings of services and their paths. A number keeps its meaning over reloads, because events that
// wait are judged by it; one whose service or path is gone is given to another when all others have been. The zero value is ready for use.
type Indexes struct {
	of   map[string]uint16
	used map[uint16]bool
	next uint16
}

// keptIndexes is how many numbers without a service or path are kept, since these may come back.
const keptIndexes = 1024

func indexKey(name, prefix string) string { return name + " " + prefix }

// Of returns the number of a service (prefix is empty) or of a path of it.
func (x *Indexes) Of(name, prefix string) uint16 {
	key := indexKey(name, prefix)
	if i, ok := x.of[key]; ok {
		return i
	}
	if x.of == nil {
		x.of, x.used = map[string]uint16{}, map[uint16]bool{}
	}
	for range math.MaxUint16 { // if all are used, two have one, which the processor refuses
		if !x.used[x.next] {
			break
		}
		x.next++
	}
	i := x.next
	x.of[key], x.used[i] = i, true
	x.next++
	return i
}

// trim forgets the numbers of what is not among the settings in use, if there are many.
func (x *Indexes) trim(judged []*verdict.Settings) {
	if len(x.of) <= len(judged)+keptIndexes {
		return
	}
	used := make(map[uint16]bool, len(judged))
	for _, s := range judged {
		used[s.Index] = true
	}
	maps.DeleteFunc(x.of, func(_ string, i uint16) bool { return !used[i] })
	x.used = used
}
