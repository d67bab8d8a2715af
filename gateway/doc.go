// Package gateway is the running gateway: it puts the parts together, opens the listeners, reloads and drains. It
// decides nothing itself.
package gateway
