// Antirobot is a gateway that sits in front of web services and decides, for every request and before the service
// sees it, whether a human or a robot is asking.
package main

import (
	"os"

	"antirobot/cmd"
)

func main() {
	os.Exit(cmd.Main())
}
