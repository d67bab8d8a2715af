// Package demo is laid out next.
package demo
