// Package h3 is the front for clients that speak HTTP/3. quic-go carries the connections over UDP and reads and writes the
// frames; package streams makes an h1.Exchange of each request, as it does for HTTP/2.
//
// Invariants, beside those of package streams:
//  1. A connection counts against the limits of its address once its handshake has shown that the address is the client's.
//     Until then it counts as a handshake; when those are many, addresses are asked for a token first.
//  2. A client may change its address within a connection. Each request has the address at which it began, and is judged and
//     counted by; an answer that takes longer follows its client to the next one.
//  3. Requests are never taken from 0-RTT data, which others could replay.
//  4. What a client can make the gateway keep is bounded by Config: streams, windows, small pieces; how often it may take requests back, too.
//  5. Of the heads of a connection few are read at a time, each with a deadline. The others wait unread, within its window.
package h3
