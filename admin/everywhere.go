package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/valyala/fasthttp"

	"antirobot/admin/peers"
)

// What one gateway alone remembers can be asked of all that share its store: with gateways=all, this one asks the
// others, and puts the answers together.

// GatewayState says which gateway was asked, and why there is nothing of it.
type GatewayState struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Config  uint64 `json:"config"` // the pushed configuration that it runs; 0: its own file
	Error   string `json:"error,omitempty"`
}

// gathered is what several gateways answered, this one first.
type gathered struct {
	states []GatewayState
	bodies [][]byte // nil: nothing
}

type reply[T any] struct {
	from string
	own  bool // it is this gateway's
	v    T
}

func replies[T any](g *gathered) (all []reply[T]) {
	for i, body := range g.bodies {
		if body == nil {
			continue
		}
		r := reply[T]{from: g.states[i].Name, own: i == 0}
		if err := json.Unmarshal(body, &r.v); err != nil {
			g.states[i].Error = "its answer can't be read: " + err.Error()
			continue
		}
		all = append(all, r)
	}
	return all
}

// everywhere calls the handler of a route, and asks the other gateways too if the caller wants it and the route allows
// it.
func (s *Server) everywhere(c *call, r *route) (any, error) {
	which := string(c.QueryArgs().Peek("gateways"))
	if which == "" || r.merge == nil {
		return r.handle(c)
	}
	if which != "all" {
		return nil, badField("gateways", "%q is not all", clipped(which))
	}
	if s.deps.Peers == nil {
		return r.handle(c)
	}
	var others []peers.Answer
	var lost error
	target, done := othersTarget(c), make(chan struct{})
	go func() {
		defer close(done)
		others, lost = s.deps.Peers.Ask(c.work, target)
	}()
	own, err := r.handle(c)
	<-done
	var p *problem
	if errors.As(err, &p) && p.status == fasthttp.StatusBadRequest {
		return nil, err
	}
	g, some := s.gather(own, err, others), false
	if lost != nil {
		g.states[0].Error = strings.TrimPrefix(g.states[0].Error+"; "+lost.Error(), "; ")
	}
	for _, b := range g.bodies {
		some = some || b != nil
	}
	if !some {
		return nil, unknownEverywhere(err, g)
	}
	return r.merge(c, g)
}

// othersTarget is what the other gateways are asked: the same, of each alone.
func othersTarget(c *call) string {
	args := fasthttp.AcquireArgs()
	defer fasthttp.ReleaseArgs(args)
	c.QueryArgs().CopyTo(args)
	args.Del("gateways")
	return string(c.URI().PathOriginal()) + "?" + args.String()
}

// gather puts this gateway's own answer before those of the others.
func (s *Server) gather(own any, err error, others []peers.Answer) *gathered {
	g := &gathered{}
	add := func(p peers.Peer, body []byte, problem string) {
		g.states = append(g.states, GatewayState{Name: p.Name, Version: p.Version, Config: p.Config, Error: problem})
		g.bodies = append(g.bodies, body)
	}
	var p *problem
	switch {
	case err == nil:
		text, err := json.Marshal(own)
		if err != nil {
			panic("BUG: an answer of the admin API does not encode: " + err.Error())
		}
		add(s.deps.Peers.Here(), text, "")
	case errors.As(err, &p) && p.status == fasthttp.StatusNotFound:
		add(s.deps.Peers.Here(), nil, "")
	default:
		add(s.deps.Peers.Here(), nil, err.Error())
	}
	for i := range others {
		o := &others[i]
		switch {
		case o.Err != nil:
			add(o.Peer, nil, o.Err.Error())
		case o.Status == fasthttp.StatusOK:
			add(o.Peer, o.Body, "")
		case o.Status == fasthttp.StatusNotFound:
			add(o.Peer, nil, "")
		case o.Status == fasthttp.StatusUnauthorized:
			add(o.Peer, nil, "it does not know this gateway: have both the same keys, and the same time?")
		default:
			add(o.Peer, nil, fmt.Sprintf("it answers %.60s", o.Body))
		}
	}
	return g
}

// unknownEverywhere is the error where no gateway had an answer. It names those that could not be asked.
func unknownEverywhere(err error, g *gathered) error {
	var p *problem
	if !errors.As(err, &p) {
		return err
	}
	told := *p
	for _, st := range g.states[1:] {
		if st.Error != "" {
			told.Message += "; the gateway " + st.Name + " did not answer: " + st.Error
		}
	}
	return &told
}

// asker returns the gateway that asks, if it is one; it may put questions of which the answers can be put together.
func (s *Server) asker(ctx *fasthttp.RequestCtx) (Caller, bool) {
	if s.deps.Peers == nil || !ctx.IsGet() {
		return Caller{}, false
	}
	name, ok := s.deps.Peers.Asked(ctx.Request.Header.Peek("Authorization"), string(ctx.RequestURI()))
	return Caller{Name: "gateway " + name, Role: Viewer, gateway: true}, ok
}
