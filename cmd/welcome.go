package cmd

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"antirobot/config"
	"antirobot/gateway"
)

// welcome says in five lines, for people, what the gateway does now. The log is for programs, and goes elsewhere.
func welcome(w io.Writer, a *gateway.Server) {
	scheme := "http"
	if a.Cfg.Listen[0].TLSCert != "" {
		scheme = "https"
	}
	fmt.Fprintf(w, "antirobot: protects %s\n", protected(a.Cfg))
	fmt.Fprintf(w, "  visitors come to %s://%s; %s\n", scheme, a.VisitorAddr(), modes(a.Cfg))
	if a.AdminAddr == "" {
		fmt.Fprintln(w, "  there is no private listener (--admin ADDR): no API, no metrics")
	} else {
		fmt.Fprintf(w, "  the private listener is at http://%s, its token in %s\n", a.AdminAddr, tokenFile(a.Cfg))
	}
	fmt.Fprintln(w, "  to look first without stopping anybody: --observe; why a request was stopped: antirobot why REQUEST-NUMBER")
	fmt.Fprintln(w, "  SIGHUP reloads the configuration; Ctrl-C or SIGTERM lets what is under way finish, and stops")
}

// maxNamed is how many services are named.
const maxNamed = 3

// protected names the services and where they are.
func protected(c *config.Config) string {
	var names []string
	for i := range c.Resolved {
		s := &c.Resolved[i]
		if i == maxNamed {
			names = append(names, fmt.Sprintf("%d more", len(c.Resolved)-maxNamed))
			break
		}
		name := s.Name
		if len(s.Hosts) > 0 {
			name += " (" + strings.Join(s.Hosts[:1], "") + ")"
		}
		if len(s.Upstream.URLs) > 0 {
			name += " at " + s.Upstream.URLs[0]
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// modes says what becomes of robots.
func modes(c *config.Config) string {
	words := map[string]string{
		"enforce": "robots are stopped (mode enforce)", "observe": "robots are only looked at, nobody is stopped (mode observe)",
		"off": "nobody is looked at (mode off)",
	}
	var all []string
	for i := range c.Resolved {
		if m := words[c.Resolved[i].Verdict.Mode]; !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	if len(all) == 1 {
		return all[0]
	}
	return "the mode depends on the service: " + strings.Join(all, "; ")
}

func tokenFile(c *config.Config) string {
	if c.Admin.TokenFile != "" {
		return c.Admin.TokenFile
	}
	return filepath.Join(c.DataDir, "admin.token")
}
