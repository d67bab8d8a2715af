package cmd

import (
	"io"
	"os"

	"antirobot/terminal"
)

// Colours of a terminal.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
)

var verdictColours = map[string]string{"human": green, "unsure": yellow, "robot": red, "blocked": red}

// coloured reports whether w is a terminal that shows colours: NO_COLOR and a dumb terminal ask for none.
func coloured(w io.Writer) bool {
	f, ok := terminal.File(w)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// paint gives text a colour, if colours are on and there is one.
func paint(on bool, colour, text string) string {
	if !on || colour == "" || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
