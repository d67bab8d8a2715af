package processor

import (
	"math"

	"antirobot/verdict"
	"antirobot/verdict/client"
)

// client counts what the subject's client looks like.
func (s *session) client(e *verdict.Event) {
	s.claim, s.headers, s.misfits, s.iAge = e.Claim, e.Headers, e.Misfits, e.IAge
	s.flags &^= flagPartial | flagHello
	if s.software = e.Software; e.JA4 != 0 {
		s.flags |= flagHello
	}
	if e.Partial {
		s.flags |= flagPartial
		return
	}
	s.shares[shareFields]++
	s.count(shareMisfit, e.Misfits != 0)
	s.count(shareOffered, e.Cookies&client.CookieOffered != 0)
	s.count(shareCookie, e.Cookies&client.CookieOurs != 0)
	s.count(shareNavigate, e.Page)
	if e.Forged > 0 {
		s.flags |= flagForged
	}
	s.languages |= uint16(bit(uint64(e.Language), 16))
	if e.Page {
		s.shapes |= uint16(bit(e.Shape, 16))
	}
}

// answer counts what the subject received.
func (s *session) answer(e *verdict.Event) {
	if e.Status == 0 || e.Stopped() {
		return
	}
	s.shares[shareAnswered]++
	n := uint32(s.shares[shareAnswered])
	ease(&s.bytes, float32(e.BytesOut), n)
	if e.Took > 0 {
		ease(&s.took, float32(e.Took.Microseconds())/1000, n)
	}
	s.count(shareData, e.Type.Data())
	switch st := e.Status; {
	case st == 304:
		s.shares[shareNotModified]++
	case st >= 300 && st < 400:
		s.shares[shareRedirect]++
	case st >= 400 && st < 500:
		s.shares[share4xx]++
		if st == 404 || st == 410 {
			s.shares[shareNotFound]++
			s.count(shareProbe, e.PathKind == client.PathProbe && !s.comes(e)) // a broken link of the site is none
		}
	case st >= 500:
		s.shares[share5xx]++
	}
}

func (s *session) methods(e *verdict.Event) {
	switch e.Method {
	case 'G':
	case 'H':
		s.shares[shareHead]++
	case 'P':
		s.shares[sharePost]++
	default:
		s.shares[shareOther]++
	}
}

// captcha adds what happened at the captcha.
func (s *session) captcha(e *verdict.Event) {
	s.seen(e)
	now := uint32(e.At.Unix())
	switch e.Kind {
	case verdict.EventShown:
		if s.shownAt != 0 {
			inc(&s.ignored)
		}
		inc(&s.shown)
		s.shownAt = now
	case verdict.EventSolved, verdict.EventFailed:
		if s.shownAt != 0 && now >= s.shownAt && !e.Work { // the time that work takes depends on the machine
			s.solveTime = uint16(min(now-s.shownAt, math.MaxUint16-1) + 1)
		}
		s.shownAt = 0
		if e.Kind == verdict.EventSolved {
			inc(&s.solved)
		} else {
			inc(&s.failed)
		}
	}
}
