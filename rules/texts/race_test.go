//go:build race

package texts

const raceEnabled = true
