package identity

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/request"
)

// An Authorization is an identity once the service has shown that it honours it. The gateway can't verify a
// credential, so it compares the service's responses:
//
//   1. A request without Authorization was refused with 401, and no such request to its path was answered 2xx. A 403
//      proves nothing: services give it for an address, an agent or a pace, too.
//   2. Within a day, a request with one is answered 2xx. Otherwise the two are equal: method, host, path, query, and
//      every field that could be a credential itself, cookies included.
//   3. The scheme sends the same value again: Basic, Bearer, Token or ApiKey. Digest and signatures do not.
//
// So an invented Authorization is no identity where the service ignores it. Only a keyed hash is kept. A 401 revokes
// the identity, and it expires a week after the last 2xx. A credential that is used from many networks does not
// identify one client: these are judged by their addresses.

const (
	refusalTTL     = 24 * 60 * 60     // seconds for which a refusal, or a 2xx without Authorization, counts
	credentialTTL  = 7 * 24 * 60 * 60 // seconds after the last 2xx
	credentialIdle = 60 * 60          // seconds after the last 2xx from which a credential may be evicted
	credentialNote = 60               // seconds between two updates of the last 2xx

	credentialSets   = 1024 // of credentialWays each
	credentialWays   = 4
	credentialsOfNet = 32 // credentials that were first honoured in one /24 or /48
	networksOfOne    = 8  // networks from which one client uses a credential within a day
)

// credentials are those that services honour. Look-ups take no lock. Safe for concurrent use.
type credentials struct {
	keys [2]request.HashKey // of the halves of an ID
	seed maphash.Seed       // of the keys of refusals

	refused  atomic.Bool // there was a refusal
	refusals [credentialSets][credentialWays]refusal
	honoured atomic.Int64 // credentials in the table
	table    [credentialSets][credentialWays]atomic.Pointer[credential]
	mu       sync.Mutex // held to change a table
}

// refusal is when requests of a kind without Authorization were last refused, and last answered 2xx, in unix seconds.
type refusal struct {
	key atomic.Uint64
	at  atomic.Int64
	ok  atomic.Int64
}

type credential struct {
	id   [16]byte
	home uint64 // the network in which it was first honoured

	last   atomic.Int64  // the last 2xx; unix seconds
	where  atomic.Uint64 // the network of the last 2xx
	shared atomic.Int64  // until when it does not identify one client; unix seconds

	since int64 // start of the day whose networks follow; guarded by credentials.mu
	nets  [networksOfOne]uint64
	n     int
}

func newCredentials(key request.HashKey) *credentials {
	c := &credentials{seed: maphash.MakeSeed()}
	for i := range c.keys {
		label := []byte("authorization/0")
		label[len(label)-1] += byte(i)
		c.keys[i] = request.HashKey{key.Sum(label), key.Sum(append(label, "/2"...))}
	}
	return c
}

// authorization returns the scheme and the token of a request's credential. The token is nil if there are several, or
// if its value changes with each request.
func authorization(v *request.View) (scheme byte, token []byte, has bool) {
	var value []byte
	for i := range v.Fields {
		if f := &v.Fields[i]; len(f.Name) == len(nameAuthorization) && request.EqualFold(f.Name, nameAuthorization) {
			if has {
				return 0, nil, true
			}
			value, has = f.Value, true
		}
	}
	name, token, ok := bytes.Cut(value, []byte{' '})
	if !ok {
		return 0, nil, has
	}
	for i, s := range authSchemes {
		if request.EqualFold(name, s) {
			return byte(i), bytes.TrimSpace(token), has
		}
	}
	return 0, nil, has
}

const nameAuthorization = "Authorization"

var authSchemes = [...]string{"Basic", "Bearer", "Token", "ApiKey"}

func (c *credentials) id(service uint64, scheme byte, token []byte) (id [16]byte) {
	var b [25]byte
	b[0] = scheme
	binary.LittleEndian.PutUint64(b[1:], service)
	binary.LittleEndian.PutUint64(b[9:], c.keys[0].Sum(token))
	binary.LittleEndian.PutUint64(b[17:], c.keys[1].Sum(token))
	binary.LittleEndian.PutUint64(id[:], c.keys[0].Sum(b[:]))
	binary.LittleEndian.PutUint64(id[8:], c.keys[1].Sum(b[:]))
	return id
}

func (c *credentials) find(id *[16]byte) *credential {
	set := &c.table[binary.LittleEndian.Uint64(id[:])%credentialSets]
	for i := range set {
		if k := set[i].Load(); k != nil && k.id == *id {
			return k
		}
	}
	return nil
}

func (r *Resolver) authorized(id *Identity, v *request.View, s *CookieSettings, at int64) {
	scheme, token, _ := authorization(v)
	if len(token) == 0 {
		return
	}
	sub := Subject{Kind: KindAuth, ID: r.credentials.id(s.service, scheme, token)}
	if k := r.credentials.find(&sub.ID); k != nil && at-k.last.Load() < credentialTTL && at >= k.shared.Load() {
		id.add(sub)
	}
}

// Answered learns from the service's status which credentials it honours. drop reports the client's fields that the
// service does not get.
func (r *Resolver) Answered(v *request.View, s *CookieSettings, status int, drop func(name []byte) bool) {
	c := r.credentials
	refused, ok := status == 401, status >= 200 && status < 300
	if !refused && (!ok || !c.refused.Load()) {
		return
	}
	scheme, token, has := authorization(v)
	at := r.at(v).Unix()
	switch {
	case !has && compared(v):
		path := c.pathOf(v, s)
		if ok {
			if x := c.refusal(path); x != nil {
				x.ok.Store(at)
			}
			return
		}
		c.refuse(path, at)
		c.refuse(c.requestOf(v, s, drop), at)
	case len(token) == 0:
	case status == 401:
		c.revoke(c.id(s.service, scheme, token))
	case ok:
		id := c.id(s.service, scheme, token)
		k := c.find(&id)
		if k == nil && !c.proved(v, s, drop, at) {
			return
		}
		addr, _ := r.trust.Load().client(v)
		c.honour(k, id, NetKey(NetOf(addr)), at)
	}
}

// compared reports whether responses to such a request are compared. Any other body could be a credential itself.
func compared(v *request.View) bool {
	switch string(v.Method) {
	case "GET", "HEAD":
		return !v.Body
	case "PROPFIND": // its body names properties
		return true
	}
	return false
}

// proved reports whether the request without its Authorization was refused.
func (c *credentials) proved(v *request.View, s *CookieSettings, drop func([]byte) bool, at int64) bool {
	fresh := func(t int64) bool { return at-t < refusalTTL }
	if !compared(v) {
		return false
	}
	path := c.refusal(c.pathOf(v, s))
	if path == nil || !fresh(path.at.Load()) || fresh(path.ok.Load()) {
		return false
	}
	x := c.refusal(c.requestOf(v, s, drop))
	return x != nil && fresh(x.at.Load())
}

func (c *credentials) pathOf(v *request.View, s *CookieSettings) uint64 {
	return c.hash('p', s.service, v.Method, v.Host, v.Path)
}

// requestOf is the key of a request without its Authorization and harmless fields, in any order.
func (c *credentials) requestOf(v *request.View, s *CookieSettings, drop func([]byte) bool) uint64 {
	key := c.hash('c', s.service, v.Method, v.Host, v.Target) + c.hash('t', 0, v.Client)
	for i := range v.Fields {
		f := &v.Fields[i]
		switch {
		case request.EqualFold(f.Name, nameAuthorization), request.EqualFold(f.Name, "Host"),
			request.EqualFold(f.Name, "Cookie"), drop(f.Name):
		case !harmless(f.Name):
			key += c.hash('f', 0, f.Name, f.Value)
		}
	}
	for k := v.Cookies(); k.Next(); {
		if !s.own(k.Name) {
			key += c.hash('k', 0, k.Name, k.Value)
		}
	}
	return max(key, 1)
}

func (c *credentials) hash(kind byte, n uint64, parts ...[]byte) uint64 {
	var h maphash.Hash
	h.SetSeed(c.seed)
	var b [9]byte
	b[0] = kind
	binary.LittleEndian.PutUint64(b[1:], n)
	_, _ = h.Write(b[:])
	for _, p := range parts {
		binary.LittleEndian.PutUint64(b[1:], uint64(len(p)))
		_, _ = h.Write(b[1:])
		_, _ = h.Write(p)
	}
	return max(h.Sum64(), 1)
}

// harmless reports whether no service takes a field for a credential.
func harmless(name []byte) bool {
	if request.HasPrefixFold(name, "sec-fetch-") || request.HasPrefixFold(name, "sec-ch-") {
		return true
	}
	for _, s := range harmlessFields {
		if len(name) == len(s) && request.EqualFold(name, s) {
			return true
		}
	}
	return false
}

var harmlessFields = [...]string{
	"User-Agent", "Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Cache-Control", "Pragma",
	"Connection", "Keep-Alive", "TE", "Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since",
	"If-Unmodified-Since", "Depth", "Translate", "Content-Length", "Content-Type", "Git-Protocol", "DNT",
	"Priority", "Upgrade-Insecure-Requests", "Traceparent", "Tracestate", "Via",
}

func (c *credentials) refusal(key uint64) *refusal {
	set := &c.refusals[key%credentialSets]
	for i := range set {
		if set[i].key.Load() == key {
			return &set[i]
		}
	}
	return nil
}

// refuse records a refusal. It evicts the oldest of a full set.
func (c *credentials) refuse(key uint64, at int64) {
	if x := c.refusal(key); x != nil {
		x.at.Store(at)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	set := &c.refusals[key%credentialSets]
	x := &set[0]
	for i := range set[1:] {
		if y := &set[1+i]; y.at.Load() < x.at.Load() {
			x = y
		}
	}
	x.key.Store(0)
	x.at.Store(at)
	x.ok.Store(-refusalTTL)
	x.key.Store(key)
	c.refused.Store(true)
}

func (c *credentials) honour(k *credential, id [16]byte, net uint64, at int64) {
	if k != nil && k.where.Load() == net && at-k.last.Load() < credentialNote {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k == nil {
		place := c.place(&id, net, at)
		if place == nil {
			return
		}
		if place.Load() == nil {
			c.honoured.Add(1)
		}
		k = &credential{id: id, home: net, since: at}
		place.Store(k)
	}
	k.last.Store(at)
	k.where.Store(net)
	k.seen(net, at)
}

// seen counts the networks from which a credential is used. The caller holds the lock.
func (k *credential) seen(net uint64, at int64) {
	if at-k.since >= int64(day/time.Second) {
		k.since, k.n = at, 0
	}
	for _, known := range k.nets[:k.n] {
		if known == net {
			return
		}
	}
	if k.n == len(k.nets) {
		k.shared.Store(at + int64(day/time.Second))
		return
	}
	k.nets[k.n] = net
	k.n++
}

// place returns the place of a new credential, or nil. It evicts idle ones only, and one of the same network if that
// has too many. The caller holds the lock.
func (c *credentials) place(id *[16]byte, net uint64, at int64) *atomic.Pointer[credential] {
	var stale *atomic.Pointer[credential]
	of := 0
	for i := range c.table {
		for j := range c.table[i] {
			if k := c.table[i][j].Load(); k != nil && k.home == net {
				of++
				if stale == nil || k.last.Load() < stale.Load().last.Load() {
					stale = &c.table[i][j]
				}
			}
		}
	}
	if of >= credentialsOfNet {
		if at-stale.Load().last.Load() < credentialIdle {
			return nil
		}
		stale.Store(nil)
		c.honoured.Add(-1)
	}
	var place *atomic.Pointer[credential]
	set := &c.table[binary.LittleEndian.Uint64(id[:])%credentialSets]
	for i := range set {
		k := set[i].Load()
		if k == nil || k.id == *id {
			return &set[i]
		}
		if place == nil || k.last.Load() < place.Load().last.Load() {
			place = &set[i]
		}
	}
	if at-place.Load().last.Load() < credentialIdle {
		return nil
	}
	return place
}

func (c *credentials) revoke(id [16]byte) {
	if c.honoured.Load() == 0 || c.find(&id) == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	set := &c.table[binary.LittleEndian.Uint64(id[:])%credentialSets]
	for i := range set {
		if k := set[i].Load(); k != nil && k.id == id {
			set[i].Store(nil)
			c.honoured.Add(-1)
		}
	}
}
