//go:build race

package cbb

const raceEnabled = true
