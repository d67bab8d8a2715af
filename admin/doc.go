// Package admin is laid out next.
package admin
