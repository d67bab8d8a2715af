package admin

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"runtime/trace"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

// maxProfile bounds how long a profile or trace may run.
const maxProfile = 2 * time.Minute

// profile serves /debug/pprof/NAME in the form that `go tool pprof` reads. It is built on runtime/pprof: net/http/pprof
// would put the same handlers on a global mux that any import could expose.
func (s *Server) profile(ctx *fasthttp.RequestCtx, name string) error {
	if _, err := s.requireToken(ctx, Admin); err != nil {
		return err
	}
	switch name {
	case "":
		ctx.SetContentType("text/plain; charset=utf-8")
		ctx.SetBodyString(profileIndex())
		return nil
	case "profile":
		return s.record(ctx, 30*time.Second, func(w *bytes.Buffer) error { return pprof.StartCPUProfile(w) },
			pprof.StopCPUProfile)
	case "trace":
		return s.record(ctx, time.Second, func(w *bytes.Buffer) error { return trace.Start(w) }, trace.Stop)
	}
	p := pprof.Lookup(name)
	if p == nil {
		return notFound("there is no profile %q; /debug/pprof/ lists them", name)
	}
	level, _ := ctx.QueryArgs().GetUint("debug")
	level = max(level, 0)
	var buf bytes.Buffer
	if err := p.WriteTo(&buf, level); err != nil {
		return fmt.Errorf("profile %s: %w", name, err)
	}
	ctx.SetContentType("application/octet-stream")
	if level > 0 {
		ctx.SetContentType("text/plain; charset=utf-8")
	}
	ctx.SetBody(buf.Bytes())
	return nil
}

// record runs what start begins for ?seconds=N, or until the server shuts down.
func (s *Server) record(ctx *fasthttp.RequestCtx, usual time.Duration, start func(*bytes.Buffer) error, stop func(),
) error {
	d := usual
	if q := ctx.QueryArgs().Peek("seconds"); q != nil {
		sec, err := strconv.ParseFloat(string(q), 64)
		if err != nil || !(sec > 0 && sec <= maxProfile.Seconds()) {
			return badField("seconds", "%q is not a number in the range 0..%v", q, maxProfile.Seconds())
		}
		d = time.Duration(sec * float64(time.Second))
	}
	busy := &problem{
		status: fasthttp.StatusConflict, Code: "busy",
		Message: "another profile is being taken; try again when it is done",
	}
	select {
	case s.profiles <- struct{}{}:
		defer func() { <-s.profiles }()
	default:
		return busy
	}
	var buf bytes.Buffer
	if err := start(&buf); err != nil {
		return busy
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.stopping:
	}
	stop()
	ctx.SetContentType("application/octet-stream")
	ctx.SetBody(buf.Bytes())
	return nil
}

func profileIndex() string {
	names := []string{"profile?seconds=30", "trace?seconds=1"}
	for _, p := range pprof.Profiles() {
		names = append(names, p.Name())
	}
	sort.Strings(names)
	return strings.Join(names, "\n") + "\n"
}
