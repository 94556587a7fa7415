// Package config is the broker's configuration: flags, environment variables and a YAML file, each of which beats the
// next, and defaults below them all. It remembers where each value comes from. An unknown name or a value out of range
// is an error that names it and where it stands.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/headpond/headpond/internal/size"
	"github.com/headpond/headpond/internal/topicconfig"
)

// ErrUsage is wrapped by every error that a user mends by changing a setting.
var ErrUsage = errors.New("wrong configuration")

// Config is what a broker is started with.
type Config struct {
	DataDir   string
	Listen    string // host:port
	Advertise string // host:port; empty: a client is told the address by which it reached the broker
	Admin     string // host:port; empty: no admin server
	WAL       Backend
	WALGiven  bool // WAL was set, and is not the default within DataDir
	Objects   Backend
	Memory    size.Size

	UploadAge  time.Duration
	UploadSize size.Size // 0: a share of Memory
	DeleteAge  time.Duration

	ShutdownTimeout time.Duration
	Takeover        bool
	OldOwnerIsDead  bool

	LogLevel  slog.Level
	LogFormat string // text or json
	Broker    *topicconfig.Broker

	shown []Shown
}

// Shown is one resolved setting, for people.
type Shown struct {
	Name   string
	Value  string
	Origin string // "default", "flag --listen", "environment HEADPOND_LISTEN", "headpond.yaml line 3"
}

// Show returns every setting with its value and origin: first the broker's own in the order of Settings, then Kafka's in
// name order, with the prefix "broker.".
func (c *Config) Show() []Shown { return c.shown }

// resolve fills in the defaults that depend on other settings and refuses contradictions.
func (c *Config) resolve() error {
	if c.WALGiven = c.WAL.Scheme != ""; !c.WALGiven {
		c.WAL = Backend{Scheme: "file", Path: filepath.Join(c.DataDir, "wal"), Capacity: DefaultCapacity}
	}
	if c.Objects.Scheme == "" {
		c.Objects = Backend{Scheme: "file", Path: filepath.Join(c.DataDir, "objects")}
	}
	if c.OldOwnerIsDead && !c.Takeover {
		return errors.New("old-owner-is-dead means nothing without takeover")
	}
	if c.Takeover {
		return fmt.Errorf("takeover: a %s WAL is locked by its owner while that lives; stop that broker instead", c.WAL.Scheme)
	}
	if c.WAL.Scheme != "mem" && c.Objects.Scheme == "mem" && !c.Objects.Volatile {
		return fmt.Errorf("wal is %s, which outlives the broker, and objects is mem:, which does not, so that uploaded records would be lost; write objects as mem:?volatile=true to have it all the same", c.WAL)
	}
	return c.checkOverlap()
}

// checkOverlap refuses directories that lie in each other, where one part would take another's files for its own.
func (c *Config) checkOverlap() error {
	type place struct{ what, path string }
	places := []place{{"the index", filepath.Join(c.DataDir, "index")}}
	if c.WAL.Scheme == "file" {
		places = append(places, place{"wal", c.WAL.Path})
	}
	if c.Objects.Scheme == "file" {
		places = append(places, place{"objects", c.Objects.Path})
	}
	for i := range places {
		abs, err := filepath.Abs(places[i].path)
		if err != nil {
			return err
		}
		places[i].path = abs
	}
	for i, a := range places {
		for _, b := range places[:i] {
			if inside(a.path, b.path) || inside(b.path, a.path) {
				return fmt.Errorf("%s and %s share a directory: %s and %s", a.what, b.what, a.path, b.path)
			}
		}
	}
	data, err := filepath.Abs(c.DataDir)
	if err != nil {
		return err
	}
	for _, p := range places[1:] {
		if inside(data, p.path) {
			return fmt.Errorf("%s is %s, which holds the data directory %s", p.what, p.path, data)
		}
	}
	return nil
}

// inside says whether path is dir or lies below it. Both are absolute.
func inside(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
