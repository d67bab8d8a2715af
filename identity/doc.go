// Package identity identifies the client: it decides whose address to believe, verifies the cookies and lists the Subjects that
// a request may be judged by.
//
// Invariants:
//  1. An identity that does not verify is not an identity: the next kind is tried, the address is always the last.
//  2. Nothing here allocates per request once the tokens of a client are in the cache.
package identity
