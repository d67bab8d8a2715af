package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"antirobot/admin"
	"antirobot/config"
	"antirobot/gateway"
	"antirobot/spravka"
	"antirobot/store"
)

// keepKeys is how long a key must stay after it has stopped sealing, so that no pass in use is lost.
const keepKeys = 31 * 24 * time.Hour

// keyRing locates a key ring: in a file, or in the store that gateways share.
type keyRing struct {
	file, dataDir     string
	store, secretFile string
}

func (k *keyRing) path() string {
	if k.file != "" {
		return k.file
	}
	return filepath.Join(k.dataDir, "keys.json")
}

func keysCommand() *cobra.Command {
	var k keyRing
	var keep time.Duration
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
	}
	p := cmd.PersistentFlags()
	p.StringVar(&k.file, "file", "", "the ring's `FILE` (default: keys.json in the data directory)")
	p.StringVar(&k.dataDir, "data-dir", fromEnvironment("data_dir", config.Default().DataDir), "the data `DIR`")
	p.StringVar(&k.store, "store", "", "`URL` of the shared store that holds the ring")
	p.StringVar(&k.secretFile, "secret-file", "", "`FILE` with the secret that the ring is wrapped with")
	rotate := &cobra.Command{
		Use: "rotate", Short: "Add a key that seals from now on; drop keys that are too old to matter", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if keep < 0 {
				return misused("--keep: %v is negative", keep)
			}
			return k.rotate(cmd, keep)
		},
	}
	timeVar(rotate.Flags(), &keep, "keep", keepKeys, "how long a key stays after it has stopped sealing, a `TIME` such "+
		"as 31d; less than the lifetime of a pass loses passes")
	cmd.AddCommand(rotate,
		&cobra.Command{
			Use: "make", Short: "Generate a new ring with one key; an existing file is left alone", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return k.make(cmd) },
		},
		&cobra.Command{
			Use: "list", Short: "List the keys by ID and age; secrets are never shown", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return k.list(cmd) },
		})
	return cmd
}

func (k *keyRing) make(cmd *cobra.Command) error {
	path := k.path()
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
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "made %s with one key (mode 0600)\n", path)
	return err
}

func (k *keyRing) load() (*spravka.Ring, error) {
	ring, err := spravka.LoadRing(k.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no key ring %s; say where it is (--data-dir, --file), or make one with "+
			"`antirobot keys make`", k.path())
	}
	return ring, err
}

func (k *keyRing) rotate(cmd *cobra.Command, keep time.Duration) error {
	done := func(next *spravka.Ring, what, reload string) error {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%sa new key seals from now on, %s open; reload %s (SIGHUP)\n", what,
			counted("%d {key|keys}", len(next.Keys())), reload)
		return err
	}
	if k.store != "" {
		return k.shared(cmd.Context(), func(kv store.KV, blob []byte, ring *spravka.Ring, secret []byte) error {
			next, err := ring.Rotate(time.Now(), keep)
			if err != nil {
				return err
			}
			wrapped, err := spravka.Wrap(next, secret)
			if err != nil {
				return err
			}
			ok, err := kv.Swap(cmd.Context(), []byte(spravka.SharedRingKey), blob, wrapped, 0)
			if err != nil {
				return err
			}
			if !ok {
				return errors.New("the ring was changed elsewhere at the same time: nothing was done; try again")
			}
			return done(next, "", "every gateway")
		})
	}
	ring, err := k.load()
	if err != nil {
		return err
	}
	next, err := ring.Rotate(time.Now(), keep)
	if err != nil {
		return err
	}
	if err := spravka.SaveRing(k.path(), next); err != nil {
		return err
	}
	return done(next, k.path()+": ", "the gateway")
}

func (k *keyRing) list(cmd *cobra.Command) error {
	print := func(ring *spravka.Ring) error {
		w := table(cmd.OutOrStdout())
		fmt.Fprintln(w, "ID\tBORN\tUSE")
		use := "seals and opens"
		for _, key := range ring.Keys() {
			fmt.Fprintf(w, "%s\t%s\t%s\n", key.ID, key.Born.Format(time.RFC3339), use)
			use = "opens"
		}
		return w.Flush()
	}
	if k.store != "" {
		return k.shared(cmd.Context(), func(_ store.KV, _ []byte, ring *spravka.Ring, _ []byte) error { return print(ring) })
	}
	ring, err := k.load()
	if err != nil {
		return err
	}
	return print(ring)
}

// shared opens the store and gives do the ring with its wrapped form. User and password stand in the URL.
func (k *keyRing) shared(ctx context.Context,
	do func(kv store.KV, blob []byte, ring *spravka.Ring, secret []byte) error,
) (err error) {
	if k.secretFile == "" {
		return misused("--store needs --secret-file: the ring in the store is wrapped with that secret")
	}
	keys := config.Keys{SecretFile: k.secretFile}
	secret, err := keys.Secret()
	if err != nil {
		return err
	}
	cfg := config.Default().Store
	if cfg.URL = k.store; !cfg.Shared() {
		return misused("--store: only a store that gateways share has a ring")
	}
	b, err := gateway.OpenBackend(&cfg, "", zerolog.Nop())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if err := b.Healthy(); err != nil {
		return err
	}
	blob, err := b.Get(ctx, nil, []byte(spravka.SharedRingKey))
	if errors.Is(err, store.ErrNotFound) {
		return errors.New("the store holds no ring yet: the first gateway that starts with it makes one")
	}
	if err != nil {
		return err
	}
	ring, err := spravka.Unwrap(blob, secret)
	if err != nil {
		return err
	}
	return do(b, blob, ring, secret)
}

func tokensCommand() *cobra.Command {
	var made struct {
		Name    string `json:"name"`
		Role    string `json:"role"`
		Expires string `json:"expires,omitempty"`
		Hash    string `json:"hash"`
		Token   string `json:"token"`
	}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "make NAME",
		Short: "Make a token with a name and a role",
		Long: `Make a token of the private listener, with the name that the journal shows. It prints the token, once, and the
entry for admin.tokens of the configuration, which keeps its hash alone. It is good after a restart.`,
		Example: "  antirobot tokens make anna --role operator --expires 2027-12-31\n  antirobot tokens make scraper --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			made.Name = args[0]
			made.Token, made.Hash = admin.MakeToken()
			cfg := admin.DefaultConfig()
			cfg.Tokens = []admin.TokenConfig{{Name: made.Name, Role: made.Role, Hash: made.Hash, Expires: made.Expires}}
			if err := cfg.Validate(); err != nil {
				return &usageError{errors.New(strings.ReplaceAll(err.Error(), "tokens[0].", "--"))}
			}
			w := cmd.OutOrStdout()
			if asJSON {
				return json.NewEncoder(w).Encode(made)
			}
			fmt.Fprintf(w, "The token of %s (keep it secret; it is not shown again):\n\n  %s\n\n", made.Name, made.Token)
			fmt.Fprintf(w, "Its entry in the configuration:\n\nadmin:\n  tokens:\n    - name: %s\n      role: %s\n"+
				"      hash: %q\n", strconv.Quote(made.Name), made.Role, made.Hash)
			if made.Expires != "" {
				fmt.Fprintf(w, "      expires: %q\n", made.Expires)
			}
			return nil
		},
	}
	p := cmd.Flags()
	p.StringVar(&made.Role, "role", admin.Viewer.String(), "`ROLE`: viewer sees, operator acts, admin also reloads and revokes")
	p.StringVar(&made.Expires, "expires", "", "the last `DAY`, such as 2027-12-31; empty: never")
	p.BoolVar(&asJSON, "json", false, "print JSON: the keys of the entry, and token")
	tokens := &cobra.Command{Use: "tokens", Short: "Make tokens of the private listener for people and programs"}
	tokens.AddCommand(cmd)
	return tokens
}
