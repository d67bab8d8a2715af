package demo

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// playView is what the play page shows. What the gateway does is asked of the gateway.
type playView struct {
	Roles     []role
	Address   string // of the pretend visitor
	Pretend   standing
	Left      int  // seconds until the pretend visitor's role ends by itself; 0: it has none, or it does not
	Running   bool // the pretend visitor scrapes the site
	Outcomes  []outcome
	Busy      bool // too many others are using it at the moment
	Ready     bool // there is a gateway to play with
	MyAddress string
	Me        standing
	MeLeft    int
	CanCookie bool
	MyCookie  string
	Problem   string // key of a text
}

// problems are the values of ?problem= and the texts that they stand for.
var problems = map[string]string{"admin": "play.problem.admin", "address": "play.problem.address", "form": "play.problem.form", "busy": "play.busy"}

// showPlay makes the example requests and shows what came back, with or without scripts in the browser.
func (s *site) showPlay(w http.ResponseWriter, r *http.Request) {
	v := s.visitors.of(w, r, s.now())
	view := playView{
		Roles: roles[:], Address: v.address.String(), Running: v.stop != nil, Pretend: standing{Role: roleHuman}, Me: standing{Role: roleHuman},
		CanCookie: s.opts.SignCookie != nil, MyCookie: v.cookie, Problem: problems[r.URL.Query().Get("problem")],
	}
	if a, ok := visitorAddress(r); ok {
		view.MyAddress = a.String()
	}
	if s.opts.GatewayURL != nil && s.opts.GatewayURL() != "" {
		view.Ready = true
		if s.tries.enter() {
			view.Outcomes = s.prober.tryAll(r.Context(), v.address)
			s.look(r, &v, &view)
			s.tries.leave()
		} else {
			view.Busy = true
		}
	}
	s.render(w, r, http.StatusOK, "play", view)
}

// look asks the gateway what the pretend visitor and the real one are.
func (s *site) look(r *http.Request, v *visitor, view *playView) {
	var err error
	if view.Pretend, err = s.api.standing(r.Context(), v.pretend()); err == nil {
		for _, subject := range s.mine(r, v) {
			if view.Me, err = s.api.standing(r.Context(), subject); err != nil || view.Me.Role != roleHuman {
				break
			}
		}
	}
	if err != nil {
		s.opts.Log.Warn().Err(err).Msg("demo: ask the gateway")
		view.Problem = problems["admin"]
	}
	view.Left, view.MeLeft = left(view.Pretend.Until, s.now()), left(view.Me.Until, s.now())
}

// mine are the subjects by which the gateway knows the visitor: their address, and the site's own cookie if they took it.
func (s *site) mine(r *http.Request, v *visitor) (subjects []string) {
	if a, ok := visitorAddress(r); ok {
		subjects = append(subjects, "ip:"+a.String())
	}
	if v.cookie != "" {
		subjects = append(subjects, s.cookieSubject(v))
	}
	return subjects
}

func (s *site) cookieSubject(v *visitor) string {
	return "service:" + s.opts.CookieName + "=" + v.cookie
}

// left returns the seconds until a time, rounded up; 0 if there is none.
func left(until, now time.Time) int {
	if until.IsZero() {
		return 0
	}
	return max(0, int((until.Sub(now)+time.Second-1)/time.Second))
}

// turn gives the pretend visitor or the real one a role, takes everything back, lets the pretend visitor run, or hands out the
// site's own cookie, and shows the page again.
func (s *site) turn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	v := s.visitors.of(w, r, s.now())
	var problem string
	anchor := "#answers"
	switch r.PostFormValue("who") {
	case "pretend":
		problem = s.turnPretend(r, &v)
	case "run":
		anchor = "#score"
		problem = s.startRun(&v)
	case "me":
		anchor = "#me"
		problem = s.turnMe(r, &v)
	case "all":
		problem = s.turnBack(r, &v)
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
	if err := s.api.assign(r.Context(), v.pretend(), to); err != nil {
		s.opts.Log.Warn().Err(err).Msg("demo: turn the pretend visitor")
		return "admin"
	}
	return ""
}

// turnMe acts on the visitor's own address, as the gateway names it, or on the site's own cookie if there is one and it is
// requested.
func (s *site) turnMe(r *http.Request, v *visitor) (problem string) {
	to := role(r.PostFormValue("role"))
	if !slices.Contains(roles[:], to) {
		return "form"
	}
	subjects := s.mine(r, v)
	if r.PostFormValue("subject") == "cookie" && v.cookie != "" {
		subjects = []string{s.cookieSubject(v)}
	}
	if len(subjects) == 0 {
		return "address"
	}
	if to == roleHuman {
		return s.turnBack(r, v, subjects...)
	}
	if err := s.api.assign(r.Context(), subjects[0], to); err != nil {
		s.opts.Log.Warn().Err(err).Msg("demo: turn the visitor")
		return "admin"
	}
	return ""
}

// turnBack takes back what playing has brought on the given subjects; without any, on the pretend visitor and the real one. What
// the gateway remembers of the pretend one can't be taken back: another one takes its place.
func (s *site) turnBack(r *http.Request, v *visitor, subjects ...string) (problem string) {
	everything := len(subjects) == 0
	if everything {
		if v.stop != nil {
			v.stop()
		}
		subjects = append(s.mine(r, v), v.pretend())
	}
	for _, subject := range subjects {
		if err := s.api.takeBack(r.Context(), subject); err != nil {
			s.opts.Log.Warn().Err(err).Msg("demo: take back")
			return "admin"
		}
	}
	if everything {
		s.visitors.renew(v.id)
	}
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

func visitorAddress(r *http.Request) (netip.Addr, bool) {
	a, err := netip.ParseAddr(strings.TrimSpace(r.Header.Get("X-Real-Ip")))
	if err != nil || a.Zone() != "" {
		return netip.Addr{}, false
	}
	return a.Unmap(), true
}
