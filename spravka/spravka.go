// Package spravka holds the key ring and makes every seal of the gateway: the pass (spravka), the i cookie, captcha
// keys, signed return URLs, sealed requests. It also signs and checks the cookies that services make themselves.
//
// Invariants:
//  1. Every seal names its purpose, and a seal of one purpose never opens as another.
//  2. Every seal carries its own expiry, chosen by us.
//  3. Rotation adds a key; tokens of older keys open until those keys are removed.
//  4. A token has one spelling: what opens is byte for byte what Seal returned, so a token may be the key under which
//     a spent answer is remembered.
//  5. Tokens consist of [A-Za-z0-9_.-] and need no escaping in a cookie, a query or a form field.
//  6. Secrets are never printed: Key and Ring format as their IDs, whatever the verb.
//
// A token is "KEYID.BODY". BODY is securecookie's encoding of expiry and payload under a subkey of the key that KEYID
// names (HKDF-SHA256, one subkey per purpose and kind of seal), without the padding.
package spravka

import (
	"errors"
	"fmt"
)

// Reasons why a token does not open; tell them apart with errors.Is.
var (
	// ErrMalformed: the bytes are not a token, or are longer than any token of this purpose.
	ErrMalformed = errors.New("malformed token")
	// ErrSeal: the seal is not ours, has another purpose or context, was altered, or its key is gone.
	ErrSeal = errors.New("seal does not fit")
	// ErrKey is the ErrSeal of a token whose key is not in the ring: it may be gone, or be another installation's.
	ErrKey = fmt.Errorf("%w: its key is not known", ErrSeal)
	// ErrExpired: the seal is ours, but has expired.
	ErrExpired = errors.New("token expired")
)

// Purpose is what a seal is for. Each purpose has its own subkeys.
type Purpose uint8

// The purposes. Their names go into the key derivation: never rename one that is in use.
const (
	PurposePass        Purpose = iota // the spravka, earned or handed out fresh
	PurposeICookie                    // the gateway's own browser cookie
	PurposeCaptcha                    // captcha keys
	PurposeRetpath                    // signed return URLs
	PurposeSaved                      // a challenged request that continues after the right answer
	PurposeForm                       // tokens in the gateway's own forms
	PurposeGrant                      // leave for a message whose sender solved a captcha
	PurposeCertificate                // what ACME keeps in the store: certificates with their keys
	PurposeEvidence                   // what a page says of its browser, once
	PurposeQueue                      // messages that wait for a person, in the store
	PurposeGateway                    // what gateways tell and ask each other
	numPurposes
)

// String returns the name of the purpose that the key derivation uses.
func (p Purpose) String() string {
	switch p {
	case PurposePass:
		return "pass"
	case PurposeICookie:
		return "icookie"
	case PurposeCaptcha:
		return "captcha"
	case PurposeRetpath:
		return "retpath"
	case PurposeSaved:
		return "saved"
	case PurposeForm:
		return "form"
	case PurposeGrant:
		return "grant"
	case PurposeCertificate:
		return "certificate"
	case PurposeEvidence:
		return "evidence"
	case PurposeQueue:
		return "queue"
	case PurposeGateway:
		return "gateway"
	default:
		return "unknown"
	}
}

// maxPayload is the longest payload, in bytes, of which a token of this purpose still opens. Seal takes more, but the
// token is then refused as malformed: callers bound what a client may make them seal.
func (p Purpose) maxPayload() int {
	switch p {
	case PurposePass, PurposeICookie:
		return 256
	case PurposeSaved, PurposeCertificate:
		return 256 << 10
	case PurposeQueue:
		return 4 << 20
	default:
		return 16 << 10
	}
}

// maxToken bounds what Open looks at: two layers of base64 around the payload, and room for the rest.
func (p Purpose) maxToken() int {
	return p.maxPayload()*16/9 + 256
}
