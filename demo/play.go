package demo

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// playView is what the play page shows.
type playView struct {
	Roles     []role
	Address   string // of the pretend visitor
	Pretend   part
	Left      int // seconds until the pretend visitor is a human again
	Outcomes  []outcome
	Busy      bool // too many others are using it at the moment
	Ready     bool // there is a gateway to play with
	MyAddress string
	Me        part
	MeLeft    int
	CanCookie bool
	MyCookie  string
	Problem   string // key of a text
}

// problems are the values of ?problem= and the texts that they stand for.
var problems = map[string]string{"admin": "play.problem.admin", "address": "play.problem.address", "form": "play.problem.form"}

// showPlay makes the example requests and shows what came back, with or without scripts in the browser.
func (s *site) showPlay(w http.ResponseWriter, r *http.Request) {
	now := s.now()
	v := s.visitors.of(w, r, now)
	view := playView{
		Roles: roles[:], Address: v.address.String(), Pretend: v.pretend.at(now), Me: v.me.at(now),
		CanCookie: s.opts.SignCookie != nil, MyCookie: v.cookie, Problem: problems[r.URL.Query().Get("problem")],
	}
	view.Left, view.MeLeft = seconds(view.Pretend, now), seconds(view.Me, now)
	if a, ok := visitorAddress(r); ok {
		view.MyAddress = a.String()
	}
	if s.opts.GatewayURL != nil && s.opts.GatewayURL() != "" {
		view.Ready = true
		if s.tries.enter() {
			view.Outcomes = s.tryAll(r.Context(), v.address)
			s.tries.leave()
		} else {
			view.Busy = true
		}
	}
	s.render(w, r, http.StatusOK, "play", view)
}

// seconds returns how long a part still lasts, rounded up.
func seconds(p part, now time.Time) int {
	if p.Role == roleHuman {
		return 0
	}
	return int((p.Until.Sub(now) + time.Second - 1) / time.Second)
}

// turn gives the pretend visitor or the real one a role, or hands out the site's own cookie, and shows the page again.
func (s *site) turn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	v := s.visitors.of(w, r, s.now())
	var problem string
	anchor := "#answers"
	switch r.PostFormValue("who") {
	case "pretend":
		problem = s.turnPretend(r, &v)
	case "me":
		anchor = "#me"
		problem = s.turnMe(r, &v)
	case "cookie":
		anchor = "#me"
		problem = s.giveCookie(w, r, &v)
	default:
		problem = "form"
	}
	target := "/play"
	if problem != "" {
		target += "?problem=" + problem
		anchor = "#problem"
	}
	http.Redirect(w, r, target+anchor, http.StatusSeeOther)
}

func (s *site) turnPretend(r *http.Request, v *visitor) (problem string) {
	to := role(r.PostFormValue("role"))
	if !slices.Contains(roles[:], to) {
		return "form"
	}
	now := s.now()
	if err := s.assign(r.Context(), v.pretend.Subject, v.pretend.at(now).Role, to); err != nil {
		s.opts.Log.Warn().Err(err).Msg("demo: turn the pretend visitor")
		return "admin"
	}
	s.visitors.change(v.id, func(v *visitor) { v.pretend.Role, v.pretend.Until = to, now.Add(roleLife) })
	return ""
}

// turnMe acts on the visitor's own address, as the gateway names it, or on the site's own cookie if there is one and it is
// requested. It only undoes what this visitor did.
func (s *site) turnMe(r *http.Request, v *visitor) (problem string) {
	to := role(r.PostFormValue("role"))
	if !slices.Contains(roles[:], to) {
		return "form"
	}
	now := s.now()
	was := v.me.at(now)
	if was.Role != roleHuman {
		if err := s.take(r.Context(), was.Subject, was.Role); err != nil {
			s.opts.Log.Warn().Err(err).Msg("demo: turn the visitor back")
			return "admin"
		}
		s.visitors.change(v.id, func(v *visitor) { v.me = part{} })
	}
	if to == roleHuman {
		return ""
	}
	subject := "service:" + s.opts.CookieName + "=" + v.cookie
	if r.PostFormValue("subject") != "cookie" || v.cookie == "" {
		a, ok := visitorAddress(r)
		if !ok {
			return "address"
		}
		subject = "ip:" + a.String()
	}
	if err := s.assign(r.Context(), subject, roleHuman, to); err != nil {
		s.opts.Log.Warn().Err(err).Msg("demo: turn the visitor")
		return "admin"
	}
	s.visitors.change(v.id, func(v *visitor) { v.me = part{to, subject, now.Add(roleLife)} })
	return ""
}

// giveCookie gives the visitor an identity that the site vouches for, backdated by two days so that it counts at once. A
// real service would never do that: the age is what makes such a cookie worth something.
func (s *site) giveCookie(w http.ResponseWriter, r *http.Request, v *visitor) (problem string) {
	if s.opts.SignCookie == nil {
		return "form"
	}
	value := "player-" + v.id[:8]
	signed, err := s.opts.SignCookie(s.opts.CookieName, value, s.now().Add(-48*time.Hour))
	if err != nil {
		s.opts.Log.Warn().Err(err).Msg("demo: sign the cookie")
		return "form"
	}
	http.SetCookie(w, &http.Cookie{
		Name: s.opts.CookieName, Value: signed, Path: "/", MaxAge: 3600, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Secure: r.Header.Get("X-Forwarded-Proto") == "https",
	})
	s.visitors.change(v.id, func(v *visitor) { v.cookie = value })
	return ""
}

// visitorAddress returns the visitor's address as the gateway reports it.
func visitorAddress(r *http.Request) (netip.Addr, bool) {
	a, err := netip.ParseAddr(strings.TrimSpace(r.Header.Get("X-Real-Ip")))
	if err != nil || a.Zone() != "" {
		return netip.Addr{}, false
	}
	return a.Unmap(), true
}
