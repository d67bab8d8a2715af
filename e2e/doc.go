// Package e2e tests the real binary with real clients: a browser, balancers, a shared store, and programs that mean harm.
// Everything in it is a test.
package e2e
