package verdict

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict/client"
)

// Robots that are spread over many addresses are new at each of them, and an address that is new is not judged before its second
// page. But they arrive alike. A Campaign says that nearly all who arrive like this turn out to be robots: until it is over, whoever
// arrives so is asked with the first page. It is a question and no ban: a pass answers it, and whoever keeps our cookie is not
// concerned.

// Campaign is a way to arrive at the services of a group that is nearly only robots' at present. It is a plain value.
type Campaign struct {
	Mark           uint64    // see Event.Arrival
	Until          time.Time // zero: it is over
	Robots, People uint32    // what the arrivals of the last hours turned out to be
}

// Arrival returns the fingerprint with which a newcomer arrives, as a hash: User-Agent, header fields and their order, languages, handshake, what
// kind of page it opens, and whether it names a Referer and sends cookies of the service. False if the event is no arrival.
func (e *Event) Arrival(group uint32) (mark uint64, ok bool) {
	if !e.Nameless() || e.Kind != EventRequest {
		return 0, false
	}
	return arrivalOf(&e.Facts, e.Method, e.Agent, e.PathShape, group)
}

// FromOutside reports whether a person may have opened a page with this event, coming from elsewhere.
func (e *Event) FromOutside() bool {
	return e.Method == 'G' && e.Referer != client.RefererSame && e.Site != client.SiteSame
}

// FromSite reports whether a page of the site has led to an event. Where the site or the browser withholds Referers, Sec-Fetch-Site says so.
func (e *Event) FromSite() bool {
	return e.Referer == client.RefererSame || e.Referer == client.RefererNone && e.Site == client.SiteSame
}

// Nameless reports whether a visitor brings nothing that says who it is, but perhaps a pass.
func (e *Event) Nameless() bool { return nameless(&e.Subjects, int(e.N)) }

func nameless(list *[identity.MaxSubjects]identity.Subject, n int) bool {
	return n == 1 && list[0].Kind == identity.KindIP || n == 2 && list[0].Kind == identity.KindSpravka && list[1].Kind == identity.KindIP
}

func arrivalOf(f *client.Facts, method uint8, agent, shape uint64, group uint32) (mark uint64, ok bool) {
	if !f.Page || f.Partial || f.Partner || method != 'G' || !f.Claim.Family.Browser() || f.Referer == client.RefererSame ||
		f.Site == client.SiteSame || f.Cookies&client.CookieOurs != 0 {
		return 0, false
	}
	mark = mix(mix(shape, uint64(group)), uint64(f.Referer)<<8|uint64(f.Cookies&client.CookieAny))
	mark = mix(mix(mix(mix(mark, 1<<32|uint64(f.Language)), f.Shape), f.JA4), f.Frames)
	return mix(mark, agent), true
}

// maxCampaigns bounds the table.
const maxCampaigns = 256

// campaigns is the bounded table of campaigns. A reader takes no lock. The zero value is ready for use.
type campaigns struct {
	mu sync.Mutex // of writers
	by atomic.Pointer[map[uint64]Campaign]
}

// put records a campaign, or that it is over.
func (t *campaigns) put(x *Campaign, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := map[uint64]Campaign{}
	if old := t.by.Load(); old != nil {
		for mark, o := range *old {
			if o.Until.After(now) {
				next[mark] = o
			}
		}
	}
	if delete(next, x.Mark); x.Until.After(now) && len(next) < maxCampaigns {
		next[x.Mark] = *x
	}
	t.by.Store(&next)
}

// of returns the campaign that arrives with a fingerprint.
func (t *campaigns) of(mark uint64, at time.Time) (x Campaign, ok bool) {
	m := t.by.Load()
	if m == nil {
		return x, false
	}
	x, ok = (*m)[mark]
	return x, ok && x.Until.After(at)
}

// any reports whether there may be a campaign.
func (t *campaigns) any() bool {
	m := t.by.Load()
	return m != nil && len(*m) > 0
}

// count is how many campaigns there are at a time.
func (t *campaigns) count(now time.Time) (n int) {
	if m := t.by.Load(); m != nil {
		for _, x := range *m {
			if x.Until.After(now) {
				n++
			}
		}
	}
	return n
}

// AskArrivals asks from now on whoever arrives like a campaign.
func (c *Cacher) AskArrivals(x *Campaign) {
	c.campaigns.put(x, c.now())
	if c.said.tells() {
		c.said.tell(saidCampaign, c.appendCampaign(nil, x))
	}
}

// arrives reports whether the request is the arrival of a newcomer like those of a campaign, and says so
// in d.
func (c *Cacher) arrives(d *Decision, v *request.View, id *identity.Identity, s *Settings) bool {
	if !c.campaigns.any() || s.Campaign == StepNothing || !nameless(&id.Subjects, id.N) || id.IBirth != 0 || id.Partner || len(v.Method) == 0 {
		return false
	}
	f, agent := d.read(v, id)
	mark, ok := arrivalOf(f, methodOf(v.Method), agent, shapeOf(d.claims.Key(), v.Path), s.Group)
	if !ok {
		return false
	}
	x, ok := c.campaigns.of(mark, v.At)
	if !ok || c.KnowsPlace(id.Subjects[id.N-1].ID, v.At) {
		return false
	}
	d.Cause, d.Campaign, d.Step = CauseCampaign, x, s.Campaign
	return true
}

// appendCampaign appends a campaign: mark, until (unix milliseconds, 0: it is over), robots, people.
func (c *Cacher) appendCampaign(dst []byte, x *Campaign) []byte {
	var until uint64
	if !x.Until.IsZero() {
		until = uint64(x.Until.Add(c.skewNow()).UnixMilli()) //nolint:gosec // after 1970
	}
	dst = binary.BigEndian.AppendUint64(dst, x.Mark)
	dst = binary.BigEndian.AppendUint64(dst, until)
	dst = binary.BigEndian.AppendUint32(dst, x.Robots)
	return binary.BigEndian.AppendUint32(dst, x.People)
}

func (c *Cacher) heardCampaign(b []byte) bool {
	x, ok := c.readCampaign(b)
	if ok {
		c.campaigns.put(&x, c.now())
	}
	return ok
}

func (c *Cacher) readCampaign(b []byte) (x Campaign, ok bool) {
	if len(b) != 8+8+4+4 {
		return x, false
	}
	x = Campaign{
		Mark: binary.BigEndian.Uint64(b), Robots: binary.BigEndian.Uint32(b[16:]), People: binary.BigEndian.Uint32(b[20:]),
	}
	if binary.BigEndian.Uint64(b[8:]) != 0 {
		x.Until = c.heardTime(b[8:])
	}
	return x, true
}

// StoryAlike is a Campaign as JSON shows it.
type StoryAlike struct {
	Robots uint32    `json:"robots"` // arrivals of the last hours that turned out to be robots …
	People uint32    `json:"people"` // … and people
	Until  time.Time `json:"until"`
}

// story returns the campaign as JSON shows it; nil if there is none.
func (x *Campaign) story() *StoryAlike {
	if x.Until.IsZero() {
		return nil
	}
	return &StoryAlike{Robots: x.Robots, People: x.People, Until: x.Until.UTC()}
}
