// Package h2 is the front for HTTP/2. golang.org/x/net/http2 handles frames; package streams makes an h1.Exchange of
// each stream.
//
// Invariants, in addition to those of package streams:
// 1. Config bounds what a client can make the gateway keep: streams, windows, frames without payload.
// 2. Every reset stream is counted, whoever resets it.
package h2
