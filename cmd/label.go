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
	"antirobot/request"
)

func labelCommand() *cobra.Command {
	var c client
	var reason string
	cmd := &cobra.Command{
		Use:   "label SUBJECT|REQUEST-ID human|robot",
		Short: "Label a subject as a person or a robot, to train models with",
		Long: `Labels a subject, or the sender of a request, as a person or a robot. Models are trained on such labels
(events export); they let no one through and stop no one: lists and bans do that.

A label outweighs all other evidence in the export. From then on the subject is in the sample of the
training log, whatever its share. The gateway is asked over its private listener.`,
		Example: `  antirobot label 01KAJ4T0Q8ZV1X8C9E7N5M3B2D robot --reason "copies prices"
  antirobot label L:alice human
  antirobot label list
  antirobot label remove L:alice`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := map[string]string{"label": args[1], "reason": reason, labelKey(args[0]): subjectOf(args[0])}
			return show(&c, cmd, http.MethodPost, "/api/labels", in, func(w io.Writer, out *admin.LabelStory) error {
				fmt.Fprintf(w, "%s is labelled %s\n", out.Subject, out.Label)
				var is knownSubject
				err := c.get(cmd, "/api/subjects/"+url.PathEscape(out.Subject)+everywhere, &is)
				if err == nil && is.Session == nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "note: %[1]s was not seen of late; if it is written wrong, antirobot label "+
						"remove %[1]s\n", out.Subject)
				}
				return nil
			})
		},
	}
	c.register(cmd)
	cmd.PersistentFlags().BoolVar(&c.raw, "json", false, "print the response of the gateway unchanged")
	cmd.Flags().StringVar(&reason, "reason", "", "why, in one `LINE`")
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Short: "Print the labels in force", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return listLabels(&c, cmd) },
		},
		&cobra.Command{
			Use: "remove SUBJECT|REQUEST-ID", Short: "Forget the label of a subject", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				path := "/api/labels?" + labelKey(args[0]) + "=" + url.QueryEscape(subjectOf(args[0]))
				return show(&c, cmd, http.MethodDelete, path, nil, func(w io.Writer, out *struct{ Removed string }) error {
					_, err := fmt.Fprintf(w, "%s has no label any more\n", out.Removed)
					return err
				})
			},
		})
	return cmd
}

// labelKey is the field of the API that takes an argument.
func labelKey(arg string) string {
	if _, ok := request.ParseID(strings.TrimSpace(arg)); ok {
		return "request"
	}
	return "subject"
}

// listLabels prints all labels; with --json a page a line.
func listLabels(c *client, cmd *cobra.Command) error {
	w, labels := table(cmd.OutOrStdout()), 0
	for after, more := "", true; more; {
		type page struct {
			Items []admin.LabelStory
			Next  string
		}
		more = false
		err := show(c, cmd, http.MethodGet, "/api/labels?limit=1000"+after, nil, func(_ io.Writer, p *page) error {
			labels += len(p.Items)
			for _, l := range p.Items {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", l.Subject, l.Label, l.Source, l.At.Format(time.RFC3339), l.Reason)
			}
			after, more = "&after="+url.QueryEscape(p.Next), p.Next != ""
			return nil
		})
		if err != nil {
			return err
		}
	}
	if !c.raw {
		noteEmpty(cmd, labels, "there is no label")
	}
	return w.Flush()
}
