package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"antirobot/config"
	"antirobot/spravka"
	"antirobot/verdict/words"
)

// keepKeys is how long a key that no longer seals must stay, so that no pass in use is lost.
const keepKeys = 31 * 24 * time.Hour

func keysCommand() *cobra.Command {
	var file, dataDir string
	var shared sharedKeyFlags
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Generate, rotate and list the keys that seal passes and cookies",
		Long: `The key ring seals passes, cookies and challenges. The newest key seals and any key opens, so a
rotation logs nobody out. serve makes a ring on first start; these commands are for installations
that prepare it beforehand, share it between machines, or rotate it.

A running gateway takes a changed ring over on reload (SIGHUP).

With --store and --secret-file, rotate and list work on the ring that gateways share in a store.
Rotate, then reload all gateways at once: what one of them seals with the new key the others open
only after their own reload.`,
		Example: `  antirobot keys make --data-dir /var/lib/antirobot
  antirobot keys rotate --file /etc/antirobot/keys.json
  antirobot keys rotate --store redis://10.0.0.5 --secret-file /etc/antirobot/secret`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q: it is keys make, keys rotate or keys list", args[0])
			}
			return cmd.Help()
		},
	}
	cmd.PersistentFlags().StringVar(&file, "file", "", "the ring's `FILE` (default: keys.json in the data directory)")
	cmd.PersistentFlags().StringVar(&dataDir, "data-dir", fromEnvironment("data_dir", config.Default().DataDir),
		"the data `DIR`")
	cmd.PersistentFlags().StringVar(&shared.store, "store", "", "`URL` of the shared store that holds the ring")
	cmd.PersistentFlags().StringVar(&shared.secretFile, "secret-file", "",
		"`FILE` with the secret that the ring is wrapped with")
	path := func() string {
		if file != "" {
			return file
		}
		return filepath.Join(dataDir, "keys.json")
	}
	cmd.AddCommand(
		&cobra.Command{
			Use: "make", Short: "Generate a new ring with one key; an existing file is left alone", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return makeKeys(cmd, path()) },
		},
		rotateCommand(path, &shared),
		&cobra.Command{
			Use: "list", Short: "List the keys by ID and age; secrets are never shown", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if shared.store != "" {
					return shared.list(cmd)
				}
				ring, err := loadKeys(path())
				if err != nil {
					return err
				}
				return listKeys(cmd, ring)
			},
		},
	)
	return cmd
}

func makeKeys(cmd *cobra.Command, path string) error {
	if _, err := os.Stat(path); err == nil {
		return fmt.Errorf("%s exists already; to add a key to it use `antirobot keys rotate`", path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if _, _, err := spravka.LoadOrMakeRing(path, time.Now()); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "made %s with one key (mode 0600)\n", path)
	return nil
}

func rotateCommand(path func() string, shared *sharedKeyFlags) *cobra.Command {
	var keep time.Duration
	cmd := &cobra.Command{
		Use: "rotate", Short: "Add a key that seals from now on; drop keys that are too old to matter",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if keep < 0 {
				return misused("--keep: %v is negative", keep)
			}
			if shared.store != "" {
				return shared.rotate(cmd, keep)
			}
			ring, err := loadKeys(path())
			if err != nil {
				return err
			}
			next, err := ring.Rotate(time.Now(), keep)
			if err != nil {
				return err
			}
			if err := spravka.SaveRing(path(), next); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: a new key seals from now on, %s open; reload the gateway (SIGHUP)\n",
				path(), words.Sprintf(words.English, "%d {key|keys}", len(next.Keys())))
			return nil
		},
	}
	timeVar(cmd.Flags(), &keep, "keep", keepKeys, "how long a key stays after it has stopped sealing, a `TIME` such "+
		"as 31d; less than the lifetime of a pass loses passes")
	return cmd
}

func loadKeys(path string) (*spravka.Ring, error) {
	ring, err := spravka.LoadRing(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no key ring %s; say where it is (--data-dir, --file), or make one with "+
			"`antirobot keys make`", path)
	}
	return ring, err
}

func listKeys(cmd *cobra.Command, ring *spravka.Ring) error {
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tBORN\tUSE")
	for i, k := range ring.Keys() {
		use := "opens"
		if i == 0 {
			use = "seals and opens"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", k.ID, k.Born.Format(time.RFC3339), use)
	}
	return w.Flush()
}
