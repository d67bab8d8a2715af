// Package xconnect makes golang.org/x/net/http2 offer extended CONNECT for WebSockets (RFC 8441), which it reads from
// GODEBUG when it is initialized. Packages are initialized in the order of their paths, so this one is first.
// GODEBUG=http2xconnect=0 turns it off.
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
