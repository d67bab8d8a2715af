// Antirobot is a gateway that stands in front of web services and decides whether a human or a robot is asking.
package main

func main() {}
