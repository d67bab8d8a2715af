package traffic

// Kind is a kind of client.
type Kind string

// The kinds.
const (
	People   Kind = "people"
	Office   Kind = "office"
	Mobile   Kind = "mobile"
	Fast     Kind = "fast"
	Slow     Kind = "slow"
	Spread   Kind = "spread"
	Headless Kind = "headless"
	Liar     Kind = "liar"
	API      Kind = "api"
	Crawler  Kind = "crawler"
	Odd      Kind = "odd"
	Evasive  Kind = "evasive"
	Guests   Kind = "guests" // people of many sorts, see guests.go
	Agents   Kind = "agents" // present-day robots, see agents.go
)

// Kinds returns all kinds that appear in tables, people first.
func Kinds() []Kind { return append(day(), Walkers, Drivers, Campaigns, Timed) }

// day are the kinds of a day, which take part if none are requested.
func day() []Kind {
	return []Kind{People, Office, Mobile, Odd, Guests, Crawler, Fast, Slow, Spread, Headless, Liar, API, Evasive, Agents}
}

// Robot reports whether clients of the kind should be stopped. A verified crawler is a robot that is welcome.
func (k Kind) Robot() bool {
	switch k {
	case Fast, Slow, Spread, Headless, Liar, API, Evasive, Agents, Drivers, Campaigns, Harvester:
		return true
	}
	return false
}

// Site is the site that everybody visits.
type Site string

// The sites.
const (
	Shop   Site = "shop"   // categories, items and articles; many pictures
	Course Site = "course" // courses of units of pages, and a glossary; long texts
)

// Set says which kinds take part: half of the sorts of guests and agents are held out, so that detection is measured on
// sorts that nothing was tuned on.
type Set string

// The sets.
const (
	Everybody Set = ""
	Tuning    Set = "tuning"   // without the held-out sorts
	HeldOut   Set = "held-out" // of guests and agents only the held-out sorts
)
