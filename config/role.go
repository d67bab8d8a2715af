package config

import (
	"errors"
	"fmt"
)

// The roles of a process.
const (
	RoleAll       = "all"       // decides and judges: one process does everything
	RoleGateway   = "gateway"   // decides; processors judge its events
	RoleProcessor = "processor" // judges what gateways see, and serves no visitors
)

func (c *Config) validateRole() error {
	switch c.Role {
	case RoleAll:
		return nil
	case RoleGateway, RoleProcessor:
	default:
		return fmt.Errorf("role: %.40q is none of %s, %s, %s", c.Role, RoleAll, RoleGateway, RoleProcessor)
	}
	var errs []error
	if !c.Store.Shared() {
		errs = append(errs, fmt.Errorf("role: gateways and processors meet in a shared store: set store.url "+
			"(redis://HOST), or leave the role at %s", RoleAll))
	}
	if !c.Processor.Enabled {
		errs = append(errs, fmt.Errorf("role: nothing is judged, because processor.enabled is false: leave the role "+
			"at %s", RoleAll))
	}
	return errors.Join(errs...)
}
