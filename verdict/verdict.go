// Package verdict decides, for every request and from memory alone, whether a human or a robot asks.
//
// The order of decisions; the first match wins (TestDecisionOrder walks it):
//  1. the operator's own block entry, or a blocking rule: Blocked
//  2. an allow list, a verified crawler: Human; never judged, banned or challenged
//  3. a block entry of a fetched list, or a rule that throttles or quarantines: Blocked
//  4. a ban entry of a list, a ban, a rule or the inline judge says robot, or the quota of the client or of a scope around it
//     is exceeded, or the visitor is unsure, arrives like robots of a cohort, or the service is under attack: a solved pass
//     with allowance left pays for one request and the answer is Human; otherwise Robot, or Unsure if nothing is said about
//     the visitor itself (unless the service's conditions, verdict.when, do not hold)
//  5. Human
//
// A request that demands the captcha comes between 3 and 4, and takes precedence over the allow list. The first two
// requests of a new visitor pass because nothing is known of it; in a wave of new visitors the first does (see quota).
//
// Invariants:
//  1. Nothing here waits for the store or takes a lock that all requests share. What a request changes is in memory at
//     once and in the store a moment later; what the operator changes is in memory at once even if the store fails.
//  2. Every table has a bound, and says in a metric when it was reached.
//  3. Without list entry, ban, rule or inline judge the answer is Human: the first two requests of a new subject pass.
//  4. Mode observe changes nothing for a visitor: no allowance is spent by it.
//  5. A verdict is given when a request comes and never taken back: a ban made later cuts no stream.
package verdict

import "slices"

// Verdict is the judgement of a request.
type Verdict uint8

// The verdicts, the mildest first.
const (
	Human  Verdict = iota
	Unsure         // the visitor may be a robot, and is asked in the way that Decision.Step says
	Robot
	Blocked
)

func (v Verdict) String() string {
	switch v {
	case Human:
		return "human"
	case Unsure:
		return "unsure"
	case Robot:
		return "robot"
	default:
		return "blocked"
	}
}

// Cause is the deciding step.
type Cause uint8

// The causes, in the order of the decision except for the last ones.
const (
	CauseNone      Cause = iota // nothing decided: human
	CauseOwnBlock               // the operator's own block entry
	CauseWhite                  // a white list, or a verified crawler
	CauseBlockList              // a block entry of a fetched list
	CauseRule                   // a rule
	CauseBanList                // a ban entry of a list
	CauseBan                    // a live ban
	CauseJudge                  // the inline judge
	CauseDemand                 // the client asked for the captcha (test query of the XML interface)
	CauseOff                    // the service's mode is off: nothing was looked up
	CauseMessage                // the rules of a message route, when all else said human
	CauseQuota                  // more was read than the quota allows: see Excess
	CauseDoubt                  // it may be a robot, and the service asks those: see Doubt
	CauseAttack                 // the gateway is under attack, and the site does not know the visitor: see AttackConfig
	CauseCampaign               // it arrives as nearly only robots do at present: see Campaign
	CauseLimit                  // a program that asks more often than programs may
)

// Causes is how many causes there are.
const Causes = len(causeNames)

var causeNames = [...]string{
	"none", "own-block", "white", "block-list", "rule", "ban-list", "ban", "judge", "demand", "off", "message", "quota", "doubt", "attack",
	"campaign", "limit",
}

// String returns the name that logs, metrics and the header X-Antirobot-Reason use.
func (c Cause) String() string {
	if int(c) < len(causeNames) {
		return causeNames[c]
	}
	return "unknown"
}

// causeWords say in words, for each cause, what decided; they are in the order of the causes.
var causeWords = [...]string{
	"nothing spoke against it", "the operator's own block entry", "a white list, or a verified crawler", "a block list", "a rule of the service",
	"a ban list", "a live ban", "the judge, before the answer", "the client asked for the captcha itself", "the service's mode is off",
	"the rules of a message route", "more was read than the quota allows",
	"it may be a robot, but that is not certain", "the gateway is under attack, and asks whom the site does not know",
	"it is new, and arrives as many robots from other addresses do", "a program asks more often than programs may",
}

// CauseWords returns the cause of a Story in words; a name that only a later version knows is returned as it is.
func CauseWords(name string) string {
	if i := slices.Index(causeNames[:], name); i >= 0 {
		return causeWords[i]
	}
	return name
}

// Mode is what a service does with a verdict.
type Mode uint8

// The modes.
const (
	Enforce Mode = iota
	Observe      // decides, logs and counts, but lets everything through
	Off
)

func (m Mode) String() string {
	switch m {
	case Enforce:
		return "enforce"
	case Observe:
		return "observe"
	default:
		return "off"
	}
}
