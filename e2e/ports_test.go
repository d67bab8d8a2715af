package e2e

import (
	"testing"

	"antirobot/servertest"
)

var ports = servertest.NewPorts(31000, 900) // the next ones are for package blackbox

// freePort returns an address on loopback where nobody listens.
func freePort(t testing.TB) string {
	t.Helper()
	return ports.Addr(t)
}
