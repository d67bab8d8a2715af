package lab

import (
	"time"

	"antirobot/verdict/formula"
)

// Change is what somebody wants to change: settings over those in force, and single weights of the card in use.
type Change struct {
	Settings
	Weights map[int]float64 `json:"weights,omitempty"` // by their places in View.Weights
}

// View is what there is to change, and what was changed.
type View struct {
	Model    string           `json:"model"`             // the version of the model in use
	Named    string           `json:"named"`             // formula.model
	Models   []string         `json:"models"`            // what may take its place
	Weights  []formula.Weight `json:"weights,omitempty"` // of the card in use; none of other models
	Services []ServiceView    `json:"services"`
	Sample   float64          `json:"sample"` // the share of the subjects that the training log has
	Applied  VersionView      `json:"applied"`
	Before   []VersionView    `json:"before"` // what can be taken back to, the newest first
	Shadow   *ShadowView      `json:"shadow,omitempty"`
	Beside   *Beside          `json:"beside,omitempty"` // what that, or formula.shadow, has counted
}

// ServiceView is what a service is set to.
type ServiceView struct {
	Name      string  `json:"name"`
	Mode      string  `json:"mode"`
	Threshold float64 `json:"threshold"`
	Unsure    float64 `json:"unsure"`
	Limits    []Limit `json:"limits"`
	Rules     string  `json:"rules"`
	RulesFile string  `json:"rules_file,omitempty"` // the rules are in a file, which the lab would put aside
	Paths     int     `json:"paths"`                // with settings of their own, which may keep what the service changes
}

// VersionView says what a version changed, without the texts.
type VersionView struct {
	By      string    `json:"by,omitempty"`
	At      time.Time `json:"at,omitzero"`
	Changes []string  `json:"changes"`
}

// ShadowView is what is looked at and not applied.
type ShadowView struct {
	VersionView
	Settings Settings `json:"settings"`
}

// View returns what a version changed.
func (v *Version) View() VersionView { return VersionView{v.By, v.At, v.Changes()} }
