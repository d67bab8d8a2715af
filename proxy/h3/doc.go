// Package h3 is the front for HTTP/3. quic-go handles connections and frames; package streams makes an h1.Exchange of
// each request.
//
// Invariants, in addition to those of package streams:
// 1. A connection counts against its address once the handshake has validated it. With many handshakes, addresses are
// validated first (Retry).
// 2. Each request has the address at which it began, also after a migration.
// 3. Requests in 0-RTT data, which others could replay, are never accepted.
// 4. Config bounds what a client can make the gateway keep, and how often it may reset requests.
// 5. Few heads of a connection are read at a time, each with a deadline.
package h3
