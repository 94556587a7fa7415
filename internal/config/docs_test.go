package config

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/headpond/headpond/internal/topicconfig"
)

var update = flag.Bool("update", false, "write docs/settings.md")

const settingsPage = "../../docs/settings.md"

func TestSettingsPageIsWhatTheCodeKnows(t *testing.T) {
	want := page()
	if *update {
		if err := os.WriteFile(settingsPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(settingsPage)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Fatal("docs/settings.md is not what the code knows; run: go test ./internal/config -update")
	}
}

func page() string {
	var b strings.Builder
	b.WriteString(`# Settings

This page is written by ` + "`go test ./internal/config -update`" + `.

Each setting of the broker is a flag (` + "`--data-dir`" + `), an environment variable (` + "`HEADPOND_DATA_DIR`" + `) and a key of the YAML file that
` + "`--config`" + ` or ` + "`HEADPOND_CONFIG`" + ` names (` + "`data-dir:`" + `). A flag beats the environment, the environment beats the file, the file beats the default.
An unknown name, or a value out of range, is an error that says where it was written. ` + "`headpond config show --origin`" + ` prints what holds and why.

Sizes take KiB, MiB, GiB, KB, MB or GB; durations are written as 30s or 1h30m.

` + "```yaml" + `
data-dir: /var/lib/headpond
listen: 10.0.0.5:9092
wal: file:///fast/wal?capacity=8GiB
broker:
  log.retention.hours: 72
  message.max.bytes: 9000000
` + "```" + `

## Broker

| setting | value | default | |
|---|---|---|---|
`)
	for _, s := range Settings() {
		kind := s.Kind
		if kind == "" {
			kind = "true, false"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Name, kind, code(s.Default), s.Usage)
	}
	b.WriteString(`
## Kafka's broker settings

Below ` + "`broker:`" + ` in the file, as ` + "`--broker NAME=VALUE`" + `, or in ` + "`HEADPOND_BROKER`" + ` with commas between them. Those that are not in this list have no
effect here, and are refused.

| setting | default | |
|---|---|---|
`)
	for _, k := range topicconfig.BrokerKeys() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.Name, code(k.Default), k.Doc)
	}
	b.WriteString(`
## Topic settings

Set when a topic is made or altered, with any Kafka client or ` + "`headpond topic create NAME --config NAME=VALUE`" + `. One that is not set takes the broker
setting's value, where there is one. Settings without effect are checked, stored and reported, for clients that set them as a matter of course.

| setting | default | broker setting | effect | |
|---|---|---|---|---|
`)
	for _, k := range topicconfig.Topic() {
		effect := "no"
		if k.Effect {
			effect = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", k.Name, code(k.Default), code(k.Broker), effect, k.Doc)
	}
	return b.String()
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}
