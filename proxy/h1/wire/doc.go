// Package wire is the grammar of HTTP/1 messages: it reads heads and chunked bodies, refuses whatever two parsers could read
// differently, and says what the fields of a head mean for a connection. It knows no connection, no limit of its own and no
// configuration: a Source brings the bytes, and the caller says how many there may be. Who looks for a way to smuggle a request
// past the gateway need read no other package, and package h1 for how what was read is written anew.
//
// A Head, and whatever is sliced from it, borrows the bytes in Raw: they are valid until the next head is read into it. Nothing here
// is safe for concurrent use, nor allocates once the buffers of a Head have grown.
package wire
