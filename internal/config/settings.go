package config

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/headpond/headpond/internal/size"
	"github.com/headpond/headpond/internal/topicconfig"
)

// Setting is one setting of the broker. Its name is its flag (--data-dir), its key in the YAML file (data-dir) and, in
// capitals and with underscores, its environment variable (HEADPOND_DATA_DIR).
type Setting struct {
	Name    string
	Kind    string // what is written: a word for help texts; empty for a switch
	Default string // as written; empty where it depends on the machine or on other settings
	Usage   string

	set  func(*Config, string) error
	show func(*Config) string
}

// Env is the setting's environment variable.
func (s Setting) Env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
}

const envPrefix = "HEADPOND_"

// MinMemory is the least that a broker runs in.
const MinMemory = 48 * size.MiB

var settings = []Setting{
	{Name: "data-dir", Kind: "DIR", Default: "headpond-data", Usage: "directory of the index, and of WAL and objects where those are the defaults; made where it is absent",
		set: func(c *Config, v string) error { c.DataDir = v; return nil }, show: func(c *Config) string { return c.DataDir }},
	{Name: "listen", Kind: "HOST:PORT", Default: "127.0.0.1:9092", Usage: "address for Kafka clients; port 0 takes any free one",
		set: func(c *Config, v string) (err error) { c.Listen, err = address(v, 0); return err }, show: func(c *Config) string { return c.Listen }},
	{Name: "advertise", Kind: "HOST:PORT", Usage: "address that clients are told to use; without it, the one by which they reached the broker",
		set: func(c *Config, v string) (err error) { c.Advertise, err = advertised(v); return err }, show: func(c *Config) string { return c.Advertise }},
	{Name: "admin", Kind: "HOST:PORT", Default: "127.0.0.1:9644", Usage: "address of /healthz, /readyz, /metrics and /debug/pprof; off for none",
		set: func(c *Config, v string) (err error) {
			if v == "off" {
				c.Admin = ""
				return nil
			}
			c.Admin, err = address(v, 0)
			return err
		}, show: func(c *Config) string {
			if c.Admin == "" {
				return "off"
			}
			return c.Admin
		}},
	{Name: "wal", Kind: "URL", Usage: "write-ahead log: file:PATH?capacity=SIZE or mem:; without it, wal in the data directory with 2GiB",
		set: func(c *Config, v string) (err error) { c.WAL, err = ParseWAL(v); return err }, show: func(c *Config) string { return c.WAL.String() }},
	{Name: "objects", Kind: "URL", Usage: "object store: file:PATH or mem:; without it, objects in the data directory",
		set: func(c *Config, v string) (err error) { c.Objects, err = ParseObjects(v); return err }, show: func(c *Config) string { return c.Objects.String() }},
	{Name: "memory", Kind: "SIZE", Usage: "what the broker may use, at least 48MiB; without it, a quarter of the machine's or cgroup's limit, and at least 256MiB",
		set: func(c *Config, v string) (err error) { c.Memory, err = sizeFrom(v, MinMemory); return err }, show: func(c *Config) string { return c.Memory.String() }},
	{Name: "upload-age", Kind: "DURATION", Default: "30s", Usage: "how old the oldest record in the WAL gets before it is uploaded, whatever there is",
		set: func(c *Config, v string) (err error) {
			c.UploadAge, err = duration(v, 10*time.Millisecond, 24*time.Hour)
			return err
		}, show: func(c *Config) string { return c.UploadAge.String() }},
	{Name: "upload-size", Kind: "SIZE", Usage: "how much in the WAL starts an upload; without it, an eighth of the engine's memory, from 1MiB to 64MiB",
		set: func(c *Config, v string) (err error) { c.UploadSize, err = sizeFrom(v, 64*size.KiB); return err }, show: func(c *Config) string {
			if c.UploadSize == 0 {
				return ""
			}
			return c.UploadSize.String()
		}},
	{Name: "delete-grace", Kind: "DURATION", Default: "5m", Usage: "how long an object stays after nothing refers to it any more",
		set: func(c *Config, v string) (err error) {
			c.DeleteAge, err = duration(v, time.Millisecond, 30*24*time.Hour)
			return err
		}, show: func(c *Config) string { return c.DeleteAge.String() }},
	{Name: "shutdown-timeout", Kind: "DURATION", Default: "30s", Usage: "how long a stop waits for what is in flight",
		set: func(c *Config, v string) (err error) {
			c.ShutdownTimeout, err = duration(v, time.Second, time.Hour)
			return err
		}, show: func(c *Config) string { return c.ShutdownTimeout.String() }},
	{Name: "takeover", Default: "false", Usage: "take a WAL over from an owner that may live; the backends of this version have one owner's lock instead, and refuse it",
		set: func(c *Config, v string) (err error) { c.Takeover, err = parseBool(v); return err }, show: func(c *Config) string { return fmt.Sprint(c.Takeover) }},
	{Name: "old-owner-is-dead", Default: "false", Usage: "needed with --takeover where the WAL cannot keep an old owner out by itself",
		set: func(c *Config, v string) (err error) { c.OldOwnerIsDead, err = parseBool(v); return err }, show: func(c *Config) string { return fmt.Sprint(c.OldOwnerIsDead) }},
	{Name: "log-level", Kind: "LEVEL", Default: "info", Usage: "debug, info, warn or error",
		set: func(c *Config, v string) error {
			return oneOf(v, []string{"debug", "info", "warn", "error"}, func() { _ = c.LogLevel.UnmarshalText([]byte(v)) })
		},
		show: func(c *Config) string { return strings.ToLower(c.LogLevel.String()) }},
	{Name: "log-format", Kind: "FORMAT", Default: "text", Usage: "text or json",
		set: func(c *Config, v string) error { return oneOf(v, []string{"text", "json"}, func() { c.LogFormat = v }) }, show: func(c *Config) string { return c.LogFormat }},
}

// Settings returns the settings in the order in which they are shown.
func Settings() []Setting { return slices.Clone(settings) }

func setting(name string) (Setting, bool) {
	i := slices.IndexFunc(settings, func(s Setting) bool { return s.Name == name })
	if i < 0 {
		return Setting{}, false
	}
	return settings[i], true
}

// address checks HOST:PORT. An empty host stands for all addresses.
func address(v string, minPort int) (string, error) {
	host, port, err := net.SplitHostPort(v)
	if err != nil {
		return "", fmt.Errorf("%q is not HOST:PORT, as 127.0.0.1:9092 and [::1]:9092 are", v)
	}
	n := 0
	for _, d := range []byte(port) {
		if d < '0' || d > '9' || n > 65535 {
			return "", fmt.Errorf("%q is not a port: a number from %d to 65535", port, minPort)
		}
		n = n*10 + int(d-'0')
	}
	if port == "" || n < minPort || n > 65535 {
		return "", fmt.Errorf("%q is not a port: a number from %d to 65535", port, minPort)
	}
	return net.JoinHostPort(host, port), nil
}

func advertised(v string) (string, error) {
	a, err := address(v, 1)
	if err != nil {
		return "", err
	}
	host, _, _ := net.SplitHostPort(a)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return "", fmt.Errorf("%q is nobody's address; name the host that clients can reach", v)
	}
	return a, nil
}

func sizeFrom(v string, least size.Size) (size.Size, error) {
	n, err := size.Parse(v)
	if err == nil && n < least {
		err = fmt.Errorf("%s is below %s", n, least)
	}
	return n, err
}

func duration(v string, least, most time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a duration; write a number and ms, s, m or h, as in 30s or 1h30m", v)
	case d < least:
		return 0, fmt.Errorf("%s is below %s", d, least)
	case d > most:
		return 0, fmt.Errorf("%s is above %s", d, most)
	}
	return d, nil
}

func parseBool(v string) (bool, error) {
	switch v {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%q is not true or false", v)
}

func oneOf(v string, words []string, ok func()) error {
	if !slices.Contains(words, v) {
		return fmt.Errorf("%q is none of %s%s", v, strings.Join(words, ", "), didYouMean(topicconfig.Nearest(v, words)))
	}
	ok()
	return nil
}

var errEmpty = errors.New("it has no value")
