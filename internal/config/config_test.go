package config

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/headpond/headpond/internal/size"
	"github.com/headpond/headpond/internal/topicconfig"
)

type source struct {
	flags []string
	env   []string
	file  string // content of the file that --config or HEADPOND_CONFIG names
}

func (s source) load(t *testing.T) (*Config, error) {
	t.Helper()
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	AddFlags(fs)
	if err := fs.Parse(s.flags); err != nil {
		t.Fatal(err)
	}
	return Load(Sources{
		Flags: fs, Environ: s.env,
		ReadFile: func(name string) ([]byte, error) {
			if name != "/etc/hp.yaml" {
				return nil, os.ErrNotExist
			}
			return []byte(s.file), nil
		},
		DefaultMemory: func() Memory { return quarter(uint64(8*size.GiB), "machine's") },
	})
}

func TestDefaults(t *testing.T) {
	c, err := source{}.load(t)
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]struct{ got, want any }{
		"data-dir": {c.DataDir, "headpond-data"}, "listen": {c.Listen, "127.0.0.1:9092"}, "admin": {c.Admin, "127.0.0.1:9644"},
		"wal": {c.WAL.String(), "file:headpond-data/wal?capacity=2GiB"}, "objects": {c.Objects.String(), "file:headpond-data/objects"},
		"memory": {c.Memory, 2 * size.GiB}, "upload-age": {c.UploadAge, 30 * time.Second},
		"auto-create": {c.Broker.Bool(topicconfig.AutoCreateTopics), true},
	} {
		if got.got != got.want {
			t.Errorf("%s is %v, want %v", name, got.got, got.want)
		}
	}
	for _, s := range c.Show() {
		if !strings.HasPrefix(s.Origin, "default") {
			t.Errorf("%s comes from %s", s.Name, s.Origin)
		}
	}
}

func TestFlagBeatsEnvironmentBeatsFileBeatsDefault(t *testing.T) {
	s := source{
		file:  "# a comment\nlisten: 1.1.1.1:1\nmemory: 1GiB\nadmin: off\nbroker:\n  num.partitions: 3\n  message.max.bytes: 9000000\n  log.retention.hours: 1\n",
		env:   []string{"HEADPOND_CONFIG=/etc/hp.yaml", "HEADPOND_LISTEN=2.2.2.2:2", "HEADPOND_MEMORY=512MiB", "HEADPOND_DATA_DIR=", "HEADPOND_BROKER=num.partitions=4", "PATH=/bin"},
		flags: []string{"--listen", "3.3.3.3:3", "--broker", "log.retention.hours=2"},
	}
	c, err := s.load(t)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Shown{
		"listen":                     {Value: "3.3.3.3:3", Origin: "flag --listen"},
		"memory":                     {Value: "512MiB", Origin: "environment HEADPOND_MEMORY"},
		"admin":                      {Value: "off", Origin: "hp.yaml line 4"},
		"data-dir":                   {Value: "headpond-data", Origin: "default"},
		"broker.num.partitions":      {Value: "4", Origin: "environment HEADPOND_BROKER"},
		"broker.message.max.bytes":   {Value: "9000000", Origin: "hp.yaml line 7"},
		"broker.log.retention.hours": {Value: "2", Origin: "flag --broker"},
	}
	for _, got := range c.Show() {
		if w, ok := want[got.Name]; ok {
			w.Name = got.Name
			if got != w {
				t.Errorf("got %+v, want %+v", got, w)
			}
			delete(want, got.Name)
		}
	}
	if len(want) > 0 {
		t.Errorf("not shown: %v", want)
	}
}

func TestWrongSettingsAreNamedWithTheirPlace(t *testing.T) {
	file := func(content string) source { return source{flags: []string{"--config=/etc/hp.yaml"}, file: content} }
	for _, c := range []struct {
		source source
		want   string
	}{
		{source{flags: []string{"--memory=12Q"}}, `flag --memory: memory: "12Q" is not a size: write a number and KiB, MiB, GiB, KB, MB or GB`},
		{source{flags: []string{"--memory=1MiB"}}, "flag --memory: memory: 1MiB is below 48MiB"},
		{source{flags: []string{"--listen=localhost"}}, `flag --listen: listen: "localhost" is not HOST:PORT, as 127.0.0.1:9092 and [::1]:9092 are`},
		{source{flags: []string{"--listen=localhost:70000"}}, `flag --listen: listen: "70000" is not a port: a number from 0 to 65535`},
		{source{flags: []string{"--listen=localhost:99999999999999999999"}}, `flag --listen: listen: "99999999999999999999" is not a port: a number from 0 to 65535`},
		{source{flags: []string{"--listen="}}, "flag --listen: listen: it has no value"},
		{source{flags: []string{"--advertise=0.0.0.0:9092"}}, `flag --advertise: advertise: "0.0.0.0:9092" is nobody's address; name the host that clients can reach`},
		{source{flags: []string{"--advertise=a:0"}}, `flag --advertise: advertise: "0" is not a port: a number from 1 to 65535`},
		{source{env: []string{"HEADPOND_UPLOAD_AGE=30"}}, `environment HEADPOND_UPLOAD_AGE: upload-age: "30" is not a duration; write a number and ms, s, m or h, as in 30s or 1h30m`},
		{source{env: []string{"HEADPOND_LISTNE=x"}}, "environment HEADPOND_LISTNE: there is no such setting (did you mean HEADPOND_LISTEN?)"},
		{source{flags: []string{"--log-level=inof"}}, `flag --log-level: log-level: "inof" is none of debug, info, warn, error (did you mean info?)`},
		{source{flags: []string{"--takeover"}}, "takeover: a file WAL is locked by its owner while that lives; stop that broker instead"},
		{source{flags: []string{"--old-owner-is-dead"}}, "old-owner-is-dead means nothing without takeover"},
		{source{flags: []string{"--config=absent.yaml"}}, "read the configuration file: file does not exist"},
		{source{flags: []string{"--broker=x"}}, `flag --broker: "x" is not NAME=VALUE`},
		{source{flags: []string{"--broker=num.partition=2"}}, `flag --broker: unknown setting: there is no broker setting "num.partition"; did you mean num.partitions?`},
		{source{flags: []string{"--broker=num.partitions=0"}}, "flag --broker: wrong value for num.partitions: 0 is below 1"},
		{source{flags: []string{"--objects=mem:"}}, "wal is file:headpond-data/wal?capacity=2GiB, which outlives the broker, and objects is mem:, which does not, so that uploaded records would be lost; write objects as mem:?volatile=true to have it all the same"},
		{source{flags: []string{"--objects=file:headpond-data/wal/objects"}}, "objects and wal share a directory: "},
		{source{flags: []string{"--objects=file:headpond-data"}}, "objects and the index share a directory: "},
		{source{flags: []string{"--wal=file:headpond-data/index"}}, "wal and the index share a directory: "},
		{file("listn: a:1\n"), `hp.yaml line 1: there is no setting "listn" (did you mean listen?)`},
		{file("listen: a:1\nlisten: b:2\n"), "hp.yaml line 2: listen is there twice"},
		{file("listen: [a, b]\n"), "hp.yaml line 1: listen takes one value"},
		{file("listen:\n"), "hp.yaml line 1: listen: it has no value"},
		{file("- a\n"), "hp.yaml line 1: settings are written as name: value, a line each"},
		{file("listen: \"a\n"), "hp.yaml: line "},
		{file("\nbroker:\n  log.retention.ms: -5\n"), "hp.yaml line 3: wrong value for log.retention.ms: -5 is below -1"},
		{file("broker:\n  log.retention.days: 5\n"), `hp.yaml line 2: unknown setting: there is no broker setting "log.retention.days"`},
	} {
		_, err := c.source.load(t)
		if err == nil || !errors.Is(err, ErrUsage) {
			t.Errorf("%+v: error %v", c.source, err)
			continue
		}
		if got := strings.TrimPrefix(err.Error(), "wrong configuration: "); !strings.HasPrefix(got, c.want) {
			t.Errorf("%+v:\n got %s\nwant %s", c.source, got, c.want)
		}
	}
}

func TestOthersVariablesAreLeftAlone(t *testing.T) {
	_, err := source{env: []string{
		"HEADPOND_SERVICE_HOST=10.0.0.1", "HEADPOND_PORT=tcp://10.0.0.1:9092", "HEADPOND_PORT_9092_TCP_ADDR=10.0.0.1",
		"HEADPOND_SERVICE_PORT_KAFKA=9092", "HEADPOND_NOT_RUN=/tmp/x", "HEADPOND_BINARY=/tmp/y", "HEADPOND_TEST_S3_URL=x", "HEADPOND_BROKERS=a:1",
	}}.load(t)
	if err != nil {
		t.Fatal(err)
	}
}

func TestEmptyFileSetsNothing(t *testing.T) {
	for _, content := range []string{"", "# nothing\n", "---\n", "broker:\n"} {
		if _, err := (source{flags: []string{"--config=/etc/hp.yaml"}, file: content}).load(t); err != nil {
			t.Errorf("%q: %v", content, err)
		}
	}
}

func TestBackendURLs(t *testing.T) {
	for _, c := range []struct {
		parse func(string) (Backend, error)
		url   string
		want  Backend
	}{
		{ParseWAL, "file:wal", Backend{Scheme: "file", Path: "wal", Capacity: DefaultCapacity}},
		{ParseWAL, "file:../a%20b?capacity=64MiB", Backend{Scheme: "file", Path: "../a b", Capacity: 64 * size.MiB}},
		{ParseWAL, "file:///var/lib/wal", Backend{Scheme: "file", Path: "/var/lib/wal", Capacity: DefaultCapacity}},
		{ParseWAL, "file:/var/lib/wal", Backend{Scheme: "file", Path: "/var/lib/wal", Capacity: DefaultCapacity}},
		{ParseWAL, "mem:", Backend{Scheme: "mem", Capacity: DefaultCapacity}},
		{ParseObjects, "mem:?volatile=true", Backend{Scheme: "mem", Volatile: true}},
		{ParseObjects, "file:o", Backend{Scheme: "file", Path: "o"}},
	} {
		got, err := c.parse(c.url)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.url, got, err, c.want)
			continue
		}
		if again, err := c.parse(got.String()); err != nil || again != got {
			t.Errorf("%s is written as %s, which is read as %+v, %v", c.url, got, again, err)
		}
	}
}

func TestBackendURLsThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		parse     func(string) (Backend, error)
		url, want string
	}{
		{ParseWAL, "/var/lib/wal", `"/var/lib/wal" is not a URL; a directory is written file:/var/lib/wal`},
		{ParseWAL, "./a:b", `"./a:b" is not a URL; a directory is written file:./a:b`},
		{ParseWAL, "zrs:///dev/sdb", "zrs is not built in yet; this version has file and mem"},
		{ParseObjects, "minio://host/bucket", "minio is not built in yet; this version has file and mem"},
		{ParseObjects, "azbolb://c", `no backend is named "azbolb" (did you mean azblob?); this version has file and mem`},
		{ParseWAL, "file://wal", `names the host "wal"; a path is written file:wal or file:///wal`},
		{ParseWAL, "file:", "file: needs a path, as in file:///var/lib/headpond/wal"},
		{ParseWAL, "mem:x", "mem: has no path"},
		{ParseWAL, "file:w?capacty=1GiB", `file: has no option "capacty" (did you mean capacity?)`},
		{ParseWAL, "file:w?capacity=1KiB", "option capacity is 1KiB and must be at least 16MiB"},
		{ParseWAL, "file:w?capacity=1GiB&capacity=2GiB", "option capacity is there twice"},
		{ParseObjects, "file:o?volatile=true", `file: has no option "volatile"`},
		{ParseObjects, "file://user:secret@host/o", "credentials and fragments have no place in a backend's URL"},
		{ParseObjects, "file:%zz", "its path cannot be read; escape special letters as %XX"},
	} {
		_, err := c.parse(c.url)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s:\n got %v\nwant %s", c.url, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error repeats a secret", c.url)
		}
	}
}

func TestDefaultMemoryIsAQuarterAndAtLeast256MiB(t *testing.T) {
	if m := quarter(uint64(512*size.MiB), "cgroup's"); m.Size != 256*size.MiB {
		t.Errorf("of 512 MiB: %s", m.Size)
	}
	if m := quarter(uint64(24*size.GiB)+12345, "machine's"); m.Size != 6*size.GiB || m.From != "a quarter of the machine's 24GiB" {
		t.Errorf("of 24 GiB: %s, %s", m.Size, m.From)
	}
	if m := DefaultMemory(); m.Size < 256*size.MiB {
		t.Errorf("here: %s", m.Size)
	}
}

func TestEverySettingHasItsOwnVariable(t *testing.T) {
	var names []string
	for _, s := range Settings() {
		if slices.Contains(names, s.Env()) || s.Usage == "" {
			t.Errorf("%s: its variable is taken, or it has no description", s.Name)
		}
		names = append(names, s.Env())
	}
}
