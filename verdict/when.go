package verdict

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict/bans"
)

// WhenConfig says when a service asks whom the gateway itself takes for a robot, or is not sure about. All conditions that are
// given must hold. What operators ask for, by lists, rules or bans of their own, is asked always.
type WhenConfig struct {
	Load     LoadConfig    `mapstructure:"load"`     // only while the service is busy
	Path     time.Duration `mapstructure:"path"`     // only where an answer takes at least so long on average; 0: everywhere
	Networks []string      `mapstructure:"networks"` // only who comes from these, or from those on lists of these names; none: everybody
}

// LoadConfig says when a service is busy. From half of a limit on a growing share of visitors is asked, beyond it everybody.
type LoadConfig struct {
	Slow  time.Duration `mapstructure:"slow"`  // the average time to an answer; 0: it does not matter
	Queue int           `mapstructure:"queue"` // the average number of requests that wait for a connection; 0: it does not matter
}

const maxWhenNetworks = 1000

func (c *WhenConfig) validate() error {
	var errs []error
	duration := func(key string, d time.Duration) {
		if d != 0 && (d < time.Millisecond || d > 10*time.Minute) {
			errs = append(errs, fmt.Errorf("when.%s: %v is not between 1ms and 10m; 0 is no condition", key, d))
		}
	}
	duration("load.slow", c.Load.Slow)
	duration("path", c.Path)
	if c.Load.Queue < 0 || c.Load.Queue > 1_000_000 {
		errs = append(errs, fmt.Errorf("when.load.queue: %d is not between 0 and 1000000", c.Load.Queue))
	}
	if len(c.Networks) > maxWhenNetworks {
		errs = append(errs, fmt.Errorf("when.networks: %d are too many, the limit is %d", len(c.Networks), maxWhenNetworks))
	}
	for i, n := range c.Networks {
		if _, err := request.ParseNetwork(n); err != nil && !namesList(n) {
			errs = append(errs, fmt.Errorf("when.networks[%d]: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

// namesList reports whether n, which is no network, has the form of a list's name.
func namesList(n string) bool { return n != "" && !strings.ContainsAny(n, "/:% ") }

// maxNamesShown is how many lists an error names.
const maxNamesShown = 20

// CheckLists returns an error for each name in networks that is none of the given ones, which are those of the lists of networks.
func (c *WhenConfig) CheckLists(names []string) error {
	shown := strings.Join(names[:min(len(names), maxNamesShown)], ", ")
	if n := len(names) - maxNamesShown; n > 0 {
		shown += fmt.Sprintf(" and %d more", n)
	}
	var errs []error
	for i, n := range c.Networks {
		if _, err := request.ParseNetwork(n); err != nil && namesList(n) && !slices.Contains(names, n) {
			errs = append(errs, fmt.Errorf("when.networks[%d]: %.60q is neither a network such as 10.0.0.0/8 nor a list of networks that is in use; "+
				"the lists are %s", i, n, shown))
		}
	}
	return errors.Join(errs...)
}

// when is a WhenConfig prepared for use.
type when struct {
	LoadConfig
	path     time.Duration
	anywhere bool // the network does not matter
	networks []netip.Prefix
	lists    []string // of networks, by their names
}

// busy reports whether it matters how busy the service is.
func (w *when) busy() bool { return w.Slow != 0 || w.Queue != 0 }

// prepare returns nil where there is no condition. The configuration is valid.
func (c *WhenConfig) prepare() *when {
	w := &when{LoadConfig: c.Load, path: c.Path, anywhere: len(c.Networks) == 0}
	for _, n := range c.Networks {
		if p, err := request.ParseNetwork(n); err == nil {
			w.networks = append(w.networks, p)
		} else {
			w.lists = append(w.lists, n)
		}
	}
	if !w.busy() && w.path == 0 && w.anywhere {
		return nil
	}
	return w
}

// Waiver is why somebody is not asked who would be.
type Waiver uint8

// The waivers.
const (
	NotWaived       Waiver = iota
	WaivedNetwork          // the network is not among those of when.networks
	WaivedPath             // the path costs too little
	WaivedLoad             // the service is not busy, or not busy enough for this address
	WaivedLooks            // it is what a page needs to look and work like one, see looks.go
	WaivedWellKnown        // it is a file that programs look for at a fixed place
	WaivedServed           // it is a subresource of the page that the client has just been served
)

var waiverWords = [...]string{
	"", "its network is not one of those that are asked (verdict.when)", "the path costs too little (verdict.when)",
	"the service is not busy (verdict.when)", "a page needs this part, and nobody is asked for it",
	"programs look for this file at a fixed place, and it always passes", "it is a part of the page that its client has just been served",
}

// String says in words why.
func (w Waiver) String() string { return waiverWords[w] }

// waived says why the verdict of d, which would stop the request, has no consequence.
func (c *Cacher) waived(d *Decision, v *request.View, id *identity.Identity, s *Settings) Waiver {
	w := s.when
	switch {
	case w == nil:
		return NotWaived
	case d.Cause == CauseBan && d.Ban.Source == bans.SourceProcessor, d.Cause == CauseJudge, d.Cause == CauseQuota, d.Cause == CauseDoubt, d.Cause == CauseCampaign:
	default:
		return NotWaived
	}
	if !w.anywhere && !within(w.networks, id.Addr) && !c.listed(w.lists, v, id, s) {
		return WaivedNetwork
	}
	if w.path > 0 && c.costs.of(c.pathKey(s, v)) < w.path {
		return WaivedPath
	}
	if !w.busy() {
		return NotWaived
	}
	busy := c.loads.of(s.Group).asks(&w.LoadConfig, v.At.UnixNano())
	if busy == 0 || id.N == 0 || !c.attack.chosen(id, busy) {
		return WaivedLoad
	}
	d.Busy = true
	return NotWaived
}

func within(networks []netip.Prefix, a netip.Addr) bool {
	for _, n := range networks {
		if n.Contains(a) {
			return true
		}
	}
	return false
}

// listed reports whether one of the lists, as it is now, has a network around the visitor's address.
func (c *Cacher) listed(names []string, v *request.View, id *identity.Identity, s *Settings) bool {
	for _, name := range names {
		if c.lists.Listed(name, id.Addr, identity.Subject{}, s.Name, v.At) {
			return true
		}
	}
	return false
}

// costs remembers how long an answer takes on average at each path, and at each shape of paths. It is a table of fixed size
// without locks, see Paths: a slot is a tag of 32 bits, the time in tenths of milliseconds, and how many answers count. The
// zero value is ready for use.
type costs [pathPlaces]atomic.Uint64

const (
	costUnit   = 100 * time.Microsecond
	costBits   = 24 // of the time: up to 27 minutes
	costNBits  = 8
	costMemory = 32 // answers that the average is over
	costProof  = 3  // answers of a path, or of its shape, that prove something
)

func (t *costs) slot(key uint64) (n, units uint64) {
	w := t[key%pathPlaces].Load()
	if w>>tagBits<<tagBits != tag(key) {
		return 0, 0
	}
	return w & (1<<costNBits - 1), w >> costNBits & (1<<costBits - 1)
}

func (t *costs) note(k pathKey, took time.Duration) {
	x := float64(min(uint64(max(took, 0)/costUnit), 1<<costBits-1))
	for _, key := range [...]uint64{k.exact, k.shape} {
		n, units := t.slot(key)
		n = min(n+1, costMemory)
		next := uint64(max(float64(units)+(x-float64(units))/float64(n), 0))
		t[key%pathPlaces].Store(tag(key) | next<<costNBits | n)
	}
}

// of returns the average time of a path; 0 if it is not known yet.
func (t *costs) of(k pathKey) time.Duration {
	for _, key := range [...]uint64{k.exact, k.shape} {
		if n, units := t.slot(key); n >= costProof {
			return time.Duration(units) * costUnit //nolint:gosec // 24 bits
		}
	}
	return 0
}

// Took records how long a service took for an answer, and how many requests were waiting for it then.
func (c *Cacher) Took(v *request.View, s *Settings, took time.Duration, waiting int64) {
	l := c.loads.add(s)
	if w := s.when; w != nil && w.busy() {
		l.ramp(&w.LoadConfig)
	}
	l.note(v.At.Add(took).UnixNano(), took, waiting)
	c.costs.note(c.pathKey(s, v), took)
}
