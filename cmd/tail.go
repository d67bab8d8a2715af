package cmd

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"antirobot/admin"
	"antirobot/journal"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/words"
)

// tailOverlap is how far back each further question of tail goes: an entry is written when its answer has gone out, on
// each gateway by itself, and is named by when its request came.
const tailOverlap = 10 * time.Second

// mostFollowed is how many entries of that time are asked for.
const mostFollowed = 5000

type tail struct {
	operator
	query string
	seen  map[string]bool // those of the overlap that were printed
	last  time.Time       // of the newest
	from  time.Time       // of the oldest that was printed to begin with: no older one follows
	lost  string          // the gateways that did not answer the last time
}

func tailCommand() *cobra.Command {
	var t tail
	var follow bool
	var lines int
	cmd := t.command("tail [QUERY]", "Print the latest decisions of all gateways, and follow them",
		"  antirobot tail\n  antirobot tail 'verdict:robot path:/api' --follow=false --lines 50", cobra.MaximumNArgs(1),
		func(cmd *cobra.Command, args []string) error {
			t.query = strings.Join(args, " ")
			for limit := lines; ; limit = mostFollowed {
				if err := t.next(cmd, limit); err != nil || !follow {
					return err
				}
				select {
				case <-cmd.Context().Done():
					return nil
				case <-time.After(time.Second):
				}
			}
		})
	cmd.Long = `Print the latest entries of the journals of all gateways, and follow them: requests, challenges, bans, and
what operators did. Of requests that were simply human a sample is there (journal.humans, one in a hundred
by default), so nothing may come for a while though there are visitors; the log has them all.

The query is that of the console: kind, verdict, cause, mode, service, method, path, subject, ip, agent, ja4,
status, reason, by, trace, since and until, each with : and a value; - before one says that it must not hold.`
	cmd.Flags().BoolVar(&follow, "follow", true, "go on until it is stopped")
	cmd.Flags().IntVar(&lines, "lines", 20, "`N` decisions to begin with")
	return cmd
}

func (t *tail) next(cmd *cobra.Command, limit int) error {
	q := url.Values{"q": {t.query}, "limit": {fmt.Sprint(limit)}, "gateways": {"all"}}
	if !t.last.IsZero() {
		after := request.NewID(t.last.Add(-tailOverlap))
		clear(after[6:]) // the first of that millisecond
		q.Set("after", after.String())
	}
	answer, err := t.get(cmd, "/api/journal?"+q.Encode())
	if err != nil {
		return err
	}
	var found struct {
		journal.Found
		Gateways []admin.GatewayState
	}
	if err := readAnswer(answer, &found); err != nil {
		return err
	}
	if err := t.printEntries(cmd.OutOrStdout(), t.fresh(found.Entries)); err != nil {
		return err
	}
	var lost strings.Builder
	if sayLost(&lost, found.Gateways); lost.String() != t.lost {
		t.lost = lost.String()
		fmt.Fprint(cmd.ErrOrStderr(), t.lost)
	}
	return nil
}

// fresh returns the entries that were not printed, and remembers those of the overlap.
func (t *tail) fresh(all []journal.Entry) (some []journal.Entry) {
	for i := range all {
		if all[i].At.After(t.last) {
			t.last = all[i].At
		}
	}
	seen := map[string]bool{}
	for i := range all {
		e := &all[i]
		key := e.ID + e.Kind
		if !t.seen[key] && !e.At.Before(t.from) {
			some = append(some, *e)
		}
		if !e.At.Before(t.last.Add(-tailOverlap)) {
			seen[key] = true
		}
	}
	if len(all) > 0 {
		t.seen = seen
	}
	if t.from.IsZero() && len(some) > 0 {
		t.from = some[len(some)-1].At
	}
	return some
}

// printEntries prints entries, the oldest first.
func (o *operator) printEntries(w io.Writer, all []journal.Entry) error {
	on := coloured(w)
	for i := len(all) - 1; i >= 0; i-- {
		e := &all[i]
		if o.raw {
			if err := json.NewEncoder(w).Encode(e); err != nil {
				return err
			}
			continue
		}
		what := e.Verdict
		if e.Kind != "request" {
			what = e.Kind
		}
		why := e.Reason
		if why == "" && e.Cause != "" && e.Cause != "none" {
			why = verdict.CauseWords(e.Cause)
		}
		if e.By != "" {
			why = strings.TrimSpace(why + " by " + e.By)
		}
		_, err := fmt.Fprintf(w, "%s %s %-21s %s %s  %s  %s\n", e.At.Format(time.TimeOnly),
			paint(on, verdictColours[what], fmt.Sprintf("%-8s", what)),
			e.Subject, e.Method, e.Path, words.Reason(words.English, why), strings.TrimSpace(e.ID+" "+e.Gateway))
		if err != nil {
			return err
		}
	}
	return nil
}
