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
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"antirobot/admin"
	"antirobot/message/queue"
)

func queueCommand() *cobra.Command {
	var c client
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
	c.register(cmd)
	one := &cobra.Command{
		Use: "show ID", Short: "Print a message with what is known of it; --json also has its request", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return show(&c, cmd, http.MethodGet, queuePath(args[0]), nil, printQueued)
		},
	}
	one.Flags().BoolVar(&c.raw, "json", false, "print the response of the gateway unchanged")
	cmd.AddCommand(queueListCommand(&c), one, queueEraseCommand(&c),
		&cobra.Command{
			Use:   "teach ID good|bad",
			Short: "Teach the model whether a waiting message is good, without deciding on it",
			Args:  cobra.ExactArgs(2),
			RunE: func(cmd *cobra.Command, args []string) error {
				err := c.do(cmd, http.MethodPost, queuePath(args[0])+"/teach", map[string]string{"marker": args[1]}, nil)
				if err == nil {
					fmt.Fprintf(cmd.OutOrStdout(), "learnt: %s is %s\n", args[0], args[1])
				}
				return err
			},
		},
		queueDecideCommand(&c, "approve", "Let a message through: it is delivered", "it is good"),
		queueDecideCommand(&c, "refuse", "Refuse a message: it is erased and not delivered", "it is bad"))
	return cmd
}

func queuePath(id string) string { return "/api/queue/" + url.PathEscape(id) }

// queueFilter chooses messages by fields.
type queueFilter struct{ state, service, sender string }

func (q *queueFilter) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&q.state, "state", "", "only those in `STATE`: waiting, approved, failed, delivered or refused")
	f.StringVar(&q.service, "service", "", "only those of the service called `NAME`")
	f.StringVar(&q.sender, "sender", "", "only those of an `ADDRESS`, or of a subject as kind:id")
}

func (q *queueFilter) values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{"state": q.state, "service": q.service, "sender": q.sender} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return v
}

func queueListCommand(c *client) *cobra.Command {
	var f queueFilter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Print the messages of the queue, the oldest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := f.values()
			query.Set("limit", "1000")
			var out struct {
				Total int
				Items []*queue.Item
			}
			if err := c.get(cmd, "/api/queue?"+query.Encode(), &out); err != nil {
				return err
			}
			w := table(cmd.OutOrStdout())
			for _, it := range out.Items {
				text := oneLine(it.Message["text"], 60)
				if it.Error != "" {
					text = it.Error
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", it.ID, it.State, it.At.Format(time.RFC3339), it.Service, it.Decision, text)
			}
			if left := out.Total - len(out.Items); left > 0 {
				fmt.Fprintf(w, "and %d more\n", left)
			}
			noteEmpty(cmd, out.Total, "no message")
			return w.Flush()
		},
	}
	f.register(cmd)
	return cmd
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

func printQueued(to io.Writer, it *admin.QueueItem) error {
	w := table(to)
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

func queueDecideCommand(c *client, verb, short, lesson string) *cobra.Command {
	var teach bool
	cmd := &cobra.Command{
		Use:   verb + " ID…",
		Short: short,
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			for _, id := range ids {
				var it admin.QueueItem
				err := c.do(cmd, http.MethodPost, queuePath(id)+"/"+verb, map[string]any{"teach": teach}, &it)
				if err != nil {
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

func queueEraseCommand(c *client) *cobra.Command {
	var f queueFilter
	var all bool
	cmd := &cobra.Command{
		Use:   "erase [ID…]",
		Short: "Erase messages with everything that is kept of them: by ID, or all that fit",
		RunE: func(cmd *cobra.Command, ids []string) error {
			query := f.values()
			if all {
				query.Set("all", "true")
			}
			var paths []string
			for _, id := range ids {
				paths = append(paths, queuePath(id))
			}
			switch {
			case len(ids) > 0 && len(query) > 0:
				return misused("give IDs, or say what is erased, not both")
			case len(query) > 0:
				paths = []string{"/api/queue?" + query.Encode()}
			case len(ids) == 0:
				return errors.New("what is to be erased? give IDs, --sender, --service, --state or --all")
			}
			n := 0
			for _, path := range paths {
				var out struct{ Erased int }
				if err := c.do(cmd, http.MethodDelete, path, nil, &out); err != nil {
					return err
				}
				n += out.Erased
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "erased: %d\n", n)
			return err
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "everything")
	return cmd
}
