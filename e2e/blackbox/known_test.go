package blackbox

// nginxFails lists what nginx 1.22 fails although it is configured with care.
var nginxFails = map[string]bool{}
