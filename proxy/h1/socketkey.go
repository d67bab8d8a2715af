package h1

import (
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"fmt"

	"antirobot/proxy/h1/wire"
	"antirobot/request"
)

// socketKey is the WebSocket key for a client without one, as over HTTP/2, and the proof that a service read it (RFC
// 6455 section 4.2.2).
type socketKey struct {
	key    [24]byte
	accept [28]byte
}

const (
	socketKeyName    = "sec-websocket-key"
	socketAcceptName = "sec-websocket-accept"
	socketGUID       = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
)

func (k *socketKey) make(h *wire.Head) {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	base64.StdEncoding.Encode(k.key[:], random[:])
	sum := sha1.Sum(append(k.key[:], socketGUID...))
	base64.StdEncoding.Encode(k.accept[:], sum[:])

	h.Upgrade, h.UpgradeNum, h.UpgradeTo = true, 1, []byte("websocket")
	h.Accept = k.accept[:]
	h.Fields = append(h.Fields, request.Field{Name: []byte("upgrade"), Value: h.UpgradeTo},
		request.Field{Name: []byte(socketKeyName), Value: k.key[:]})
	h.Kinds = append(h.Kinds, wire.Upgrade, wire.Plain)
}

// accepts checks the answer to a WebSocket request with the gateway's key.
func accepts(h, answer *wire.Head) error {
	if h.Accept == nil {
		return nil
	}
	if answer.Status != 101 {
		if answer.Status < 300 {
			return fmt.Errorf("%w: %d instead of a WebSocket", wire.ErrBadResponse, answer.Status)
		}
		return nil
	}
	for i := range answer.Fields {
		if f := &answer.Fields[i]; request.EqualFold(f.Name, socketAcceptName) && string(f.Value) == string(h.Accept) {
			return nil
		}
	}
	return fmt.Errorf("%w: a WebSocket without the key's proof", wire.ErrBadResponse)
}
