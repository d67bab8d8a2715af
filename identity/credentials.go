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

// An Authorization is an identity once the service has shown that it honours it: it answered 2xx where it refuses those who have
// none. The gateway can't read the credential, so it compares answers:
//
//  1. A request without Authorization is refused with 401 or 403, and its path gives no such request a 2xx.
//  2. A request with one is answered 2xx within a day. It is the same but for its Authorization: method, host, path, query, and
//     every field that may be a credential as well, cookies included. After a 403, which services also give for an address, an
//     agent or a pace, all fields are the same.
//  3. The Authorization is one that its client sends again: Basic, Bearer, Token or ApiKey. Those of Digest and of signatures
//     are new with each request.
//
// So an Authorization that somebody invents is none, wherever the service ignores it. What is kept of a credential is a hash with
// the gateways' key. A 401 takes it back; without a 2xx it lapses within a week. One that is in use in many networks is no one's:
// its clients are judged by their addresses.

const (
	refusalsLast  = 24 * 60 * 60     // seconds for which a refusal, or a 2xx for strangers, tells what a path is
	honouredLast  = 7 * 24 * 60 * 60 // seconds after the last 2xx for which a credential is an identity
	honouredFresh = 60 * 60          // seconds after which it may give way to another one
	honouredTold  = 60               // seconds between two notes of the same

	credentialSets   = 1024 // of credentialWays each
	credentialWays   = 4
	credentialsOfNet = 32 // credentials that were first honoured in one /24 or /48
	networksOfOne    = 8  // networks in which one is in use within a day
)

// credentials are those that services honour. Look-ups take no lock. Safe for concurrent use.
type credentials struct {
	keys [2]request.HashKey // of the halves of an ID
	seed maphash.Seed       // of what is remembered of refusals

	refused  atomic.Bool // there has been a refusal
	refusals [credentialSets][credentialWays]refusal
	honoured atomic.Int64 // how many there are
	table    [credentialSets][credentialWays]atomic.Pointer[credential]
	mu       sync.Mutex // held to change a table
}

// refusal is when requests of a kind without Authorization were last refused, and when last answered 2xx: unix seconds.
type refusal struct {
	key atomic.Uint64
	at  atomic.Int64
	ok  atomic.Int64
}

// credential is one that a service honours.
type credential struct {
	id   [16]byte
	home uint64 // the network in which it was first honoured

	last   atomic.Int64  // when it was last answered 2xx; unix seconds
	where  atomic.Uint64 // in which network
	shared atomic.Int64  // until when it is no one's; unix seconds

	since int64 // what follows is of the day from here; under credentials.mu
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

// authorization returns the credential of a request: its token and which scheme it is of. It is nil if there is none that its
// client would send again, or more than one; has says that there is any.
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

// id returns the ID of a credential's subject at a service.
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

// authorized adds the subject of a request's Authorization, if its service honours it.
func (r *Resolver) authorized(id *Identity, v *request.View, s *CookieSettings, at int64) {
	scheme, token, _ := authorization(v)
	if len(token) == 0 {
		return
	}
	sub := Subject{Kind: KindAuth, ID: r.credentials.id(s.service, scheme, token)}
	if k := r.credentials.find(&sub.ID); k != nil && at-k.last.Load() < honouredLast && at >= k.shared.Load() {
		id.add(sub)
	}
}

// Answered takes what the service answered to a request, whose head it has as it came: which credentials it honours shows in its
// answers. drop reports which of the client's fields the service does not get.
func (r *Resolver) Answered(v *request.View, s *CookieSettings, status int, drop func(name []byte) bool) {
	c := r.credentials
	refused, ok := status == 401 || status == 403, status >= 200 && status < 300
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
		c.refuse(c.requestOf(v, s, drop, status == 403), at)
	case len(token) == 0:
	case status == 401:
		c.takeBack(c.id(s.service, scheme, token))
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

// compared reports whether a request is one whose answers tell credentials: a form or a call may bring another one in its body.
func compared(v *request.View) bool {
	switch string(v.Method) {
	case "GET", "HEAD":
		return !v.Body
	case "PROPFIND": // its body names properties
		return true
	}
	return false
}

// proved reports whether a request, were it without its Authorization, would have been refused.
func (c *credentials) proved(v *request.View, s *CookieSettings, drop func([]byte) bool, at int64) bool {
	fresh := func(t int64) bool { return at-t < refusalsLast }
	if !compared(v) {
		return false
	}
	path := c.refusal(c.pathOf(v, s))
	if path == nil || !fresh(path.at.Load()) || fresh(path.ok.Load()) {
		return false
	}
	for _, whole := range [...]bool{false, true} {
		if x := c.refusal(c.requestOf(v, s, drop, whole)); x != nil && fresh(x.at.Load()) {
			return true
		}
	}
	return false
}

// pathOf is the key of a path with its method.
func (c *credentials) pathOf(v *request.View, s *CookieSettings) uint64 {
	return c.hash('p', s.service, v.Method, v.Host, v.Path)
}

// requestOf is the key of a request without its Authorization; whole says that all of its fields count, and not only those that may be
// credentials. The order of fields does not matter.
func (c *credentials) requestOf(v *request.View, s *CookieSettings, drop func([]byte) bool, whole bool) uint64 {
	kind := byte('c')
	if whole {
		kind = 'w'
	}
	key := c.hash(kind, s.service, v.Method, v.Host, v.Target) + c.hash('t', 0, v.Client)
	for i := range v.Fields {
		f := &v.Fields[i]
		switch {
		case request.EqualFold(f.Name, nameAuthorization), request.EqualFold(f.Name, "Host"), request.EqualFold(f.Name, "Cookie"), drop(f.Name):
		case whole || !harmless(f.Name):
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

// hash is that of a key's parts; no two lists of parts have the same text.
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
	"User-Agent", "Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Cache-Control", "Pragma", "Connection", "Keep-Alive", "TE",
	"Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "Depth", "Translate", "Content-Length",
	"Content-Type", "Git-Protocol", "DNT", "Priority", "Upgrade-Insecure-Requests", "Traceparent", "Tracestate", "Via",
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

// refuse notes a refusal, in place of the oldest of its set.
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
	x.ok.Store(-refusalsLast)
	x.key.Store(key)
	c.refused.Store(true)
}

// honour notes a 2xx for a credential; k is nil for a new one.
func (c *credentials) honour(k *credential, id [16]byte, net uint64, at int64) {
	if k != nil && k.where.Load() == net && at-k.last.Load() < honouredTold {
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

// seen counts the networks in which a credential is in use. The caller holds the lock.
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

// place finds room for a new credential: that of one which was not used lately, of the same network if that has many. The caller
// holds the lock.
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
		if at-stale.Load().last.Load() < honouredFresh {
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
	if at-place.Load().last.Load() < honouredFresh {
		return nil
	}
	return place
}

// takeBack forgets a credential that its service refuses.
func (c *credentials) takeBack(id [16]byte) {
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
