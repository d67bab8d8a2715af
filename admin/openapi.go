package admin

import (
	_ "embed"

	"go.yaml.in/yaml/v3"
)

// openAPIText describes the API for programs: OpenAPI, as people edit it.
//
//go:embed openapi.yaml
var openAPIText []byte

// openAPI answers with the description of the API. It is read for each call: few ever ask.
func (s *gatewayCalls) openAPI(*call) (any, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(openAPIText, &doc); err != nil {
		panic("BUG: openapi.yaml: " + err.Error())
	}
	return doc, nil
}
