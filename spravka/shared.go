package spravka

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/crypto/argon2"

	"antirobot/store"
)

// SharedRing is the key ring in a shared store, wrapped with an operator's secret. A copy, also wrapped, is kept in
// the data directory, for a start while the store is unavailable.
type SharedRing struct {
	KV     store.KV
	Secret []byte
	Copy   string
	Seed   string // a ring from before the store was shared, if there is one: its passes then stay valid
	Log    zerolog.Logger
	Losses *store.Losses // nil: a ring that the store loses is put back without a report

	opened []byte // the ring that was opened or made last, wrapped
	ring   *Ring  // what that is
	told   []byte // the ring that was warned about
	end    context.CancelFunc
	done   chan struct{}
}

const (
	// SharedRingKey is the key of the ring in a shared store.
	SharedRingKey     = "keys/ring"
	sharedRingTimeout = 10 * time.Second // of one store operation, in addition to stretching the secret
	// sharedRingEvery is how often a gateway checks whether the store still has the ring.
	sharedRingEvery = 5 * time.Second
)

// Load reads the ring, or its copy while the store is unavailable. With create, the first gateway makes it.
func (k *SharedRing) Load(create bool) (*Ring, error) {
	ctx := context.Background()
	blob, err := k.get(ctx)
	if errors.Is(err, store.ErrNotFound) && create {
		blob, err = k.create(ctx)
	}
	if err != nil {
		kept, readErr := os.ReadFile(k.Copy)
		if readErr != nil {
			return nil, fmt.Errorf("read the key ring of the shared store: %w", err)
		}
		k.Log.Warn().
			Err(err).Str("copy", k.Copy).Msg("the shared store does not give the key ring: taking the last copy")
		return k.open(kept)
	}
	ring, err := k.open(blob)
	if err != nil {
		return nil, err
	}
	if err := writeFile(k.Copy, blob, os.Rename); err != nil {
		k.Log.Warn().Err(err).Msg("the next start needs the shared store: its key ring could not be copied")
	}
	return ring, nil
}

// open unwraps a ring, which is expensive, unless it is the known one.
func (k *SharedRing) open(blob []byte) (*Ring, error) {
	if k.ring != nil && bytes.Equal(blob, k.opened) {
		return k.ring, nil
	}
	ring, err := Unwrap(blob, k.Secret)
	if err == nil {
		k.opened, k.ring = blob, ring
	}
	return ring, err
}

// Start checks until Close whether the store still has the ring, and puts the copy back if it does not.
func (k *SharedRing) Start(ctx context.Context) error {
	ctx, k.end = context.WithCancel(context.WithoutCancel(ctx))
	k.done = make(chan struct{})
	go func() {
		defer close(k.done)
		store.Every(ctx, sharedRingEvery, func() {
			if err := k.check(ctx); err != nil && ctx.Err() == nil {
				k.Log.Debug().Err(err).Msg("the key ring of the shared store was not looked at")
			}
		})
	}()
	return nil
}

// Close ends what Start started.
func (k *SharedRing) Close() error {
	k.end()
	<-k.done
	return nil
}

func (k *SharedRing) check(ctx context.Context) error {
	blob, err := k.get(ctx)
	if errors.Is(err, store.ErrNotFound) {
		_, err = k.putBack(ctx)
		return err
	}
	if err != nil {
		return err
	}
	kept, err := os.ReadFile(k.Copy)
	if err == nil && !bytes.Equal(kept, blob) && !bytes.Equal(k.told, blob) {
		k.told = blob
		k.Log.Warn().
			Msg("the shared store has a newer key ring: reload, or tokens of other gateways do not open here")
	}
	return err
}

// putBack puts the copy into a store that lacks the ring, and returns it, or the ring that another gateway put there.
// Without a copy that the secret opens, it returns nil, or the reason.
func (k *SharedRing) putBack(ctx context.Context) ([]byte, error) {
	kept, err := os.ReadFile(k.Copy)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if _, err := k.open(kept); err != nil {
		return nil, fmt.Errorf("%s: %w", k.Copy, err)
	}
	wrote, err := k.putFirst(ctx, kept)
	if err != nil {
		return nil, err
	}
	if wrote {
		k.Losses.Note("key rings", 1)
		return kept, nil
	}
	return k.get(ctx)
}

// create puts a ring into the store, unless another gateway was faster: then it returns that gateway's ring. It
// prefers this gateway's copy of the lost ring: otherwise other gateways' passes would be invalid here.
func (k *SharedRing) create(ctx context.Context) ([]byte, error) {
	if blob, err := k.putBack(ctx); blob != nil || err != nil {
		return blob, err
	}
	ring, err := LoadRing(k.Seed)
	if errors.Is(err, fs.ErrNotExist) {
		ring, err = NewRing([]Key{MakeKey(time.Now())})
	}
	if err != nil {
		return nil, err
	}
	blob, err := Wrap(ring, k.Secret)
	if err != nil {
		return nil, err
	}
	k.opened, k.ring = blob, ring
	first, err := k.putFirst(ctx, blob)
	if err != nil {
		return nil, err
	}
	if first {
		k.Log.Info().Msg("made the key ring of all gateways, and put it into the shared store")
		return blob, nil
	}
	return k.get(ctx)
}

// get asks the store for the ring.
func (k *SharedRing) get(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, sharedRingTimeout)
	defer cancel()
	return k.KV.Get(ctx, nil, []byte(SharedRingKey))
}

// putFirst puts a ring into the store, unless it has one.
func (k *SharedRing) putFirst(ctx context.Context, blob []byte) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, sharedRingTimeout)
	defer cancel()
	return k.KV.Swap(ctx, []byte(SharedRingKey), nil, blob, 0)
}

// MinWrapSecret is the least length of an operator's secret.
const MinWrapSecret = 16

const (
	wrapPrefix  = "antirobot-ring.v1."
	wrapSaltLen = 16
	maxWrapped  = 128 << 10

	// The cost of one guess at the secret. Fixed by the version: a blob from a shared store must not choose it.
	argonTime   = 3
	argonMemory = 64 << 10 // KiB
	argonLanes  = 1
)

// errWrapSecret is returned by Unwrap when the secret does not fit, or the blob was altered.
var errWrapSecret = errors.New("unwrap key ring: the operator's secret does not fit, or the ring was altered")

// Wrap encrypts the ring under an operator's secret, for a shared store: Argon2id and AES-256-GCM. It takes about a
// tenth of a second and 64 MB.
func Wrap(r *Ring, secret []byte) ([]byte, error) {
	if err := checkSecret(secret); err != nil {
		return nil, fmt.Errorf("wrap key ring: %w", err)
	}
	box := make([]byte, wrapSaltLen)
	_, _ = rand.Read(box) // never fails: crypto/rand ends the process instead
	box = wrapAEAD(secret, box).Seal(box, nil, marshalRing(r), []byte(wrapPrefix))
	return append([]byte(wrapPrefix), base64.RawURLEncoding.EncodeToString(box)...), nil
}

func checkSecret(secret []byte) error {
	if len(secret) < MinWrapSecret {
		return fmt.Errorf("the operator's secret has %d bytes, must have %d or more", len(secret), MinWrapSecret)
	}
	return nil
}

// Unwrap reads what Wrap made.
func Unwrap(blob, secret []byte) (*Ring, error) {
	if err := checkSecret(secret); err != nil {
		return nil, fmt.Errorf("unwrap key ring: %w", err)
	}
	text, ok := strings.CutPrefix(string(blob), wrapPrefix)
	box, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if !ok || len(blob) > maxWrapped || err != nil || len(box) < wrapSaltLen {
		return nil, errors.New("unwrap key ring: not a wrapped key ring of this version")
	}
	plain, err := wrapAEAD(secret, box[:wrapSaltLen]).Open(nil, nil, box[wrapSaltLen:], []byte(wrapPrefix))
	if err != nil {
		return nil, errWrapSecret
	}
	r, err := parseRing(plain)
	if err != nil {
		return nil, fmt.Errorf("unwrap key ring: %w", err)
	}
	return r, nil
}

// wrapAEAD picks its nonces itself and puts them before the ciphertext.
func wrapAEAD(secret, salt []byte) cipher.AEAD {
	block, err := aes.NewCipher(argon2.IDKey(secret, salt, argonTime, argonMemory, argonLanes, 32))
	if err != nil {
		panic("BUG: aes: " + err.Error())
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic("BUG: gcm: " + err.Error())
	}
	return aead
}
