package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// headpond runs a command and returns its exit code and what it printed.
func headpond(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = process{stdout: &out, stderr: &err, environ: environ}.run(t.Context(), args)
	return code, out.String(), err.String()
}

func TestWrongUsageIsCode2AndItsLastLineSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		args string
		want string
	}{
		{"", "headpond needs a command"},
		{"srve", `there is no command "srve" (did you mean serve?); see headpond --help`},
		{"topic", "headpond topic needs a command"},
		{"topic mak", `there is no command "topic mak"; see headpond topic --help`},
		{"topic create", "headpond topic create needs NAME; see headpond topic create --help"},
		{"topic create a b", `headpond topic create takes no argument "b"; see headpond topic create --help`},
		{"topic create a --partitions 0", "partitions is 0 and must be at least 1"},
		{"topic create a --config x", `config "x" is not NAME=VALUE`},
		{"topic alter a", "say what to change, with --config, --unset or --partitions"},
		{"topic list --nonsense", "unknown flag: --nonsense; see headpond topic list --help"},
		{"topic create a --partition 3", "unknown flag: --partition (did you mean --partitions?); see headpond topic create --help"},
		{"serve --lisen x", "unknown flag: --lisen (did you mean --listen?); see headpond serve --help"},
		{"group reset-offsets g", "say where the offsets go: --to earliest, latest, an offset, or a time"},
		{"group reset-offsets g --to soon", `to "soon" is none of earliest, latest, an offset, a time such as 2026-01-31T08:00:00Z`},
		{"group reset-offsets g --to 1 --topic a:x", `topic "a:x": "x" is not a partition's number`},
		{"config show --memory 1", "wrong configuration: flag --memory: memory: 1B is below 48MiB"},
		{"serve --listen nowhere", `wrong configuration: flag --listen: listen: "nowhere" is not HOST:PORT, as 127.0.0.1:9092 and [::1]:9092 are`},
		{"completion", "headpond completion needs a command"},
		{"completion tcsh", `there is no command "completion tcsh" (did you mean bash?); see headpond completion --help`},
	} {
		code, stdout, stderr := headpond(t, nil, strings.Fields(c.args)...)
		lines := strings.Split(strings.TrimSpace(stderr), "\n")
		if last := lines[len(lines)-1]; code != 2 || last != "headpond: "+c.want || stdout != "" {
			t.Errorf("headpond %s: code %d, stdout %q, last line\n%s\nwant\nheadpond: %s", c.args, code, stdout, last, c.want)
		}
	}
}

func TestHelpVersionAndCompletionAreCode0(t *testing.T) {
	for _, args := range []string{"--help", "help topic", "topic create --help", "version", "completion bash", "completion zsh", "completion fish", "completion powershell"} {
		code, stdout, stderr := headpond(t, nil, strings.Fields(args)...)
		if code != 0 || stdout == "" || stderr != "" {
			t.Errorf("headpond %s: code %d, %d bytes on stdout, stderr %q", args, code, len(stdout), stderr)
		}
	}
}

func TestNamesAreCompleted(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "lines", "logs", "other"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	brokers := []string{"HEADPOND_BROKERS=" + strings.Join(cluster.ListenAddrs(), ",")}
	for args, want := range map[string]string{
		"topic describe l":              "lines\nlogs\n:4\n",
		"topic create t --config max.m": "max.message.bytes=\n:6\n",
		"serve --broker group.initial":  "group.initial.rebalance.delay.ms=\n:6\n",
		"topic describe lines x":        ":4\n",
		"group describe g":              ":4\n",
	} {
		code, stdout, _ := headpond(t, brokers, append([]string{"__completeNoDesc"}, strings.Fields(args)...)...)
		if code != 0 || stdout != want {
			t.Errorf("%s: code %d, %q, want %q", args, code, stdout, want)
		}
	}
}

func TestConfigShowNamesOrigins(t *testing.T) {
	code, stdout, _ := headpond(t, []string{"HEADPOND_UPLOAD_AGE=7s"}, "config", "show", "--origin", "--listen", "127.0.0.1:1234")
	if code != 0 {
		t.Fatal(code)
	}
	lines := map[string]bool{}
	for _, l := range strings.Split(stdout, "\n") {
		lines[strings.Join(strings.Fields(l), " ")] = true
	}
	for _, want := range []string{
		"listen 127.0.0.1:1234 flag --listen", "upload-age 7s environment HEADPOND_UPLOAD_AGE", "log-level info default",
		"broker.num.partitions 1 default",
	} {
		if !lines[want] {
			t.Errorf("no line %q in\n%s", want, stdout)
		}
	}
}

func TestNoBrokerIsSaidSo(t *testing.T) {
	code, _, stderr := headpond(t, []string{"HEADPOND_BROKERS=127.0.0.1:1"}, "topic", "list")
	if code != 1 || !strings.Contains(stderr, "no broker answers at 127.0.0.1:1 (") {
		t.Errorf("code %d, %s", code, stderr)
	}
}

// script is what a person types, and what they read.
type script []struct {
	args string
	code int
	want string // a line of the output
}

func (s script) run(t *testing.T, brokers string) {
	t.Helper()
	for _, c := range s {
		code, stdout, stderr := headpond(t, []string{"HEADPOND_BROKERS=" + brokers}, strings.Fields(c.args)...)
		found := false
		for _, l := range strings.Split(stdout+stderr, "\n") {
			found = found || strings.Join(strings.Fields(l), " ") == c.want
		}
		if code != c.code || !found {
			t.Errorf("headpond %s: code %d, want %d and the line %q in\n%s%s", c.args, code, c.code, c.want, stdout, stderr)
		}
	}
}

func TestTopicAndGroupCommands(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	brokers := strings.Join(cluster.ListenAddrs(), ",")
	topicsAndGroups.run(t, brokers)
	script{{"topic create lines", 0, "created topic lines with 10 partitions"}}.run(t, brokers)

	// A member keeps its group's offsets from being moved.
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers), kgo.ConsumeTopics("lines"), kgo.ConsumerGroup("busy"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "lines", Value: []byte("x")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for cl.PollFetches(t.Context()).NumRecords() == 0 {
	}
	script{
		{"group reset-offsets busy --to latest", 1, "headpond: group busy has 1 member; stop them first"},
		{"group delete busy", 1, "headpond: group busy has members; stop them first"},
		{"group describe busy", 0, "group busy is Stable, with 1 member"},
	}.run(t, brokers)
}

// topicsAndGroups begins on a broker with nothing in it.
var topicsAndGroups = script{
	{"topic list", 0, "no topics"},
	{"topic create lines --partitions 2 --config retention.ms=1000 --config cleanup.policy=compact", 0, "created topic lines with 2 partitions"},
	{"topic create lines", 1, "headpond: create topic lines: there is a topic of that name already"},
	{"topic list", 0, "lines 2"},
	{"topic describe lines", 0, "retention.ms 1000 topic"},
	{"topic describe nothing", 1, "headpond: there is no topic nothing"},
	{"topic describe lines --json", 0, `"topic": "lines",`},
	{"topic alter lines --config retention.ms=2000 --unset cleanup.policy", 0, "topic lines: retention.ms is 2000"},
	{"topic alter lines --partitions 3", 0, "topic lines has 3 partitions"},
	{"topic alter nothing --partitions 3", 1, "headpond: there is no topic nothing"},
	{"topic delete nothing", 1, "headpond: there is no topic nothing"},
	{"group list", 0, "no groups"},
	{"group describe g", 1, "headpond: there is no group g"},
	{"group reset-offsets g --to earliest --topic lines", 1, "headpond: there is no group g; --create makes one"},
	{"group reset-offsets g --to earliest --create", 1, "headpond: group g has no offsets; say where to set them with --topic"},
	{"group reset-offsets g --to earliest --topic nothing --create", 1, "headpond: there is no topic nothing"},
	{"group reset-offsets g --to earliest --topic lines:7 --create", 1, "headpond: topic lines has no partition 7"},
	{"group reset-offsets g --to earliest --topic lines:1 --create --dry-run", 0, "would set 1 offset of group g"},
	{"group describe g", 1, "headpond: there is no group g"},
	{"group reset-offsets g --to 5 --topic lines:0,1 --create", 0, "set 2 offsets of group g"},
	{"group reset-offsets g --to 5 --topic lines:1", 0, "warning: topic lines partition 1 has offsets from 0 to 0; taking 0"},
	{"group describe g", 0, "lines 1 0 0 0 -"},
	{"group describe g", 0, "group g is Empty, with 0 members"},
	{"group list", 0, "g Empty"},
	{"group delete nothing", 1, "headpond: there is no group nothing"},
	{"group delete g", 0, "deleted group g"},
	{"topic delete lines", 0, "deleted topic lines"},
	{"topic list", 0, "no topics"},
}
