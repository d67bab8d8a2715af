package kafka

import (
	"strings"
	"testing"
)

// TestNameOfATopic: a name that brokers would refuse is refused with the configuration.
func TestNameOfATopic(t *testing.T) {
	for name, ok := range map[string]bool{
		"antirobot-events": true, "a.B_9": true, strings.Repeat("a", 249): true,
		strings.Repeat("a", 250): false, "": false, ".": false, "..": false, "a b": false, "ä": false, "a\n": false,
	} {
		c := DefaultConfig()
		c.Topic = name
		if err := c.Validate(); (err == nil || !strings.Contains(err.Error(), "topic:")) != ok {
			t.Errorf("%.20q (%d bytes): %v", name, len(name), err)
		}
	}
}
