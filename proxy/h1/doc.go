// Package h1 speaks HTTP/1.x on both sides of the gateway. It hands each request to a Handler, and writes the handler's
// own answer or relays the service's. It knows no verdicts. Package wire parses messages, package hello what precedes
// the first.
//
// Invariants:
// 1. A request that could be read in two ways is refused and its connection closed.
// 2. What is forwarded is written anew from what was parsed: framing is always ours; names and values keep bytes, case
// and order.
// 3. Memory per connection is bounded by Config, whatever the size of bodies. Only ReadBody buffers, up to its limit.
// 4. An answer that was cut short upstream is cut short for the client.
// 5. A pooled upstream connection is reused only after a complete request and answer, with nothing left over.
// 6. Bytes in an Exchange are borrowed until ServeExchange returns.
// 7. One goroutine writes to a client; a second one may read its body meanwhile (upload.go).
package h1
