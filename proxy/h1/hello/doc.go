// Package hello reads what a connection says before its first request, and measures what it does not say: the PROXY header of a
// balancer, the TLS handshake with the gateway's certificates, the fingerprint of the client's software (JA4), and whether the
// client is further away than the end of its connection. It knows connections and nothing of HTTP.
package hello
