package cmd

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"antirobot/admin"
	"antirobot/config"
	"antirobot/journal"
	"antirobot/verdict"
	"antirobot/verdict/words"
)

type gatewayState struct {
	Gateway  string
	Version  string
	Uptime   float64 `json:"uptime_seconds"`
	Ready    bool
	Checks   []struct{ Name, Detail string }
	Services []struct {
		Name, Mode string
		Upstreams  []struct {
			Address string
			Healthy bool
		}
	}
	Lists *struct {
		Sources []struct {
			Name, Error string
			Entries     int
		}
	}
	Store *struct {
		Backend string
		Healthy bool
		Error   string
	}
	Stream *streamState
}

// streamState is what the API says of the way between gateways and processors.
type streamState struct {
	Role       string
	Healthy    bool
	Error      string
	Partitions int
	Lag        float64 `json:"lag_seconds"`
}

func (s *streamState) String() string {
	switch {
	case !s.Healthy:
		return s.Role + ": " + s.Error
	case s.Role == config.RoleProcessor:
		return fmt.Sprintf("processor, judges %s, %.3g s behind",
			words.Sprintf(words.English, "%d {partition|partitions}", s.Partitions), s.Lag)
	}
	return "gateway, processors judge its events"
}

func statusCommand() *cobra.Command {
	var o operator
	return o.command("status", "How the gateway is, what it stops and why, in a few lines", "  antirobot status",
		cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
			var s struct {
				gatewayState
				Others   []gatewayState
				Gateways []admin.GatewayState
			}
			printed, err := o.call(cmd, http.MethodGet, "/api/status"+everywhere, nil, &s)
			if err != nil || printed {
				return err
			}
			w := cmd.OutOrStdout()
			on := coloured(w)
			printState(w, on, &s.gatewayState)
			for i := range s.Others {
				printState(w, on, &s.Others[i])
			}
			var attack admin.AttackState
			if answer, err := o.get(cmd, "/api/attack"); err == nil && readAnswer(answer, &attack) == nil && attack.On {
				fmt.Fprintf(w, "attack   %s\n", paint(on, yellow, attackWords(&attack)))
			}
			o.printHour(cmd, w, on)
			var is watched
			if answer, err := o.get(cmd, "/api/alarms"+everywhere); err == nil && readAnswer(answer, &is) == nil {
				printAlarms(w, on, is.Items)
			}
			sayLost(cmd.ErrOrStderr(), s.Gateways)
			return nil
		})
}

// printState says how the gateway, its services, lists and its store are.
func printState(w io.Writer, on bool, s *gatewayState) {
	ready := paint(on, green, "ready")
	if !s.Ready {
		ready = paint(on, red, "not ready")
		for _, c := range s.Checks {
			if c.Detail != "" {
				ready += ", " + c.Name + ": " + c.Detail
			}
		}
	}
	if s.Gateway != "" {
		ready = s.Gateway + " " + ready
	}
	fmt.Fprintf(w, "gateway  %s, version %s, up for %s\n", ready, s.Version,
		time.Duration(s.Uptime*float64(time.Second)).Round(time.Second))
	for _, v := range s.Services {
		mode := "mode " + v.Mode
		if v.Mode != verdict.Enforce.String() {
			mode = paint(on, yellow, mode+": it stops nobody yet")
		}
		away := ""
		for _, u := range v.Upstreams {
			if !u.Healthy {
				away += paint(on, red, ", "+u.Address+" does not answer")
			}
		}
		fmt.Fprintf(w, "service  %s, %s%s\n", v.Name, mode, away)
	}
	if s.Lists != nil {
		for _, l := range s.Lists.Sources {
			if l.Error != "" {
				fmt.Fprintf(w, "list     %s, %s: %s\n", l.Name,
					words.Sprintf(words.English, "%d {entry|entries}", l.Entries), paint(on, yellow, l.Error))
			}
		}
	}
	if s.Store != nil && !s.Store.Healthy {
		fmt.Fprintf(w, "store    %s: %s\n", s.Store.Backend, paint(on, red, s.Store.Error))
	}
	if s.Stream != nil {
		text := s.Stream.String()
		if !s.Stream.Healthy {
			text = paint(on, red, text)
		}
		fmt.Fprintf(w, "stream   %s\n", text)
	}
}

// printHour says what happened within the last hour, if there is a journal.
func (o *operator) printHour(cmd *cobra.Command, w io.Writer, on bool) {
	to := time.Now().UTC()
	q := url.Values{
		"by": {"minute"}, "from": {to.Add(-time.Hour).Format(time.RFC3339)},
		"to": {to.Format(time.RFC3339)}, "gateways": {"all"},
	}
	var f struct{ Items []journal.Figures }
	if answer, err := o.get(cmd, "/api/journal/figures?"+q.Encode()); err != nil || readAnswer(answer, &f) != nil {
		return
	}
	sum := journal.Sum(f.Items)
	line := ""
	for _, v := range []string{"human", "unsure", "robot", "blocked"} {
		line += fmt.Sprintf(", %s %.0f", paint(on, verdictColours[v], v), sum.Requests[v])
	}
	fmt.Fprintf(w, "hour     %s; challenges shown %.0f, solved %.0f\n", strings.TrimPrefix(line, ", "),
		sum.Challenges["shown"], sum.Challenges["passed"])
	var top struct{ Items []journal.Count }
	answer, err := o.get(cmd, "/api/journal/top?"+url.Values{
		"by": {"reason"},
		"q":  {"verdict:robot,blocked,unsure since:1h"}, "limit": {"3"}, "gateways": {"all"},
	}.Encode())
	if err != nil || readAnswer(answer, &top) != nil {
		return
	}
	for _, c := range top.Items {
		if c.Name != "" {
			fmt.Fprintf(w, "because  %d %s\n", c.Entries, words.Reason(words.English, c.Name))
		}
	}
}
