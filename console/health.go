package console

import (
	"slices"
	"strings"

	"antirobot/admin"
)

type status struct {
	Gateway string `json:"gateway"`
	Version string `json:"version"`
	Ready   bool   `json:"ready"`
	Checks  []struct {
		Name   string `json:"name"`
		OK     bool   `json:"ok"`
		Detail string `json:"detail"`
	} `json:"checks"`
	Services []struct {
		Name, Mode string
		Upstreams  []struct {
			Address string
			Healthy bool
		}
	} `json:"services"`
	Store *struct {
		Backend string
		Healthy bool
		Error   string
	} `json:"store"`
}

// statuses is the answer of the API about this gateway and the others.
type statuses struct {
	status
	Gateways []admin.GatewayState `json:"gateways"`
	Others   []status             `json:"others"`
}

// trouble is a line about a problem on some gateways.
type trouble struct {
	Kind  string   // not-ready, store, mode or upstream
	About string   // the service
	Value string   // the problem, the mode, or the address
	On    []string // the gateways; empty: there is one only
}

// troubles lists the problems of all gateways, one line for the same problem of several.
func (s *statuses) troubles() []trouble {
	var all []trouble
	for _, g := range append([]status{s.status}, s.Others...) {
		add := func(kind, about, value string) {
			i := slices.IndexFunc(all, func(t trouble) bool {
				return t.Kind == kind && t.About == about && t.Value == value
			})
			if i < 0 {
				i, all = len(all), append(all, trouble{Kind: kind, About: about, Value: value})
			}
			if g.Gateway != "" && !slices.Contains(all[i].On, g.Gateway) {
				all[i].On = append(all[i].On, g.Gateway)
			}
		}
		if !g.Ready {
			add("not-ready", "", g.wrong())
		}
		if g.Store != nil && !g.Store.Healthy {
			add("store", "", g.Store.Error)
		}
		for _, v := range g.Services {
			if v.Mode != "enforce" {
				add("mode", v.Name, v.Mode)
			}
			for _, u := range v.Upstreams {
				if !u.Healthy {
					add("upstream", v.Name, u.Address)
				}
			}
		}
	}
	return all
}

func (s *status) wrong() string {
	var all []string
	for _, c := range s.Checks {
		if !c.OK {
			all = append(all, c.Name+": "+c.Detail)
		}
	}
	return strings.Join(all, ", ")
}

type gatewayHealth struct {
	admin.GatewayState
	OK bool // it answers, is ready, and its store works
}

// health returns how all gateways are; none if there is only this one.
func (s *statuses) health() []gatewayHealth {
	if len(s.Gateways) < 2 {
		return nil
	}
	well := map[string]bool{}
	for _, is := range append([]status{s.status}, s.Others...) {
		well[is.Gateway] = is.Ready && (is.Store == nil || is.Store.Healthy)
	}
	var all []gatewayHealth
	for _, g := range s.Gateways {
		all = append(all, gatewayHealth{g, g.Error == "" && well[g.Name]})
	}
	return all
}
