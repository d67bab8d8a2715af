//go:build !race

package cbb

const raceEnabled = false
