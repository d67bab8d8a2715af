// Package cbb is laid out next.
package cbb
