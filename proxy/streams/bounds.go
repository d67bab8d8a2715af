package streams

import (
	"fmt"

	"antirobot/proxy/h1"
)

// HeaderRoom is the limit of a head for the libraries, which count 32 bytes more for each field. It exceeds c's, so
// that a head slightly too large gets the gateway's answer, which says why.
func HeaderRoom(c *h1.Config) int {
	return int(c.MaxHeaderBytes+c.MaxHeaderBytes/4) + 32*c.MaxHeaderFields
}

// ValidMost checks the number of concurrent streams.
func ValidMost(streams int) error {
	if streams < 1 || streams > 10_000 {
		return fmt.Errorf("max_streams: %d is not within 1 and 10000", streams)
	}
	return nil
}
