package h1

import (
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // RFC 6455 wants it; it protects nothing
	"encoding/base64"
	"fmt"

	"antirobot/request"
)

// socketKey is the key of a WebSocket that its client asked for without one, as over HTTP/2, and what a service that has
// read it says (RFC 6455 section 4.2.2).
type socketKey struct {
	key    [24]byte
	accept [28]byte
}

const (
	socketKeyName    = "sec-websocket-key"
	socketAcceptName = "sec-websocket-accept"
	socketGUID       = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
)

// make turns a GET into the request of a WebSocket over HTTP/1.1.
func (k *socketKey) make(h *head) {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	base64.StdEncoding.Encode(k.key[:], random[:])
	sum := sha1.Sum(append(k.key[:], socketGUID...)) //nolint:gosec // see above
	base64.StdEncoding.Encode(k.accept[:], sum[:])

	h.upgrade, h.upgradeNum, h.upgradeTo = true, 1, []byte("websocket")
	h.accept = k.accept[:]
	h.fields = append(h.fields, request.Field{Name: []byte("upgrade"), Value: h.upgradeTo}, request.Field{Name: []byte(socketKeyName), Value: k.key[:]})
	h.kinds = append(h.kinds, kUpgrade, plain)
}

// accepts checks an answer to the request of a WebSocket whose key was the gateway's.
func (h *head) accepts(answer *head) error {
	if h.accept == nil {
		return nil
	}
	if answer.status != 101 {
		if answer.status < 300 {
			return fmt.Errorf("%w: %d instead of a WebSocket", errBadResponse, answer.status)
		}
		return nil
	}
	for i := range answer.fields {
		if f := &answer.fields[i]; request.EqualFold(f.Name, socketAcceptName) && string(f.Value) == string(h.accept) {
			return nil
		}
	}
	return fmt.Errorf("%w: a WebSocket without the key's proof", errBadResponse)
}
