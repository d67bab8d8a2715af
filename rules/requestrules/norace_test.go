//go:build !race

package requestrules

const raceEnabled = false
