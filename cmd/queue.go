package cmd

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"antirobot/admin"
	"antirobot/message/queue"
)

func queueCommand() *cobra.Command {
	var api apiClient
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "Decide on messages that wait for a person",
		Long: `Lists the messages that message routes put aside for a person (action queue), and decides on them. An
approved message goes to its service as it was sent, or to the route's webhook; a refused one is erased.
With --teach a model learns the decision. docs/messages.md says what is kept, and for how long. The
gateway is asked over its private listener.`,
		Example: `  antirobot queue list
  antirobot queue show 6f1c0ce9a1b24f0e9d3d
  antirobot queue approve 6f1c0ce9a1b24f0e9d3d
  antirobot queue refuse 6f1c0ce9a1b24f0e9d3d --teach
  antirobot queue erase --sender 203.0.113.7`,
	}
	api.register(cmd)
	cmd.AddCommand(
		queueListCommand(&api), queueShowCommand(&api), queueTeachCommand(&api), queueEraseCommand(&api),
		queueDecideCommand(&api, "approve", "Let a message through: it is delivered", "it is good"),
		queueDecideCommand(&api, "refuse", "Refuse a message: it is erased and not delivered", "it is bad"),
	)
	return cmd
}

func queueListCommand(api *apiClient) *cobra.Command {
	var state, service, sender string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Print the messages of the queue, the oldest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			answer, err := api.get(cmd, "/api/queue?limit=1000"+queueQuery(state, service, sender))
			if err != nil {
				return err
			}
			var out struct {
				Total int           `json:"total"`
				Items []*queue.Item `json:"items"`
			}
			if err := readAnswer(answer, &out); err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
			for _, it := range out.Items {
				words := oneLine(it.Message["text"], 60)
				if it.Error != "" {
					words = it.Error
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", it.ID, it.State, it.At.Format(time.RFC3339), it.Service,
					it.Decision, words)
			}
			if left := out.Total - len(out.Items); left > 0 {
				fmt.Fprintf(w, "and %d more\n", left)
			}
			sayNone(cmd, out.Total, "no message")
			return w.Flush()
		},
	}
	registerQueueFilter(cmd, &state, &service, &sender)
	return cmd
}

func registerQueueFilter(cmd *cobra.Command, state, service, sender *string) {
	f := cmd.Flags()
	f.StringVar(state, "state", "", "only those in `STATE`: waiting, approved, failed, delivered or refused")
	f.StringVar(service, "service", "", "only those of the service called `NAME`")
	f.StringVar(sender, "sender", "", "only those of an `ADDRESS`, or of a subject as kind:id")
}

func queueQuery(state, service, sender string) string {
	var b strings.Builder
	for _, p := range [][2]string{{"state", state}, {"service", service}, {"sender", sender}} {
		if p[1] != "" {
			b.WriteString("&" + p[0] + "=" + url.QueryEscape(p[1]))
		}
	}
	return b.String()
}

// oneLine shows a value in a line of the terminal: no control characters, and not too long.
func oneLine(v any, most int) string {
	if v == nil {
		return ""
	}
	clean := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, fmt.Sprint(v))
	if r := []rune(clean); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return clean
}

func queueShowCommand(api *apiClient) *cobra.Command {
	var raw bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Print a message with what is known of it; --json also has its request",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			answer, err := api.get(cmd, "/api/queue/"+url.PathEscape(args[0]))
			if err != nil {
				return err
			}
			if raw {
				_, err := cmd.OutOrStdout().Write(answer)
				return err
			}
			var it admin.QueueItem
			if err := readAnswer(answer, &it); err != nil {
				return err
			}
			return tellQueued(cmd.OutOrStdout(), &it)
		},
	}
	cmd.Flags().BoolVar(&raw, "json", false, "print the response of the gateway unchanged")
	return cmd
}

func tellQueued(to io.Writer, it *admin.QueueItem) error {
	w := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, oneLine(fmt.Sprintf(format, args...), 4000))
	}
	row("id", "%s", it.ID)
	row("state", "%s", it.State)
	row("came", "%s, erased %s", it.At.Format(time.RFC3339), it.Until.Format(time.RFC3339))
	row("to", "%s %s://%s%s (service %s)", it.Method, it.Proto, it.Host, it.Target, it.Service)
	row("from", "%s %s", it.Client, it.Subject)
	row("decision", "%s %s: %s", it.Decision, strings.Join(it.Tags, ","), it.Rule)
	if it.Score != nil {
		row("score", "%.3f", *it.Score)
	}
	for _, o := range it.Opinions {
		row("opinion", "%s", o)
	}
	for _, name := range slices.Sorted(maps.Keys(it.Message)) {
		row(name, "%v", it.Message[name])
	}
	if it.Attempts > 0 {
		row("attempts", "%d, last status %d %s %s", it.Attempts, it.Status, it.Location, it.Error)
	}
	if !it.Next.IsZero() {
		row("next", "%s", it.Next.Format(time.RFC3339))
	}
	return w.Flush()
}

func queueDecideCommand(api *apiClient, verb, short, lesson string) *cobra.Command {
	var teach bool
	cmd := &cobra.Command{
		Use:   verb + " ID…",
		Short: short,
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			for _, id := range ids {
				var it admin.QueueItem
				if err := api.post(cmd, "/api/queue/"+url.PathEscape(id)+"/"+verb, map[string]any{"teach": teach},
					&it); err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), queueOutcome(it.Item))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&teach, "teach", false, "also teach the model that "+lesson)
	return cmd
}

func queueOutcome(it *queue.Item) string {
	switch it.State {
	case queue.Delivered:
		return fmt.Sprintf("%s was delivered: the answer was %d %s", it.ID, it.Status, it.Location)
	case queue.Refused:
		return it.ID + " was refused and is erased"
	case queue.Failed:
		return fmt.Sprintf("%s was not delivered (%s); approve it again to try once more", it.ID, it.Error)
	}
	return fmt.Sprintf("%s is approved, but not delivered yet (%s); it is tried again at %s", it.ID, it.Error,
		it.Next.Format(time.RFC3339))
}

func queueTeachCommand(api *apiClient) *cobra.Command {
	return &cobra.Command{
		Use:   "teach ID good|bad",
		Short: "Teach the model what a waiting message is, without deciding on it",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := api.post(cmd, "/api/queue/"+url.PathEscape(args[0])+"/teach",
				map[string]string{"marker": args[1]}, nil); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "learnt: %s is %s\n", args[0], args[1])
			return nil
		},
	}
}

func queueEraseCommand(api *apiClient) *cobra.Command {
	var state, service, sender string
	var all bool
	cmd := &cobra.Command{
		Use:   "erase [ID…]",
		Short: "Erase messages with everything that is kept of them: by ID, or all that fit",
		RunE: func(cmd *cobra.Command, ids []string) error {
			query := queueQuery(state, service, sender)
			if all {
				query += "&all=true"
			}
			var paths []string
			switch {
			case len(ids) > 0 && query != "":
				return misused("give IDs, or say what is erased, not both")
			case query != "":
				paths = []string{"/api/queue?" + query[1:]}
			}
			for _, id := range ids {
				paths = append(paths, "/api/queue/"+url.PathEscape(id))
			}
			if len(paths) == 0 {
				return errors.New("what is to be erased? give IDs, --sender, --service, --state or --all")
			}
			n := 0
			for _, path := range paths {
				answer, err := api.ask(cmd, http.MethodDelete, path, nil)
				if err != nil {
					return err
				}
				var out struct {
					Erased int `json:"erased"`
				}
				if err := readAnswer(answer, &out); err != nil {
					return err
				}
				n += out.Erased
			}
			fmt.Fprintf(cmd.OutOrStdout(), "erased: %d\n", n)
			return nil
		},
	}
	registerQueueFilter(cmd, &state, &service, &sender)
	cmd.Flags().BoolVar(&all, "all", false, "everything")
	return cmd
}
