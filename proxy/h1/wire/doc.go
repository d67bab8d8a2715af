// Package wire is the grammar of HTTP/1 messages: it parses heads and chunked bodies, and refuses whatever two parsers
// could read differently. A Source brings the bytes; the caller sets the limits. Request smuggling is prevented here,
// and by writing anew in h1.
//
// A Head, and whatever is sliced from it, borrows Raw until the next head is read into it. Nothing is safe for
// concurrent use, or allocates
// once the buffers of a Head have grown.
package wire
