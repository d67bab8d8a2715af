package alarm

import (
	"fmt"
	"time"
)

// Sight is what the gateway knows of itself at a moment.
type Sight struct {
	Networks     []Network // that were shown challenges within the last hour or two
	Machines     []string  // networks that solve them by machine
	Lists        []List    // whose source fails
	Away         []string  // addresses of services that fail: service and address
	Certificates []Certificate
	Obtaining    []string // hosts for which no certificate could be obtained, and why
	Store        string   // its problem; empty: none
	Shed         float64  // events and journal entries dropped since the start
	Late, Before Share    // requests of the last half hour, and of the day before it
}

// Network is a network that was shown challenges.
type Network struct{ Tried, Solved int64 }

// List is a list whose source fails.
type List struct {
	Name string
	Age  time.Duration
}

// Certificate is one that comes from a file.
type Certificate struct {
	Name  string
	Until time.Time
}

// Share counts requests, and those blocked or observed as such.
type Share struct{ Requests, Stopped float64 }

func (s Share) share() float64 {
	if s.Requests == 0 {
		return 0
	}
	return s.Stopped / s.Requests
}

// Alarm is a problem for an operator.
type Alarm struct {
	Name   string    `json:"name"`
	About  string    `json:"about,omitempty"` // its object, if there may be several
	Value  string    `json:"value,omitempty"` // how much, or why
	Text   string    `json:"text"`            // all of it in a sentence
	Action string    `json:"action"`
	Since  time.Time `json:"since"`
}

func (a *Alarm) key() string { return a.Name + " " + a.About }

// kinds are the alarms, with their text (of About and Value) and their remedy.
var kinds = map[string]struct{ text, action string }{
	"people-stuck": {
		"people may be stuck at the captcha: %[2]s networks with answers have no right one",
		"look at `antirobot tail kind:failed` and the console's page Challenges for languages and browsers",
	},
	"machines-solve": {
		"challenges are solved by machine from %[1]s",
		"look at the console's page Challenges; POST /api/revoke with the campaign takes its passes back",
	},
	"stopped-doubled": {
		"more requests are blocked: %[2]s",
		"`antirobot top --by reason` says why: a wave of robots, or a bad list or rule",
	},
	"list-old": {
		"the list %[1]s can't be read from its source: %[2]s",
		"the last good copy is in use; GET /api/lists says why it fails",
	},
	"events-shed": {
		"%[2]s events or entries of the journal were dropped",
		"the processor or the disk does not keep up: more cores, or a quicker disk",
	},
	"store-away": {
		"the store fails: %[2]s",
		"the gateway goes on with its own copy; repair the store or its network",
	},
	"service-away":    {"%[1]s does not answer", "requests go to the service's other addresses, if it has some"},
	"certificate-end": {"the certificate %[1]s: %[2]s", "renew it and reload"},
	"certificate-none": {
		"no certificate could be obtained: %[2]s",
		"another try follows; does the name lead here, and is port 80 or 443 open?",
	},
}

func makeAlarm(name, about, value string, at time.Time) Alarm {
	k := kinds[name]
	return Alarm{
		Name: name, About: about, Value: value, Text: fmt.Sprintf(k.text, about, value), Action: k.action,
		Since: at,
	}
}

// judge returns the alarms for s; shed is the number dropped at the last look.
func (c *Config) judge(s *Sight, shed float64, at time.Time) []Alarm {
	var all []Alarm
	add := func(name, about, value string) { all = append(all, makeAlarm(name, about, value, at)) }
	if tried, stuck := stuckOf(s.Networks); stuck >= stuckNetworks && float64(stuck) >= stuckShare*float64(tried) {
		add("people-stuck", "", fmt.Sprintf("%d of %d", stuck, tried))
	}
	for _, n := range s.Machines {
		add("machines-solve", n, "")
	}
	late, before := s.Late.share(), s.Before.share()
	if min(s.Late.Requests, s.Before.Requests) >= doubledRequests && late >= max(doubledShare, doubledFactor*before) {
		add("stopped-doubled", "",
			fmt.Sprintf("%.0f %% of the last half hour's requests, %.0f %% on the day before", 100*late, 100*before))
	}
	for _, l := range s.Lists {
		switch {
		case l.Age == 0:
			add("list-old", l.Name, "it was never read")
		case l.Age >= listAge:
			add("list-old", l.Name, "its copy is "+l.Age.Round(time.Minute).String()+" old")
		}
	}
	if s.Shed > shed {
		add("events-shed", "", fmt.Sprintf("%.0f", s.Shed-shed))
	}
	if s.Store != "" {
		add("store-away", "", s.Store)
	}
	for _, a := range s.Away {
		add("service-away", a, "")
	}
	for _, cert := range s.Certificates {
		switch left := cert.Until.Sub(at); {
		case left <= 0:
			add("certificate-end", cert.Name, "it ended on "+cert.Until.UTC().Format(time.DateOnly))
		case left <= c.Certificate:
			add("certificate-end", cert.Name, "it ends on "+cert.Until.UTC().Format(time.DateOnly))
		}
	}
	for _, why := range s.Obtaining {
		add("certificate-none", why, why)
	}
	return all
}

// stuckOf counts the networks with answers, and those without a right one.
func stuckOf(all []Network) (tried, stuck int) {
	for _, n := range all {
		if n.Tried == 0 {
			continue
		}
		if tried++; n.Solved == 0 {
			stuck++
		}
	}
	return tried, stuck
}
