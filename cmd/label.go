package cmd

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"antirobot/admin"
	"antirobot/request"
)

func labelCommand() *cobra.Command {
	var o operator
	api := &o.apiClient
	var reason string
	cmd := &cobra.Command{
		Use:   "label SUBJECT|REQUEST-ID human|robot",
		Short: "Say of a subject that it is a person or a robot, to train models with",
		Long: `Says of a subject, or of whoever sent a request, that it is a person or a robot. Models are trained on such
labels (events export); nobody is let through or stopped by one: lists and bans do that.

A label outweighs all other evidence in the export. From then on the subject is in the sample of the
training log, whatever its share. The gateway is asked over its private listener.`,
		Example: `  antirobot label 01KAJ4T0Q8ZV1X8C9E7N5M3B2D robot --reason "copies prices"
  antirobot label L:alice human
  antirobot label list
  antirobot label remove L:alice`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := map[string]string{"label": args[1], "reason": reason}
			in[whose(args[0])] = whom(args[0])
			var out admin.LabelStory
			printed, err := o.call(cmd, http.MethodPost, "/api/labels", in, &out)
			if err != nil || printed {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is labelled %s\n", out.Subject, out.Label)
			o.noteUnseen(cmd, out.Subject)
			return nil
		},
	}
	api.register(cmd)
	cmd.PersistentFlags().BoolVar(&o.raw, "json", false, "print the response of the gateway unchanged")
	cmd.Flags().StringVar(&reason, "reason", "", "why, in one `LINE`")
	cmd.AddCommand(labelListCommand(&o), labelRemoveCommand(&o))
	return cmd
}

// noteUnseen says so where no gateway has seen a subject of late: it may be written wrong.
func (o *operator) noteUnseen(cmd *cobra.Command, subject string) {
	var is knownSubject
	answer, err := o.get(cmd, "/api/subjects/"+url.PathEscape(subject)+everywhere)
	if err == nil && readAnswer(answer, &is) == nil && is.Session == nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: %s was not seen of late; if it is written wrong, antirobot label "+
			"remove %s\n", subject, subject)
	}
}

func whose(arg string) string {
	if _, ok := request.ParseID(strings.TrimSpace(arg)); ok {
		return "request"
	}
	return "subject"
}

func labelListCommand(o *operator) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Print the labels in force",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
			labels := 0
			for after := ""; ; {
				var page struct {
					Items []admin.LabelStory `json:"items"`
					Next  string             `json:"next"`
				}
				answer, err := o.get(cmd, "/api/labels?limit=1000"+after)
				if err == nil {
					err = readAnswer(answer, &page)
				}
				if err != nil {
					return err
				}
				if o.raw { // a page each, each a line
					if _, err := cmd.OutOrStdout().Write(answer); err != nil {
						return err
					}
					page.Items = nil
				}
				labels += len(page.Items)
				for _, l := range page.Items {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", l.Subject, l.Label, l.Source, l.At.Format(time.RFC3339),
						l.Reason)
				}
				if page.Next == "" {
					if !o.raw {
						sayNone(cmd, labels, "there is no label")
					}
					return w.Flush()
				}
				after = "&after=" + url.QueryEscape(page.Next)
			}
		},
	}
}

func labelRemoveCommand(o *operator) *cobra.Command {
	return &cobra.Command{
		Use:   "remove SUBJECT|REQUEST-ID",
		Short: "Forget the label of a subject",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "/api/labels?" + whose(args[0]) + "=" + url.QueryEscape(whom(args[0]))
			var out struct {
				Removed string `json:"removed"`
			}
			printed, err := o.call(cmd, http.MethodDelete, path, nil, &out)
			if err != nil || printed {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s has no label any more\n", out.Removed)
			return nil
		},
	}
}
