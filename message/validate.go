package message

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"antirobot/message/learn"
	"antirobot/message/second"
	"antirobot/problem"
	"antirobot/rules"
)

type validator struct{ errs []error }

func (v *validator) addf(format string, args ...any) {
	v.errs = append(v.errs, fmt.Errorf(format, args...))
}

func (v *validator) name(path, name string) {
	if !validName(name) {
		v.addf("%s: %q may only contain letters, digits, _, - and .", path, name)
	}
}

func validName(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s,
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.") == ""
}

func (v *validator) opinions(all []second.Config) {
	seen := make(map[string]bool)
	for i, c := range all {
		at := fmt.Sprintf("second_opinions[%d]", i)
		if err := c.Validate(); err != nil {
			v.errs = append(v.errs, problem.At(at, err))
		}
		if seen[c.Name] {
			v.addf("%s.name: %q occurs twice", at, c.Name)
		}
		seen[c.Name] = true
	}
}

func (v *validator) domain(path string, d DomainConfig, depth int) {
	if depth > maxDomainDepth {
		v.addf("%s: domains are more than %d deep", path, maxDomainDepth)
		return
	}
	seen := make(map[string]bool)
	for i, p := range d.Properties {
		at := fmt.Sprintf("%s.properties[%d]", path, i)
		v.name(at+".name", p.Name)
		if seen[p.Name] {
			v.addf("%s.name: %q occurs twice", at, p.Name)
		}
		seen[p.Name] = true
		v.property(at, p)
	}
	seen = make(map[string]bool)
	for i, sub := range d.Domains {
		at := fmt.Sprintf("%s.domains[%d]", path, i)
		v.name(at+".name", sub.Name)
		if seen[sub.Name] {
			v.addf("%s.name: %q occurs twice", at, sub.Name)
		}
		seen[sub.Name] = true
		v.domain(at, sub, depth+1)
	}
}

func (v *validator) property(path string, p PropertyConfig) {
	switch p.Class {
	case ClassNumber, ClassString, ClassMemoryStorage, ClassStoreStorage, ClassCounters:
	case ClassMessageDomain:
		var names []string
		for i, a := range p.Attributes {
			at := fmt.Sprintf("%s.attributes[%d]", path, i)
			if a.Name == "" || len(a.Name) > 64 {
				v.addf("%s.name: needs 1 to 64 characters", at)
			}
			if slices.Contains(names, a.Name) {
				v.addf("%s.name: %q occurs twice", at, a.Name)
			}
			names = append(names, a.Name)
			if _, ok := a.Kind(); !ok {
				v.addf("%s.type: %q is not Text, Int, UniqueInt or IP", at, a.Type)
			}
		}
		if len(p.Attributes) == 0 {
			v.addf("%s.attributes: there is none", path)
		}
	case ClassFirewall:
		if p.Rules == "" {
			return
		}
		if _, err := rules.Compile(p.Rules, rules.DefaultOptions()); err != nil {
			v.addf("%s.rules: %w", path, err)
		}
	case ClassModel:
		if p.Model != "" && p.Model != learn.Default && p.Model != learn.Robinson {
			v.addf("%s.model: %q is neither %s nor %s", path, p.Model, learn.Default, learn.Robinson)
		}
		if p.Start != "" && p.Start != StartNone && p.Start != learn.StartName {
			v.addf("%s.start: %q is neither %s nor %s", path, p.Start, learn.StartName, StartNone)
		}
	case ClassLog:
		if p.TimeChunk < 0 || p.TimeChunk > 0 && p.TimeChunk < time.Second {
			v.addf("%s.time_chunk: must be a second or more", path)
		}
		if p.NumChunks < 0 || p.NumChunks == 1 || p.NumChunks > 1_000_000 {
			v.addf("%s.num_chunks: must be 2 to a million", path)
		}
	default:
		v.addf("%s.class: %q is not one of %s", path, p.Class, strings.Join([]string{
			ClassNumber, ClassString, ClassMessageDomain, ClassFirewall, ClassModel, ClassMemoryStorage,
			ClassStoreStorage, ClassLog, ClassCounters,
		}, ", "))
	}
}
