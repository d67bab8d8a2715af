package captcha

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"math/big"
	"strings"
	"time"

	"antirobot/identity"
	"antirobot/templates"
)

// A browser has a key pair of its own (WebCrypto, ECDSA P-256), whose private half no script can read. With the answer to a
// challenge it signs the challenge's key, and the pass is then bound to the pair: in another network it is no pass until the
// browser has signed once more. That takes a check of the browser which nobody sees, and gives the same pass for the new
// network as well. Browsers without such keys, or without scripts, get passes that are not bound.

// proofMark precedes a signature at the end of an answer.
const proofMark = "~"

const (
	proofPoint = 64 // bytes of the public key: x and y
	proofSize  = proofPoint + 64
)

// moveFor is how long after its challenge a browser may prove itself.
const moveFor = 2 * time.Minute

// proofLen is the length of a signature in an answer.
var proofLen = base64.RawURLEncoding.EncodedLen(proofSize)

// cutProof separates a signature from the answer around it.
func (p *params) cutProof() {
	rep, rest, ok := strings.Cut(p.rep, proofMark)
	if !ok {
		return
	}
	n := min(len(rest), proofLen)
	p.rep, p.proof = rep+rest[n:], rest[:n]
}

// proofText is what a browser signs: the method and the URL of what it asks for, and the challenge's key, which is good for
// one answer and holds the time.
func (q *Request) proofText(key string) []byte {
	return []byte("antirobot\nPOST\n" + q.Base + q.Service.prefix + "/checkcaptcha\n" + key)
}

// readProof returns the fingerprint of the key pair that signed a challenge's key; zero if none did.
func (q *Request) readProof(key, proof string) (print [16]byte) {
	b, err := base64.RawURLEncoding.DecodeString(proof)
	if err != nil || len(b) != proofSize {
		return print
	}
	point := append([]byte{4}, b[:proofPoint]...) // uncompressed, as SEC 1 has it
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	if err != nil {
		return print
	}
	digest := sha256.Sum256(q.proofText(key))
	r, s := new(big.Int).SetBytes(b[proofPoint:proofPoint+32]), new(big.Int).SetBytes(b[proofPoint+32:])
	if !ecdsa.Verify(public, digest[:], r, s) {
		return print
	}
	sum := sha256.Sum256(point)
	copy(print[:], sum[:])
	return print
}

// bind binds a pass to the browser that has earned it, if that has proved itself and the pass is for one host: on the other
// hosts of a cookie domain a browser has other keys. Both the network of the question and that of the answer are its own.
func (an *answers) bind(q *Request, r *result) {
	if !q.Service.bind || r.pass.Partner != 0 || q.Service.id.CookieDomain(q.View.Host) != "" {
		return
	}
	r.pass.Key = r.print
	r.pass.MoveTo(q.ID.NetKey())
}

// mayMove reports whether a visitor is first asked to prove that a pass from another network is its own. What is asked for
// because of a message or by the service needs an answer, unless the pass was earned by one just now. stay says that the
// browser could not prove it.
func (ak *asks) mayMove(q *Request, reason templates.Reason, least Step, stay bool) bool {
	switch {
	case stay || !q.ID.Away.Keyed() || q.Partner != nil || reason == templates.ReasonMessage:
		return false
	case reason == templates.ReasonService:
		return satisfies(&q.ID.Away, least, ak.now())
	}
	return true
}

// move is a check of the browser that a browser with a key passes by proving itself.
type move struct{ silent }

const moveCode = 6

func (move) code() byte { return moveCode }

// moved gives the visitor the pass that it has brought along for this network as well, if its browser has proved that it is
// the one that earned it. Nothing is earned, and what was paid stays paid. right says that the check of the browser is.
func (an *answers) moved(q *Request, r *result, right bool, at time.Time) {
	p := q.ID.Away
	r.state = stateUnmoved
	if !right || !p.Keyed() || r.print != p.Key || r.took > moveFor {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), an.patience)
	defer cancel()
	if an.spendKey(ctx, q, &r.key, "spend a move") != stateSolved {
		return
	}
	p.MoveTo(identity.NetKey(identity.NetOf(r.key.addr)))
	p.MoveTo(q.ID.NetKey())
	r.pass, r.cookie, r.state = p, an.passCookie(q, &p, at), stateMoved
}
