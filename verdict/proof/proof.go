// Package proof decides whether it is proven that a client is a robot, by what the client is and never by how it reads.
//
// Invariants:
//  1. A rule reads facts about one client. What a field, a network or a privacy setting leaves out proves nothing alone: an
//     absence counts only together with other absences of a client that takes neither subresources nor the cookie.
//  2. What many clients of a service show is explained by the way to the service. The caller leaves it out of the Facts.
//  3. A rule that a person with an unusual browser, extension, proxy or habit can meet is no rule.
package proof

import (
	"math/bits"

	"antirobot/request"
	"antirobot/verdict/client"
)

// Facts is what is known of a client. The zero value proves nothing.
type Facts struct {
	Claim     client.Claim
	Misfits   client.Misfits // what contradicts the claim, without what the way to the service explains
	Forwarded bool           // a proxy on the way has named itself

	Liar      bool // claims to be a crawler of a search engine, which the DNS or published ranges deny
	Forged    bool // has brought a cookie that names one of our keys and is not sealed with it
	Decoy     bool // has opened a path that people are not led to
	RobotsTxt bool // has asked for /robots.txt
	Probes    int  // requests for what scanners look for that found nothing

	Traces    request.Probes // what pages have found of a driver
	Unclicked float32        // share of pages that the site led to and no user activation opened; 0 if unknown

	Burst  float32 // page loads in ten seconds
	Calls  float32 // calls of scripts and apps in ten seconds; two count as a page load
	Loads  float32 // page loads
	Parts  uint32  // subresources
	Whole  bool    // people are known to load subresources here
	Remote bool    // the service has its subresources elsewhere
	Agents int     // User-Agents in an hour

	Offered, Kept int // page loads without the cookie that it was given before, and with it
}

const (
	burstPages = 60  // page loads in ten seconds: more than a browser restores of its tabs
	burstWhole = 200 // with their subresources

	fewProbes    = 5 // dead links of an old site lead people to one or two
	fewLoads     = 4 // page loads from which on it shows that a client takes nothing else
	fewFieldPage = 3 // and that its fields are those of all its page loads
	manyAgents   = 6
	manyLoads    = 20
	unclickedMin = 0.8
)

// missing are the inconsistencies that a proxy or an extension causes by removing a field.
const missing = client.NoLanguage | client.NoEncoding | client.NoFetch | client.NoHints | client.OldProtocol

// pointerTraces are those that need a second one: remote control by people shows each of them alone.
const pointerTraces = request.ProbeUnpressed | request.ProbeInspected

func (f *Facts) browser() bool { return f.Claim.Family.Browser() }

// fetcher reports whether it takes pages and nothing that belongs to them: neither subresources nor the cookie.
func (f *Facts) fetcher() bool {
	return f.browser() && f.Whole && f.Parts == 0 && f.Loads >= fewLoads && f.Kept == 0 && f.Offered >= fewLoads
}

// library reports whether it loads pages with the Accept field of an HTTP library. Internet Explorer does so, too, when it reloads.
func (f *Facts) library() bool {
	return f.browser() && f.Claim.Family != client.FamilyOld && f.Misfits&client.AcceptsAny != 0
}

func (f *Facts) libraryHandshake() bool { return f.Misfits&client.FalseHello != 0 }

// otherBrowser reports whether its fields are another browser's. People have extensions that change the User-Agent alone.
func (f *Facts) otherBrowser() bool { return f.Misfits&(client.FalseHints|client.FalseOrder) != 0 }

func (f *Facts) falseFetch() bool {
	return f.Misfits&client.FalseFetch != 0 && f.Claim.Family != client.FamilyOld
}

func (f *Facts) lacks() int { return bits.OnesCount16(uint16(f.Misfits & missing)) }

// signs counts what a driver that hides leaves.
func (f *Facts) signs() int {
	n := bits.OnesCount8(uint8(f.Traces & pointerTraces))
	if n > 0 && f.Unclicked >= unclickedMin {
		n++
	}
	return n
}

// Rule is one proof.
type Rule struct {
	Name  string  // in bans, metrics and explanations; package words says what it proves
	Shows []Value // the values of which it is made
	holds func(f *Facts) bool
}

// Value is a value that a rule shows, named as in package words.
type Value struct {
	Name string
	Of   func(f *Facts) float32
}

// Rules are all there are, in the order in which they are tried.
var Rules = []Rule{
	// What it says and does that only robots say and do.
	{"false_crawler", nil, func(f *Facts) bool { return f.Liar }},
	{"forged_cookie", nil, func(f *Facts) bool { return f.Forged }},
	{"decoy", nil, func(f *Facts) bool { return f.Decoy }},
	{"scanner", []Value{probes}, func(f *Facts) bool { return f.Probes >= fewProbes }},
	{"headless", nil, func(f *Facts) bool {
		return f.Claim.Family == client.FamilyHeadless
	}},

	// What its pages have found.
	{"driver", nil, func(f *Facts) bool { return f.Traces&request.ProbesAutomation != 0 }},
	{"driver_pointer", nil, func(f *Facts) bool {
		return f.Traces&request.ProbeAstray != 0
	}},
	{"driver_events", []Value{unclicked}, func(f *Facts) bool { return f.signs() >= 2 }},

	// A pace that no browser reaches.
	{"pace", []Value{burst}, func(f *Facts) bool {
		return f.Burst >= burstPages && f.Parts == 0 && !f.Remote
	}},
	{"pace_whole", []Value{burst, calls}, func(f *Facts) bool { return f.Burst+f.Calls/2 >= burstWhole }},

	// Contradictions of the browser that it claims to be.
	{"library_fields", []Value{inconsistencies, loads}, func(f *Facts) bool {
		return f.library() && f.lacks() > 0 && f.Loads >= fewFieldPage
	}},
	{"library_handshake", []Value{inconsistencies}, func(f *Facts) bool {
		return f.libraryHandshake() && (f.library() || f.falseFetch())
	}},
	{"contradictions", []Value{inconsistencies}, func(f *Facts) bool {
		return f.falseFetch() && f.otherBrowser()
	}},
	{"library_reader", []Value{loads, parts, kept}, func(f *Facts) bool {
		return f.libraryHandshake() && f.fetcher() && !f.Forwarded
	}},
	{"false_fields", []Value{loads, parts, kept}, func(f *Facts) bool {
		return (f.falseFetch() || f.otherBrowser()) && f.fetcher() && !f.Forwarded
	}},
	{"missing_fields", []Value{loads, parts, kept}, func(f *Facts) bool {
		return f.lacks() >= 2 && f.fetcher() && !f.Forwarded
	}},
	{"many_agents", []Value{agents, loads, parts}, func(f *Facts) bool {
		return f.Agents >= manyAgents && f.Loads >= manyLoads && f.fetcher()
	}},
	{"crawler_files", []Value{loads, parts, kept}, func(f *Facts) bool {
		return f.RobotsTxt && f.fetcher()
	}},
}

// The values.
var (
	probes          = Value{"probes", func(f *Facts) float32 { return float32(f.Probes) }}
	unclicked       = Value{"unclicked_share", func(f *Facts) float32 { return f.Unclicked }}
	burst           = Value{"loads_10s", func(f *Facts) float32 { return f.Burst }}
	calls           = Value{"calls_10s", func(f *Facts) float32 { return f.Calls }}
	inconsistencies = Value{"inconsistencies", func(f *Facts) float32 { return float32(bits.OnesCount16(uint16(f.Misfits))) }}
	loads           = Value{"loads", func(f *Facts) float32 { return f.Loads }}
	parts           = Value{"subresources", func(f *Facts) float32 { return float32(f.Parts) }}
	kept            = Value{"cookie_kept", func(f *Facts) float32 { return float32(f.Kept) }}
	agents          = Value{"agents", func(f *Facts) float32 { return float32(f.Agents) }}
)

// Of returns the first rule that holds; nil if nothing is proven.
func (f *Facts) Of() *Rule {
	for i := range Rules {
		if Rules[i].holds(f) {
			return &Rules[i]
		}
	}
	return nil
}
