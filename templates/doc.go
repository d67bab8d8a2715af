// Package templates is laid out next.
package templates
