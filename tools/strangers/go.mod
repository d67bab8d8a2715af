module antirobot/tools/strangers

go 1.26.0
