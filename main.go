// Antirobot is a gateway that stands in front of web services and decides, for every request and before the service
// sees it, whether a human or a robot is asking.
package main

import (
	"fmt"
	"os"
)

// version is set by the build.
var version = "dev"

func main() {
	if err := rootCommand().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "antirobot: "+err.Error())
		os.Exit(1)
	}
}
