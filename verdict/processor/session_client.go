package processor

import (
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
	s.count(shareOffered, e.Cookies&client.CookieOffered != 0)
	s.count(shareCookie, e.Cookies&client.CookieOurs != 0)
	s.count(shareNavigate, e.Page)
	if e.Forged > 0 {
		s.flags |= flagForged
	}
}

// answer counts what the subject received.
func (s *session) answer(e *verdict.Event) {
	if e.Status == 0 || e.Stopped() {
		return
	}
	s.shares[shareAnswered]++
	s.count(shareData, e.Type.Data())
	switch st := e.Status; {
	case st == 304:
		s.shares[shareNotModified]++
	case st >= 400 && st < 500:
		s.shares[share4xx]++
		if st == 404 || st == 410 {
			s.shares[shareNotFound]++
			s.count(shareProbe, e.PathKind == client.PathProbe && !s.comes(e)) // a broken link of the site is none
		}
	}
}

func (s *session) methods(e *verdict.Event) {
	switch e.Method {
	case 'G':
	case 'H':
		s.shares[shareHead]++
	case 'P':
		s.shares[sharePost]++
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
		s.shownAt = 0
		if e.Kind == verdict.EventSolved {
			inc(&s.solved)
		} else {
			inc(&s.failed)
		}
	}
}
