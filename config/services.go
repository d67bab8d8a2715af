package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"antirobot/rules/requestrules"
)

// serviceOnly are the settings that make no sense for a path of a service: it has the service's connections.
var serviceOnly = []string{"name", "hosts", "prefixes", "paths", "upstream"}

// resolveServices decodes Services over Defaults over DefaultService. Without any service, Defaults alone is one that
// serves every host.
func (c *Config) resolveServices() error {
	c.Resolved, c.inherited = nil, Service{}
	if len(c.Services) == 0 {
		s, err := c.service(map[string]any{"name": "default"}, "defaults")
		c.Resolved = []Service{s}
		return err
	}
	var errs []error
	for _, k := range []string{"name", "hosts", "prefixes"} {
		if _, set := c.Defaults[k]; set {
			errs = append(errs, fmt.Errorf("defaults.%s: belongs to a service of the list `services`", k))
		}
	}
	base, err := resolveLayers([]map[string]any{c.Defaults}, "defaults")
	errs = append(errs, err)
	c.inherited = base
	for i, settings := range c.Services {
		s, err := c.service(settings, fmt.Sprintf("services[%d]", i))
		errs = append(errs, err)
		c.Resolved = append(c.Resolved, s)
	}
	return errors.Join(errs...)
}

// Inherited is what every service begins with, once the services are resolved. Where there is only one, made of the
// defaults, it is that.
func (c *Config) Inherited() *Service {
	if len(c.Services) == 0 {
		return &c.Resolved[0]
	}
	return &c.inherited
}

func (c *Config) service(settings map[string]any, at string) (Service, error) {
	layers := []map[string]any{c.Defaults, settings}
	s, err := resolveLayers(layers, at)
	errs := []error{err}
	if _, own := settings["paths"]; !own {
		at = "defaults"
	}
	for i, p := range s.Paths {
		ps, err := resolvePath(layers, p, fmt.Sprintf("%s.paths[%d]", at, i))
		errs = append(errs, err)
		if slices.ContainsFunc(s.Resolved, func(o Path) bool { return o.Prefix == ps.Prefix }) {
			errs = append(errs, fmt.Errorf("%s.prefix: %q occurs twice", ps.Path, ps.Prefix))
		}
		s.Resolved = append(s.Resolved, ps)
	}
	return s, errors.Join(errs...)
}

// resolvePath decodes the settings of one path over those of its service.
func resolvePath(layers []map[string]any, settings map[string]any, at string) (Path, error) {
	var errs []error
	own := maps.Clone(settings)
	prefix, _ := own[pathPrefix].(string)
	delete(own, pathPrefix)
	if !strings.HasPrefix(prefix, "/") {
		errs = append(errs, fmt.Errorf("%s.%s: must begin with /", at, pathPrefix))
	}
	for _, k := range serviceOnly {
		if _, set := own[k]; set {
			errs = append(errs, fmt.Errorf("%s.%s: can be set for a whole service only", at, k))
			delete(own, k)
		}
	}
	if c, ok := own["captcha"].(map[string]any); ok {
		if _, set := c["work"]; set { // asked for and answered at /checkcaptcha, which is not a path of the service
			errs = append(errs, fmt.Errorf("%s.captcha.work: can be set for a whole service only", at))
		}
	}
	s, err := resolveLayers(append(slices.Clone(layers), own), at)
	return Path{Prefix: prefix, Service: s}, errors.Join(append(errs, err)...)
}

// resolveLayers decodes each layer over the one before. Only the last can have errors that were not reported already.
func resolveLayers(layers []map[string]any, path string) (Service, error) {
	s := defaultService()
	var err error
	for i, l := range layers {
		at := path
		if i == 0 {
			at = "defaults"
		}
		replaceRules(l, &s.Rules)
		err = errors.Join(err, overlay(l, &s, at))
	}
	s.Path = path
	return s, err
}

// replaceRules takes away the inherited rules where a layer has its own: a text replaces a file, and a file a text.
func replaceRules(layer map[string]any, rules *requestrules.ServiceConfig) {
	text, file := false, false
	for name, section := range layer {
		own, ok := section.(map[string]any)
		if !ok || !strings.EqualFold(name, "rules") {
			continue
		}
		for k := range own {
			text = text || strings.EqualFold(k, "text")
			file = file || strings.EqualFold(k, "file")
		}
	}
	if text || file {
		rules.Text, rules.File = "", ""
	}
}

// OwnsHost reports whether the configuration names host, lower case and without port, as one of the service's: where
// visitors may be sent to in addition to the requested host. A service for every host names none, or it would send
// them anywhere.
func (s *Service) OwnsHost(host string) bool {
	for _, h := range s.Hosts {
		if strings.EqualFold(h, host) {
			return true
		}
		if parent, ok := strings.CutPrefix(h, "*."); ok && strings.HasSuffix(host, "."+strings.ToLower(parent)) {
			return true
		}
	}
	return false
}

// FirstHost returns a host that the first service serves: what a log without hosts is taken for.
func (c *Config) FirstHost() string {
	if len(c.Resolved) > 0 && len(c.Resolved[0].Hosts) > 0 {
		return strings.Replace(c.Resolved[0].Hosts[0], "*", "www", 1)
	}
	return "localhost"
}

// AnyHost reports whether the first service has no hosts of its own, and takes requests for any.
func (c *Config) AnyHost() bool { return len(c.Resolved) > 0 && len(c.Resolved[0].Hosts) == 0 }

// Observe makes every service that would stop visitors only look, whatever the file says: decisions are made, logged
// and counted, and all requests pass. c is valid, and not yet in use.
func (c *Config) Observe() {
	for i := range c.Resolved {
		c.Resolved[i].observe()
		for k := range c.Resolved[i].Resolved {
			c.Resolved[i].Resolved[k].observe()
		}
	}
}

// Stops reports whether anybody is stopped at the service, or at one of its paths.
func (s *Service) Stops() bool {
	return s.Verdict.Mode == enforce || slices.ContainsFunc(s.Resolved, func(p Path) bool { return p.Stops() })
}

const enforce = "enforce"

func (s *Service) observe() {
	if s.Verdict.Mode == enforce {
		s.Verdict.Mode = "observe"
	}
}
