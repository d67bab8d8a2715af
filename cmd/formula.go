package cmd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"antirobot/config"
	"antirobot/verdict/formula"
	"antirobot/verdict/proof"
	"antirobot/verdict/words"
)

func formulaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "formula",
		Short: "Inspect a model, and measure it on labelled factors",
		Long: `A formula turns the factors of a subject into the probability that it is a robot. It is a score card
in YAML, XGBoost trees in JSON, or oblivious CatBoost trees in JSON; docs/formula.md explains how to
write or train one. None is built in: without one, the rules of "antirobot formula rules" ban alone.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q: it is formula show, formula rules or formula eval", args[0])
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(formulaShowCommand(), formulaEvalCommand(), formulaRulesCommand())
	return cmd
}

// importance is a factor of a model, with how far it moves the raw score.
type importance struct {
	Factor string  `json:"factor"`
	Moves  float32 `json:"moves"`
	Why    string  `json:"why,omitempty"`
}

// importances returns the factors that a model uses, the strongest first.
func importances(m *formula.Model) []importance {
	var out []importance
	needs := m.Needs()
	for i, name := range m.Names() {
		if slices.Contains(needs, name) {
			out = append(out, importance{Factor: name, Moves: m.Importance()[i], Why: m.Reason(i)})
		}
	}
	slices.SortStableFunc(out, func(a, b importance) int { return cmp.Compare(b.Moves, a.Moves) })
	return out
}

func formulaShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show MODEL",
		Short: "Describe a model: its version, the factors it needs, and how far each moves the score",
		Long: `Prints the version of a model (as recorded in bans), its size, and the factors it needs. How far a
factor moves the score is given in log-odds: for trees, the mean of the changes that its splits make; for
a score card, the distance between its lowest and its highest weight.`,
		Example: `  antirobot formula show card.yaml
  antirobot formula show model.json --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := config.LoadModel(args[0])
			if err != nil {
				return err
			}
			list := importances(m)
			out := cmd.OutOrStdout()
			if asJSON {
				return json.NewEncoder(out).Encode(map[string]any{
					"version": m.Version(), "kind": m.Kind(), "size": m.Size(), "bias": m.Bias(), "factors": list,
				})
			}
			fmt.Fprintf(out, "%s: %s, %s\nwithout any evidence: %.4f\n\n", m.Version(), m.Kind(), m.Size(), probability(m.Bias()))
			w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "factor\tmoves\t\twhy")
			for _, f := range list {
				fmt.Fprintf(w, "%s\t%.3f\t%s\t%s\n", f.Factor, f.Moves, bar(f.Moves, list[0].Moves), f.Why)
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// bar draws a share of the largest value.
func bar(v, most float32) string {
	if most <= 0 {
		return ""
	}
	return strings.Repeat("█", int(v/most*20+0.5))
}

func formulaRulesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rules",
		Short: "Print the built-in rules: what is proven about a client that they ban",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
			for i := range proof.Rules {
				r := &proof.Rules[i]
				fmt.Fprintf(w, "%s\t%s\n", r.Name, words.Factor(words.English, r.Name, 1))
			}
			return w.Flush()
		},
	}
}
