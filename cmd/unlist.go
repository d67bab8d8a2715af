package cmd

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"antirobot/request"
)

// unlistCommand makes unallow and unblock, which take an entry off a list.
func unlistCommand(use, short, list, done, example string) *cobra.Command {
	var o operator
	var service string
	cmd := o.command(use, short, example, cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		entry := strings.TrimSpace(args[0])
		if _, ok := request.ParseID(entry); ok {
			var err error
			if entry, err = o.behind(cmd, entry); err != nil {
				return err
			}
		}
		entry = strings.TrimPrefix(entry, "ip:")
		return o.unlist(cmd, list, done, entry, service)
	})
	cmd.Flags().StringVar(&service, "service", "", "the entry of the service `NAME` alone")
	return cmd
}

func (o *operator) unlist(cmd *cobra.Command, list, done, entry, service string) error {
	var out struct{ Removed string }
	printed, err := o.call(cmd, http.MethodDelete, "/api/lists/"+list+"?"+url.Values{
		"entry":   {entry},
		"service": {service},
	}.Encode(), nil, &out)
	if err != nil {
		return fmt.Errorf("%w%s", err, o.wider(cmd, list, entry))
	}
	if !printed {
		fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", out.Removed, done)
	}
	return nil
}

func unallowCommand() *cobra.Command {
	return unlistCommand("unallow ADDRESS|NETWORK|SUBJECT|REQUEST-ID", "Take an entry off the white list", "white",
		"is judged like everybody again", "  antirobot unallow 203.0.113.7")
}

func unblockCommand() *cobra.Command {
	return unlistCommand("unblock ADDRESS|NETWORK|SUBJECT|REQUEST-ID", "Take an entry off the list of blocks", "block",
		"is not blocked any more", "  antirobot unblock 203.0.113.0/24")
}

// wider names the entries of a list that cover a client without an entry of its own.
func (o *operator) wider(cmd *cobra.Command, list, entry string) string {
	have, err := o.covering(cmd, list, entry)
	if err != nil || len(have) == 0 {
		return ""
	}
	return "; what the list has is " + strings.Join(have, ", ")
}

// covering returns the entries of a list, made at run time, that are an entry or overlap with it.
func (o *operator) covering(cmd *cobra.Command, list, entry string) (have []string, err error) {
	answer, err := o.get(cmd, "/api/lists/"+list+"?limit=1000")
	if err != nil {
		return nil, err
	}
	var all struct {
		Items []struct{ Entry, Service string }
	}
	if err := readAnswer(answer, &all); err != nil {
		return nil, err
	}
	whose, ok := networkOf(entry)
	for _, e := range all.Items {
		n, isNet := networkOf(e.Entry)
		if e.Entry != entry && !(ok && isNet && n.Overlaps(whose)) {
			continue
		}
		text := e.Entry
		if e.Service != "" {
			text += " --service " + e.Service
		}
		have = append(have, text)
	}
	return have, nil
}
