package verdict

import (
	"antirobot/request"
	"antirobot/verdict/client"
)

// Count is what a request counts as, for limits, budgets and factors. It is decided in one place: Paths.Learn, and
// Paths.Count for callers that only ask. It depends on the answer, on what the request says of itself, and on what the
// path has been so far.
type Count uint8

// The counts.
const (
	CountDocument Count = iota // a page that somebody opened; or it was delivered, and nothing proves otherwise
	CountPart                  // a picture, style, script, font, sound or film: the answer proves it, or the path's history
	CountCall                  // a script of a page asked, and received data, or opened a WebSocket
	CountAPI                   // an app or another program asked, and received data
	CountFeed                  // a feed, a sitemap
	CountFile                  // a download
	CountMachine               // a program read data or a file where only programs do
	CountNothing               // nothing was delivered: stopped, not modified, refused, or the visitor left
)

var countNames = [...]string{"page", "part", "script call", "api call", "feed", "file", "machine read", "nothing"}

func (c Count) String() string { return countNames[c] }

// Called reports whether a script or a program asked for data.
func (c Count) Called() bool { return c == CountCall || c == CountAPI }

// Read reports whether the request reads content: this is what a budget of documents counts.
func (c Count) Read() bool { return c == CountDocument || c == CountFeed || c == CountFile }

// CountWhy is the reason why a request counts as what it does.
type CountWhy uint8

// The reasons.
const (
	WhyUncounted CountWhy = iota // not counted, or not yet: the answer is under way
	WhyStopped
	WhyRefused
	WhyEmpty
	WhyHead
	WhyLine
	WhyPart
	WhyHTML
	WhyOpened
	WhyScript
	WhyProgram
	WhyTool
	WhyFeed
	WhyFile
	WhyClaim
	WhyUnproved
	WhyTaken
	WhyShown
	WhyMethod
	WhyRanges
	WhySocket
	WhyMachine
)

// whyWords are in the order of the reasons.
var whyWords = [...]string{
	"not counted, or not yet: the answer is under way",
	"it was stopped",
	"the answer was no content for a visitor: a redirect, not modified, or an error",
	"the answer was empty",
	"only the head was asked for",
	"a recorded line: by its path and fields, the answer's type is not known",
	"the answer is a part of pages: a picture, style, script, font, sound or film",
	"the answer is HTML",
	"a browser has opened it as a page",
	"the answer is data, and a page's script has asked",
	"the answer is data, and a program has asked that is no browser's page",
	"the answer is data, and a tool has asked: a library, or something that says nothing of itself",
	"the path, the request or the answer is that of a feed",
	"the answer is neither a page nor a part of one: a download",
	"it called itself a part of a page, and the answer is none",
	"a balancer gives the answer, and nothing shows that the path is something else than a page",
	"a balancer gives the answer; visitors of several networks take the path for a part, or for a script's call",
	"a balancer gives the answer; earlier answers have shown what the path is",
	"a balancer gives the answer; it was sent by a script, with another method than GET",
	"several ranges of it were asked for at once, as no browser does",
	"a WebSocket was opened, as a page's script does",
	"the answer is data or a file, and programs alone read it",
}

func (w CountWhy) String() string {
	if int(w) < len(whyWords) {
		return whyWords[w]
	}
	return whyWords[WhyUncounted]
}

// delivers reports whether the service's answer gave the visitor something to read. Where a balancer answers, nothing
// is known of the answer, and it is taken to have done so.
func (e *Event) delivers() bool {
	if e.Stopped() {
		return false
	}
	return e.Advised || e.Partial && e.Status == 0 || e.Status >= 200 && e.Status < 300 && e.Status != 204
}

// switching is the status of an answer after which the connection is a WebSocket.
const switching = 101

func (t Type) part() bool { return t == TypePart || t == TypeScript }

// Asks reports whether an event that delivers nothing asks about a page: for its head, or whether it has changed. Where answers
// have shown that a path is mostly pages, or where a balancer answers and nothing shows that it is something else, it does not
// matter what the event calls itself.
func (p *Paths) Asks(e *Event, group uint32) bool {
	if e.Method != 'H' && e.Status != 304 {
		return false
	}
	k := e.key(group)
	if e.Advised {
		return p.read(k) != readingPart
	}
	n := p.proofs(k.exact)
	if n == (proofs{}) {
		n = p.proofs(k.shape)
	}
	return n.docs > n.parts
}

// Learn notes what the event shows about its path, and returns what the event counts as. It is called once for each
// event; established says that the site knows the visitor.
func (p *Paths) Learn(e *Event, group uint32, established bool) Count {
	k := e.key(group)
	switch {
	case !e.delivers() || e.Method != 'G' || e.untyped():
	case e.Advised && e.Type == TypeRanges: // no browser asks so, and nobody is believed
	case e.Advised:
		p.claimed(k, networkHash(e.Subjects[max(int(e.N), 1)-1]), !e.Page || e.Static, established)
	case e.Type == TypeUnknown && e.BytesOut == 0:
	case e.Type == TypeRanges: // of what, it does not say
	case e.Type.part():
		p.answered(k, readingPart)
	case e.Type.Data():
		p.answered(k, readingData)
	default:
		p.answered(k, readingDocument)
	}
	p.readBy(e, k, group)
	is, _ := p.Count(e, group)
	return is
}

// readBy notes who reads what is no page, and where people read pages.
func (p *Paths) readBy(e *Event, k pathKey, group uint32) {
	if e.Partial || e.Advised || !e.delivers() || e.Method != 'G' {
		return
	}
	network := networkHash(e.Subjects[max(int(e.N), 1)-1])
	switch {
	case e.isNoPage():
		claim(&p.readers, k, network, !e.Program())
	case e.Type == TypeHTML && !e.Program():
		claim(&p.readers, siteKey(group), network, true)
	}
}

// isNoPage reports whether the answer is data or a download, and no feed.
func (e *Event) isNoPage() bool {
	return (e.Type == TypeData || e.Type == TypeOther) && e.PathKind != client.PathFeed
}

// key is the key of the event's path.
func (e *Event) key(group uint32) pathKey {
	salt := uint64(group) * 0x9e3779b97f4a7c15
	return apart(e.Path^salt, e.PathShape^salt^1)
}

// Count returns what an event counts as, and why.
func (p *Paths) Count(e *Event, group uint32) (Count, CountWhy) {
	switch {
	case e.Stopped():
		return CountNothing, WhyStopped
	case e.Status == switching:
		return CountCall, WhySocket
	case !e.delivers():
		return CountNothing, WhyRefused
	case e.Method == 'H':
		return CountNothing, WhyHead
	case e.untyped():
		return e.countLine()
	case e.Advised:
		return p.countUnseen(e, group)
	case e.Type == TypeUnknown && e.BytesOut == 0:
		return CountNothing, WhyEmpty
	}
	if e.Program() && e.Method == 'G' && e.isNoPage() && p.isMachine(e.key(group), group) {
		return CountMachine, WhyMachine
	}
	return e.countAnswer()
}

// untyped reports whether an event is a recorded line that does not say of which type the answer was, or a partner's, whose fields are another's.
func (e *Event) untyped() bool { return e.Partial && (e.Partner || e.Type == TypeUnknown) }

func (e *Event) countLine() (Count, CountWhy) {
	switch {
	case e.Static && !e.Document:
		return CountPart, WhyLine
	case e.PathKind == client.PathFeed || e.Asked == request.KindFeed:
		return CountFeed, WhyFeed
	case e.Page:
		return CountDocument, WhyLine
	}
	return CountCall, WhyLine
}

// Count returns what an event counts as going by what its answer proves.
func (e *Event) Count() Count {
	if e.Status == switching {
		return CountCall
	}
	if !e.delivers() || e.Method == 'H' || e.Type == TypeUnknown && e.BytesOut == 0 {
		return CountNothing
	}
	is, _ := e.countAnswer()
	return is
}

// countAnswer is Count where the answer is known.
func (e *Event) countAnswer() (Count, CountWhy) {
	switch {
	case e.Type.part():
		return CountPart, WhyPart
	case e.Type == TypeHTML:
		return CountDocument, WhyHTML
	case e.Type == TypeRanges:
		return CountDocument, WhyRanges
	case e.Static && e.Method == 'G' && (e.Type != TypeOther || e.Asked != request.KindScript): // else a piece of a film, without its type
		return CountDocument, WhyClaim
	case e.Type == TypeFeed || e.PathKind == client.PathFeed || e.Asked == request.KindFeed:
		return CountFeed, WhyFeed
	case e.Type.Data():
		return e.countData()
	case !e.Page:
		return CountCall, WhyScript
	case e.Type == TypeOther:
		return CountFile, WhyFile
	}
	return CountDocument, WhyOpened
}

// countData is Count where the answer is data. Leaving out a field is all it takes to be a program; a visitor counts as
// one if it says which.
func (e *Event) countData() (Count, CountWhy) {
	switch {
	case !e.Page:
		return CountCall, WhyScript
	case e.WantsHTML:
		return CountDocument, WhyOpened
	case e.Claim.Family == client.FamilyApp || e.Claim.Family.Browser() && e.Asked == request.KindAPI:
		return CountAPI, WhyProgram
	}
	return CountDocument, WhyTool
}

// countUnseen is Count where the answer is unknown: what earlier answers have shown decides, or else a claim on which
// visitors of several networks agree.
func (p *Paths) countUnseen(e *Event, group uint32) (Count, CountWhy) {
	page := e.Page && !e.Static
	if e.Type == TypeRanges {
		return CountDocument, WhyRanges
	}
	if e.Method != 'G' {
		if page {
			return CountDocument, WhyUnproved
		}
		return CountCall, WhyMethod
	}
	k := e.key(group)
	if p.proved(k) == readingData {
		if e.Static {
			return CountDocument, WhyClaim
		}
		is, _ := e.countData()
		return is, WhyShown
	}
	if page || p.read(k) != readingPart {
		return CountDocument, WhyUnproved
	}
	why := WhyTaken
	if p.proved(k) == readingPart {
		why = WhyShown
	}
	if e.Static {
		return CountPart, why
	}
	return CountCall, why
}
