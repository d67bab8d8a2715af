// Package h1 speaks HTTP/1.x on both sides of the gateway: it reads requests from clients, hands each to a Handler, and
// writes the handler's own answer or relays the service's. It knows bytes and connections, and nothing of verdicts. What
// the text of a message says is read in package wire, what comes before the first message in package hello.
//
// Invariants:
//  1. A request that could be read in two ways is never forwarded: it is refused and its connection closed, because
//     it is no longer certain where the next request begins.
//  2. What is forwarded is written anew from what was parsed: framing (Content-Length, Transfer-Encoding, chunk sizes)
//     is always ours; names and values keep their bytes, case and order.
//  3. Memory per connection is bounded by the limits of Config, whatever the size of the bodies. Only ReadBody buffers,
//     up to the limit that it is given.
//  4. An answer that was cut short upstream is cut short for the client, never ended cleanly.
//  5. A pooled upstream connection is reused only after a complete request and a complete answer, with nothing left over.
//  6. All bytes in an Exchange are borrowed from the connection and valid until ServeExchange returns.
//  7. One goroutine writes to a client; a second one may read its body while the answer is being sent (upload.go).
package h1
