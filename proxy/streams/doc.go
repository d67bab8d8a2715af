// Package streams makes an h1.Exchange of a net/http request: the common part of the fronts for HTTP/2 and HTTP/3.
//
// Invariants:
// 1. What goes to the service is written from what h1 has checked; anything that HTTP/1.1 could read differently is
// refused.
// 2. Each request has its own goroutine; none blocks another.
// 3. An answer that was cut short upstream ends with a reset.
// 4. The libraries lose the order of fields: View.HTTP2 says so, and they are sorted.
package streams
