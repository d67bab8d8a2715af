package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
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
		s.prober.scrape(ctx, as)
		s.runs.leave()
		s.visitors.change(id, func(v *visitor) { v.stop = nil })
	})
	return ""
}

// scrape makes the requests of a run, as a proxy in front of the visitor would.
func (p *prober) scrape(ctx context.Context, as netip.Addr) {
	pace := time.NewTicker(runPace)
	defer pace.Stop()
	for n := range runPages {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/shop/%d/item-%d", strings.TrimSuffix(p.opts.GatewayURL(), "/"), n%8+1, n+1), http.NoBody)
		if err != nil {
			return
		}
		req.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/140.0.0.0 Safari/537.36")
		req.Header.Set("Accept", "*/*")
		req.Header.Set("X-Forwarded-For", as.String())
		req.Header.Set("X-Real-Ip", as.String())
		resp, err := p.http.Do(req)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
		_ = resp.Body.Close()
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
