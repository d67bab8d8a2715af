//go:build race

package cmd

// raceEnabled: simulated days take minutes under the race detector, so they are short there.
const raceEnabled = true
