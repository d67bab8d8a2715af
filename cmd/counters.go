package cmd

import (
	"fmt"

	"github.com/spf13/cobra"
)

func countersCommand() *cobra.Command {
	var api apiClient
	cmd := &cobra.Command{
		Use:   "counters",
		Short: "Read and update the counters of a running gateway",
		Long: `Read and update the counters of a running gateway, over its private listener. A counter is a prefix (who
counts), a type and a shingle: 16 hex digits, or a text that the gateway normalises and hashes according
to the type. docs/api.md has the table of types.`,
	}
	api.register(cmd)
	cmd.AddCommand(countersGetCommand(&api), countersAddCommand(&api))
	return cmd
}

type counterFlags struct {
	prefix, shingle, text string
	typ                   uint16
}

func (f *counterFlags) register(cmd *cobra.Command) {
	p := cmd.Flags()
	p.StringVar(&f.prefix, "prefix", "", "`PREFIX` of the counter: who counts")
	p.Uint16Var(&f.typ, "type", 0, "`TYPE` of the shingle, e.g. 15 for an address")
	p.StringVar(&f.shingle, "shingle", "", "the shingle, 16 `HEX` digits")
	p.StringVar(&f.text, "text", "", "instead: the `TEXT` to be normalised and hashed")
}

func (f *counterFlags) item(cmd *cobra.Command) (map[string]any, error) {
	if f.prefix == "" || !cmd.Flags().Changed("type") {
		return nil, misused("which counter? give --prefix, --type and one of --text and --shingle")
	}
	item := map[string]any{"prefix": f.prefix, "type": f.typ}
	switch {
	case cmd.Flags().Changed("text") == (f.shingle != ""):
		return nil, misused("give one of --text and --shingle")
	case f.shingle != "":
		item["shingle"] = f.shingle
	default:
		item["text"] = f.text
	}
	return item, nil
}

func countersGetCommand(api *apiClient) *cobra.Command {
	var f counterFlags
	var unit string
	var last uint32
	cmd := &cobra.Command{
		Use:   "get [KEY…]",
		Short: "Print counts for printed keys, or for one counter over its last periods",
		Example: `  antirobot counters get mass_in_5791f8cac2b7d8dd_14_10m_2831519
  antirobot counters get --prefix mass_in --type 15 --text 203.0.113.7 --unit 10m --last 6`,
		RunE: func(cmd *cobra.Command, keys []string) error {
			var queries []any
			for _, k := range keys {
				queries = append(queries, map[string]any{"key": k})
			}
			if len(keys) == 0 {
				item, err := f.item(cmd)
				if err != nil {
					return err
				}
				item["unit"], item["last"] = unit, last
				queries = append(queries, item)
			}
			var answer struct {
				Counts []uint64 `json:"counts"`
			}
			if err := api.post(cmd, "/api/counters/read", map[string]any{"queries": queries}, &answer); err != nil {
				return err
			}
			for i, n := range answer.Counts {
				if len(keys) > 0 {
					fmt.Fprintf(cmd.OutOrStdout(), "%s\t", keys[i])
				}
				fmt.Fprintln(cmd.OutOrStdout(), n)
			}
			return nil
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&unit, "unit", "10m", "`UNIT` of the periods: 10m or 1d")
	cmd.Flags().Uint32Var(&last, "last", 1, "sum the last `N` periods, including the current one")
	return cmd
}

func countersAddCommand(api *apiClient) *cobra.Command {
	var f counterFlags
	var n uint64
	var durable bool
	cmd := &cobra.Command{
		Use:     "add",
		Short:   "Add to a counter, in the current ten minutes and day",
		Example: `  antirobot counters add --prefix mass_in --type 15 --text 203.0.113.7 --n 3`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			item, err := f.item(cmd)
			if err != nil {
				return err
			}
			item["n"] = n
			path := "/api/counters/update"
			if durable {
				path += "?wait=durable"
			}
			return api.post(cmd, path, map[string]any{"updates": []any{item}}, nil)
		},
	}
	f.register(cmd)
	cmd.Flags().Uint64Var(&n, "n", 1, "`N` to add")
	cmd.Flags().BoolVar(&durable, "durable", false, "wait until it is on the disk, or with the servers of a shared "+
		"store")
	return cmd
}
