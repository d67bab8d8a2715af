// Package spoe answers HAProxy's Stream Processing Offload Engine: HAProxy sends the head of each request in a frame of its
// own protocol (SPOP 2.0), and gets back variables for its rules. What is asked and answered is that of a check with X-Forwarded
// fields (package proxy, style verdict), without HTTP in between. The protocol is described in HAProxy's doc/SPOE.txt.
package spoe
