package message

import (
	"fmt"
	"slices"

	"antirobot/rules"
)

// Warnings returns probable mistakes in the rules of the configuration. Errors are reported by Validate.
func (c Config) Warnings(lists []rules.List, places bool) []string {
	var out []string
	for i, p := range c.Partners {
		names := knownNames{
			lists: lists, places: places, attributes: defaultAttributes(), storages: []string{},
			models: []string{}, logs: []string{},
		}
		out = append(out, names.warnings(fmt.Sprintf("partners[%d].domain", i), p.Domain)...)
	}
	return out
}

type knownNames struct {
	lists                  []rules.List
	places                 bool
	attributes             []AttributeConfig
	storages, models, logs []string
}

func (k knownNames) warnings(path string, d DomainConfig) []string {
	for _, p := range d.Properties {
		switch p.Class {
		case ClassMessageDomain:
			if p.Name == propertyMessageDomain {
				k.attributes = p.Attributes
			}
		case ClassMemoryStorage, ClassStoreStorage:
			k.storages = append(slices.Clip(k.storages), p.Name)
		case ClassModel:
			k.models = append(slices.Clip(k.models), p.Name)
		case ClassLog:
			k.logs = append(slices.Clip(k.logs), p.Name)
		}
	}
	o := rules.DefaultOptions()
	o.Storages, o.Models, o.Logs = k.storages, k.models, k.logs
	o.Lists, o.LooseLists, o.Places = k.lists, true, k.places
	o.Attributes = func(name string) bool {
		return slices.ContainsFunc(k.attributes, func(a AttributeConfig) bool { return a.Name == name })
	}
	var out []string
	for i, p := range d.Properties {
		if p.Class != ClassFirewall || p.Rules == "" {
			continue
		}
		if program, err := rules.Compile(p.Rules, o); err == nil {
			for _, w := range program.Warnings() {
				out = append(out, fmt.Sprintf("%s.properties[%d].rules: %s", path, i, w.Error()))
			}
		}
	}
	for i, sub := range d.Domains {
		out = append(out, k.warnings(fmt.Sprintf("%s.domains[%d]", path, i), sub)...)
	}
	return out
}
