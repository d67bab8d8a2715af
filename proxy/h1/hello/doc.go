// Package hello reads what precedes the first request: a balancer's PROXY header, the TLS handshake, its fingerprint
// (JA4), and its round trips.
package hello
