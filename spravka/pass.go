package spravka

// Pass is what a spravka says: a subject of its own with a guaranteed allowance. It is a plain value.
type Pass struct {
	ID        [16]byte
	Born      int64  // unix seconds
	Expires   int64  // unix seconds
	Allowance uint32 // requests that it pays for in all; the ledger counts what was spent
	Earned    bool   // false: handed out fresh to an XML partner's user; no allowance, no subject until a day old
	Scope     uint64 // hash of the cookie domain, or host, that it is valid for; see ScopeOf
	Partner   uint64 // hash of the XML partner that it was made for, 0: none
	Net       uint64 // hash of the /24 or /48 that solved
	Agent     uint64 // hash of the user-agent family that solved
}
