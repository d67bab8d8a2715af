// Package h2 is the front for clients that speak HTTP/2. golang.org/x/net/http2 reads and writes the frames; this package
// makes an h1.Exchange of each stream, so that the journey of a request and the way to the service are those of HTTP/1.
//
// Invariants:
//  1. What goes to the service is written from what h1 has checked: a name, value, target, host or length that HTTP/1.1
//     could read differently is refused, and so are the fields that belong to a connection.
//  2. Each stream has its own goroutine. One that waits for its client or its service blocks no other.
//  3. What a client can make the gateway keep is bounded by Config: streams, windows, frames without payload.
//  4. An answer that was cut short upstream ends with a reset, never cleanly.
//  5. http2.Server loses the order of a request's fields: View.HTTP2 says so, and they are sorted.
package h2
