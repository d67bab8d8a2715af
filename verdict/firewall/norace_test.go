//go:build !race

package firewall

const raceEnabled = false
