package config

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/headpond/headpond/internal/topicconfig"
)

// Sources are where a configuration comes from.
type Sources struct {
	Flags   *pflag.FlagSet // made by AddFlags and parsed; nil: none are set
	Environ []string       // as os.Environ gives it
	// ReadFile reads the file named by --config or HEADPOND_CONFIG. Nil: os.ReadFile.
	ReadFile func(name string) ([]byte, error)
	// DefaultMemory is the default of --memory. Nil: DefaultMemory.
	DefaultMemory func() Memory
}

const (
	configFlag = "config"
	brokerFlag = "broker"
)

// AddFlags adds a flag for every setting, and --config and --broker. With names, it adds flags for those settings only,
// and --config.
func AddFlags(fs *pflag.FlagSet, names ...string) {
	for _, s := range settings {
		if len(names) > 0 && !slices.Contains(names, s.Name) {
			continue
		}
		f := fs.VarPF(&text{kind: s.Kind, value: s.Default}, s.Name, "", s.Usage)
		if s.Kind == "" {
			f.NoOptDefVal = "true"
		}
	}
	fs.Var(&text{kind: "FILE"}, configFlag, "YAML file with settings by these names, and Kafka's broker settings below broker:")
	if len(names) == 0 {
		fs.Var(&list{}, brokerFlag, "one of Kafka's broker settings; may be given more than once")
	}
}

// text is a flag that keeps what was written; it is read later, with the same words as the other sources' values.
type text struct{ kind, value string }

func (t *text) String() string     { return t.value }
func (t *text) Set(v string) error { t.value = v; return nil }
func (t *text) Type() string {
	if t.kind == "" {
		return "bool"
	}
	return t.kind
}

type list struct{ values []string }

func (l *list) String() string     { return strings.Join(l.values, ",") }
func (l *list) Set(v string) error { l.values = append(l.values, v); return nil }
func (l *list) Type() string       { return "NAME=VALUE" }

// raw is one value that somebody wrote.
type raw struct{ value, origin string }

// Load reads the sources. Errors wrap ErrUsage and name the setting, what is wrong and where it was written.
func Load(src Sources) (*Config, error) {
	c, err := load(src)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	return c, nil
}

func load(src Sources) (*Config, error) {
	if src.ReadFile == nil {
		src.ReadFile = os.ReadFile
	}
	if src.DefaultMemory == nil {
		src.DefaultMemory = DefaultMemory
	}
	env, err := environment(src.Environ)
	if err != nil {
		return nil, err
	}
	own, kafka, err := gather(src, env)
	if err != nil {
		return nil, err
	}
	c := &Config{}
	for _, s := range settings {
		r, written := own[s.Name]
		if !written {
			if s.Default == "" {
				continue
			}
			r = raw{s.Default, "default"}
		}
		err := errEmpty
		if r.value != "" {
			err = s.set(c, r.value)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", r.origin, s.Name, err)
		}
	}
	memoryOrigin := "default"
	if c.Memory == 0 {
		m := src.DefaultMemory()
		c.Memory = m.Size
		memoryOrigin += ", " + m.From
	}
	if c.Broker, err = brokerSettings(kafka); err != nil {
		return nil, err
	}
	if err := c.resolve(); err != nil {
		return nil, err
	}
	c.shown = shown(c, own, kafka, memoryOrigin)
	return c, nil
}

// gather returns what is written, by name: the highest source that has a value wins. kafka is the broker: section.
func gather(src Sources, env map[string]string) (own, kafka map[string]raw, err error) {
	own, kafka = map[string]raw{}, map[string]raw{}
	file := env[envPrefix+"CONFIG"]
	if f := changed(src.Flags, configFlag); f != nil {
		file = f.Value.String()
	}
	if file != "" {
		content, err := src.ReadFile(file)
		if err != nil {
			return nil, nil, fmt.Errorf("read the configuration file: %w", err)
		}
		if err := readFile(file, content, own, kafka); err != nil {
			return nil, nil, err
		}
	}
	for _, s := range settings {
		if v := env[s.Env()]; v != "" {
			own[s.Name] = raw{v, "environment " + s.Env()}
		}
		if f := changed(src.Flags, s.Name); f != nil {
			own[s.Name] = raw{f.Value.String(), "flag --" + s.Name}
		}
	}
	brokerEnv := envPrefix + "BROKER"
	if v := env[brokerEnv]; v != "" {
		if err := addPairs(kafka, strings.Split(v, ","), "environment "+brokerEnv); err != nil {
			return nil, nil, err
		}
	}
	if f := changed(src.Flags, brokerFlag); f != nil {
		if err := addPairs(kafka, f.Value.(*list).values, "flag --"+brokerFlag); err != nil {
			return nil, nil, err
		}
	}
	return own, kafka, nil
}

func changed(fs *pflag.FlagSet, name string) *pflag.Flag {
	if fs == nil {
		return nil
	}
	if f := fs.Lookup(name); f != nil && f.Changed {
		return f
	}
	return nil
}

func addPairs(kafka map[string]raw, pairs []string, origin string) error {
	for _, p := range pairs {
		name, value, found := strings.Cut(p, "=")
		if !found {
			return fmt.Errorf("%s: %q is not NAME=VALUE", origin, p)
		}
		kafka[strings.TrimSpace(name)] = raw{strings.TrimSpace(value), origin}
	}
	return nil
}

func brokerSettings(kafka map[string]raw) (*topicconfig.Broker, error) {
	set := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(kafka)) {
		r := kafka[name]
		k, err := topicconfig.BrokerKey(name)
		if err == nil {
			err = k.Check(r.value)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.origin, err)
		}
		set[name] = r.value
	}
	return topicconfig.NewBroker(set)
}

func shown(c *Config, own, kafka map[string]raw, memoryOrigin string) []Shown {
	var all []Shown
	for _, s := range settings {
		origin := "default"
		if r, ok := own[s.Name]; ok {
			origin = r.origin
		} else if s.Name == "memory" {
			origin = memoryOrigin
		}
		all = append(all, Shown{Name: s.Name, Value: s.show(c), Origin: origin})
	}
	for _, k := range topicconfig.BrokerKeys() {
		v, _ := c.Broker.Value(k.Name)
		origin := "default"
		if r, ok := kafka[k.Name]; ok {
			origin = r.origin
		}
		all = append(all, Shown{Name: brokerFlag + "." + k.Name, Value: v, Origin: origin})
	}
	return all
}

// otherEnv are variables with our prefix that are not the broker's settings: the file, Kafka's settings, the
// address that client commands use.
var otherEnv = []string{envPrefix + "CONFIG", envPrefix + "BROKER", envPrefix + "BROKERS"}

// foreignEnv matches what others define with our prefix: Kubernetes for every pod near a service named headpond
// (HEADPOND_SERVICE_HOST, HEADPOND_PORT_9092_TCP_ADDR), and the tests.
var foreignEnv = regexp.MustCompile(`_SERVICE_(HOST|PORT)|_PORT$|_PORT_[0-9]+_|^HEADPOND_TEST_|^HEADPOND_(NOT_RUN|BINARY)$`)

// environment returns the variables with our prefix. One that is nothing's name is an error, as an unknown flag is.
// An empty variable counts as not set.
func environment(environ []string) (map[string]string, error) {
	known := slices.Clone(otherEnv)
	for _, s := range settings {
		known = append(known, s.Env())
	}
	env := map[string]string{}
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, envPrefix) {
			continue
		}
		if !slices.Contains(known, name) {
			if foreignEnv.MatchString(name) {
				continue
			}
			return nil, fmt.Errorf("environment %s: there is no such setting%s", name, didYouMean(topicconfig.Nearest(name, known)))
		}
		env[name] = value
	}
	return env, nil
}
