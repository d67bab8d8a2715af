// Package e2e tests the real binary with real clients: a browser, balancers, a shared store, and malicious programs.
// Everything in it is a test.
package e2e
