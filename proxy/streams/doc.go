// Package streams makes an h1.Exchange of a request that a library hands over as net/http's handlers get it: what the
// fronts for HTTP/2 and for HTTP/3 have in common. The journey of such a request and the way to the service are those of
// HTTP/1.
//
// Invariants:
//  1. What goes to the service is written from what h1 has checked: a name, value, target, host or length that HTTP/1.1
//     could read differently is refused, and so are the fields that belong to a connection.
//  2. Each request has its own goroutine. One that waits for its client or its service blocks no other.
//  3. An answer that was cut short upstream ends with a reset, never cleanly.
//  4. The libraries lose the order of a request's fields: View.HTTP2 says so, and they are sorted.
package streams
