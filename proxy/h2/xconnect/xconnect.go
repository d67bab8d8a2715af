// Package xconnect makes golang.org/x/net/http2 offer extended CONNECT, by which WebSockets come over HTTP/2 (RFC 8441).
// The library has no setting for it: it reads the environment variable GODEBUG while it is initialized. Packages without
// a dependency between them are initialized in the order of their paths, so this one sets the variable before the
// library looks. GODEBUG=http2xconnect=0 in the gateway's environment leaves it off.
package xconnect

import (
	"os"
	"strings"
)

var _ = offer()

func offer() error {
	const variable, setting = "GODEBUG", "http2xconnect="
	before := os.Getenv(variable)
	if strings.Contains(before, setting) {
		return nil
	}
	if before != "" {
		before += ","
	}
	return os.Setenv(variable, before+setting+"1")
}
