// Package client reads what a request says about the client that makes it: which browser, system or library it claims
// to be, whether its fields are those that such a client sends, and where in a site it comes from and goes to.
package client
