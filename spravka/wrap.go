package spravka

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"
)

// MinWrapSecret is the fewest bytes that an operator's secret must have.
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
	if len(secret) < MinWrapSecret {
		return nil, fmt.Errorf("wrap key ring: the operator's secret has %d bytes, must have %d or more", len(secret), MinWrapSecret)
	}
	box := make([]byte, wrapSaltLen)
	_, _ = rand.Read(box) // never fails: crypto/rand ends the process instead
	box = wrapAEAD(secret, box).Seal(box, nil, marshalRing(r), []byte(wrapPrefix))
	return append([]byte(wrapPrefix), base64.RawURLEncoding.EncodeToString(box)...), nil
}

// Unwrap reads what Wrap made.
func Unwrap(blob, secret []byte) (*Ring, error) {
	if len(secret) < MinWrapSecret {
		return nil, fmt.Errorf("unwrap key ring: the operator's secret has %d bytes, must have %d or more", len(secret), MinWrapSecret)
	}
	text, ok := strings.CutPrefix(string(blob), wrapPrefix)
	if !ok || len(blob) > maxWrapped {
		return nil, errors.New("unwrap key ring: not a wrapped key ring of this version")
	}
	box, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(box) < wrapSaltLen {
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
