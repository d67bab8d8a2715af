package demo

import (
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// A scraper's run: page after page, and none of their parts.
const (
	runPages = 60
	runPace  = 100 * time.Millisecond
	maxRuns  = 4 // at once
)

// startRun lets the pretend visitor scrape the site for some seconds, unless it does already.
func (s *site) startRun(v *visitor) (problem string) {
	ctx, stop := context.WithCancel(s.life)
	started := false
	s.visitors.change(v.id, func(v *visitor) {
		if v.stop == nil && s.runs.enter() {
			v.stop, started = stop, true
		}
	})
	if !started {
		stop()
		return "busy"
	}
	id, as := v.id, v.address
	s.running.Go(func() {
		defer stop()
		s.scrape(ctx, as)
		s.runs.leave()
		s.visitors.change(id, func(v *visitor) { v.stop = nil })
	})
	return ""
}

// scrape opens pages of the shop for the pretend visitor, until the run is over.
func (s *site) scrape(ctx context.Context, as netip.Addr) {
	ctx, cancel := context.WithTimeout(ctx, runPages*runPace)
	defer cancel()
	_, gateway, _ := strings.Cut(strings.TrimSuffix(s.opts.GatewayURL(), "/"), "://")
	g := guest{crowd: &Crowd{}, gateway: gateway, address: as.String(), fields: headlessFields, pace: runPace, visit: (*guest).scrape}
	if err := g.run(ctx); err != nil {
		s.opts.Log.Warn().Err(err).Msg("demo: scrape")
	}
}

// score tells what the gateway thinks of the pretend visitor at this moment, for the page's script.
func (s *site) score(w http.ResponseWriter, r *http.Request) {
	v := s.visitors.of(w, r, s.now())
	if !s.tries.enter() {
		http.Error(w, "busy", http.StatusServiceUnavailable)
		return
	}
	st, err := s.api.standing(r.Context(), v.pretend())
	s.tries.leave()
	if err != nil {
		s.opts.Log.Warn().Err(err).Msg("demo: score")
		http.Error(w, "no answer", http.StatusBadGateway)
		return
	}
	t := s.texts[s.language(r)]
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"running": v.stop != nil, "role": t.text("role." + string(st.Role)), "reason": clip(st.Reason, 200),
		"pages": st.Pages, "parts": st.Parts, "score": st.Score, "judged": st.Judged, "left": left(st.Until, s.now()),
	})
}
