package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"antirobot/config"
	"antirobot/gateway"
	"antirobot/spravka"
	"antirobot/store"
	"antirobot/verdict/words"
)

// sharedKeyFlags say where the ring is that gateways share.
type sharedKeyFlags struct {
	store, secretFile string
}

// with opens the store and gives f the ring with its wrapped form. The server's settings beside the URL are the
// defaults: user and password stand in the URL.
func (f *sharedKeyFlags) with(ctx context.Context, do func(kv store.KV, blob []byte, ring *spravka.Ring,
	secret []byte) error,
) (err error) {
	if f.secretFile == "" {
		return misused("--store needs --secret-file: the ring in the store is wrapped with that secret")
	}
	keys := config.Keys{SecretFile: f.secretFile}
	secret, err := keys.Secret()
	if err != nil {
		return err
	}
	cfg := config.DefaultStore()
	if cfg.URL = f.store; !cfg.Shared() {
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

func (f *sharedKeyFlags) list(cmd *cobra.Command) error {
	return f.with(cmd.Context(), func(_ store.KV, _ []byte, ring *spravka.Ring, _ []byte) error {
		return listKeys(cmd, ring)
	})
}

func (f *sharedKeyFlags) rotate(cmd *cobra.Command, keep time.Duration) error {
	return f.with(cmd.Context(), func(kv store.KV, blob []byte, ring *spravka.Ring, secret []byte) error {
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
			return errors.New("somebody else changed the ring at the same time: nothing was done; try again")
		}
		fmt.Fprintf(cmd.OutOrStdout(), "a new key seals from now on, %s open; reload every gateway (SIGHUP)\n",
			words.Sprintf(words.English, "%d {key|keys}", len(next.Keys())))
		return nil
	})
}
