// Package h2 is the front for clients that speak HTTP/2. golang.org/x/net/http2 reads and writes the frames; package streams
// makes an h1.Exchange of each stream, so that the journey of a request and the way to the service are those of HTTP/1.
//
// Invariants, beside those of package streams:
//  1. What a client can make the gateway keep is bounded by Config: streams, windows, frames without payload.
//  2. A request that is taken back is counted, whoever resets its stream.
package h2
