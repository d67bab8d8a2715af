// Package identity identifies the client: it decides whose word to take for the address, verifies the cookies and lists
// the Subjects that a request may be judged by.
//
// Invariants:
//  1. An identity that does not verify is not an identity: the next kind is tried, and the address always comes last.
//  2. Nothing here allocates per request once the tokens of a client are in the cache.
package identity
