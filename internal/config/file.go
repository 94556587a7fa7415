package config

import (
	"fmt"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/headpond/headpond/internal/topicconfig"
)

// readFile adds what a YAML file sets: own are settings by name, kafka those below broker:. Unknown keys, a key twice,
// and anything but single values are errors that name the line.
func readFile(name string, content []byte, own, kafka map[string]raw) error {
	base := filepath.Base(name)
	var doc yaml.Node
	if err := yaml.Unmarshal(content, &doc); err != nil {
		return fmt.Errorf("%s: %s", base, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if doc.Kind == 0 { // empty, or comments only
		return nil
	}
	return eachKey(base, doc.Content[0], func(key, value *yaml.Node) error {
		if key.Value == brokerFlag {
			return eachKey(base, value, func(key, value *yaml.Node) error {
				return take(base, key, value, kafka)
			})
		}
		if _, ok := setting(key.Value); !ok {
			return fmt.Errorf("%s line %d: there is no setting %q%s", base, key.Line, key.Value, didYouMean(topicconfig.Nearest(key.Value, fileKeys())))
		}
		return take(base, key, value, own)
	})
}

func fileKeys() []string {
	keys := []string{brokerFlag}
	for _, s := range settings {
		keys = append(keys, s.Name)
	}
	return keys
}

// eachKey calls fn for each key of a mapping. A mapping without content is none.
func eachKey(base string, n *yaml.Node, fn func(key, value *yaml.Node) error) error {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("%s line %d: settings are written as name: value, a line each", base, n.Line)
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if seen[key.Value] {
			return fmt.Errorf("%s line %d: %s is there twice", base, key.Line, key.Value)
		}
		seen[key.Value] = true
		if err := fn(key, n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func take(base string, key, value *yaml.Node, into map[string]raw) error {
	origin := fmt.Sprintf("%s line %d", base, key.Line)
	if value.Kind == yaml.AliasNode {
		value = value.Alias
	}
	switch {
	case value.Kind != yaml.ScalarNode:
		return fmt.Errorf("%s: %s takes one value", origin, key.Value)
	case value.Tag == "!!null" || value.Value == "":
		return fmt.Errorf("%s: %s: %w", origin, key.Value, errEmpty)
	}
	into[key.Value] = raw{value.Value, origin}
	return nil
}
