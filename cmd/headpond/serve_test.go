package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headpond/headpond/internal/config"
	"github.com/headpond/headpond/internal/size"
)

// load resolves serve's flags. The broker is small, and takes any free ports.
func load(t *testing.T, flags ...string) *config.Config {
	t.Helper()
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	config.AddFlags(fs)
	flags = append([]string{"--listen=127.0.0.1:0", "--admin=127.0.0.1:0", "--memory=64MiB", "--broker=group.initial.rebalance.delay.ms=0"}, flags...)
	if err := fs.Parse(flags); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Sources{Flags: fs})
	if err != nil {
		t.Fatal(err)
	}
	cfg.WAL.Capacity = 64 * size.MiB // preallocated at each start of a test
	return cfg
}

// startBroker starts a broker that is closed at the test's end, when stop was not called before.
func startBroker(t *testing.T, cfg *config.Config) (b *broker, stop func()) {
	t.Helper()
	b = newBroker(cfg, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err := b.start(t.Context()); err != nil {
		t.Fatal(err, b.close())
	}
	b.status.ready()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		if err := b.close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return b, stop
}

func produce(t *testing.T, b *broker, topic string, values ...string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.kafka.Addr().String()), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, v := range values {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(v)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// consume reads n records from the beginning.
func consume(t *testing.T, b *broker, topic string, n int) string {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.kafka.Addr().String()), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []string
	for len(got) < n {
		f := cl.PollFetches(ctx)
		if err := f.Err(); err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
		f.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	return strings.Join(got, " ")
}

func get(t *testing.T, b *broker, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://" + b.admin.address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestClientCommandsAgainstTheBroker(t *testing.T) {
	b, _ := startBroker(t, load(t, "--data-dir", filepath.Join(t.TempDir(), "d")))
	topicsAndGroups.run(t, b.kafka.Addr().String())
}

func TestRecordsOutliveTheBrokerAndItsIndex(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	cfg := load(t, "--data-dir", dir, "--upload-age", "10ms", "--upload-size", "64KiB")
	b, stop := startBroker(t, cfg)
	produce(t, b, "words", "a", "b", "c")
	stop()
	b, stop = startBroker(t, cfg)
	produce(t, b, "words", "d")
	if got := consume(t, b, "words", 4); got != "a b c d" {
		t.Errorf("after a restart: %s", got)
	}
	stop()
	if err := os.RemoveAll(filepath.Join(dir, "index")); err != nil {
		t.Fatal(err)
	}
	b, _ = startBroker(t, cfg)
	if got := consume(t, b, "words", 4); got != "a b c d" {
		t.Errorf("after the loss of the index: %s", got)
	}
}

func TestDamagedIndexIsPutAsideAndRebuilt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	cfg := load(t, "--data-dir", dir)
	b, stop := startBroker(t, cfg)
	produce(t, b, "words", "a", "b")
	stop()
	manifests, err := filepath.Glob(filepath.Join(dir, "index", "MANIFEST-*"))
	if err != nil || len(manifests) == 0 {
		t.Fatalf("no manifest to damage: %v", err)
	}
	for _, m := range manifests {
		if err := os.WriteFile(m, []byte("damage"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, _ = startBroker(t, cfg)
	if got := consume(t, b, "words", 2); got != "a b" {
		t.Errorf("got %s", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "index.damaged")); err != nil {
		t.Error(err)
	}
}

func TestStartThatCannotSucceedSaysWhatToDo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	b, _ := startBroker(t, load(t, "--data-dir", dir))
	taken := b.kafka.Addr().String()
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--data-dir=" + dir},
			fmt.Sprintf("data directory %s is in use by process %d; stop that broker, or give this one a directory and addresses of its own with --data-dir, --listen and --admin", dir, os.Getpid())},
		{[]string{"--data-dir=" + dir + "2", "--listen=" + taken},
			fmt.Sprintf("cannot listen on %s: another program listens there; choose another address with --listen HOST:PORT, or stop that program", taken)},
		{[]string{"--data-dir=" + dir + "2", "--admin=" + taken},
			fmt.Sprintf("cannot listen on %s: another program listens there; choose another address with --admin HOST:PORT, or stop that program", taken)},
		{[]string{"--data-dir=" + dir + "/format"},
			fmt.Sprintf("data directory %s/format: it is a file", dir)},
	} {
		err := newBroker(load(t, c.flags...), slog.New(slog.DiscardHandler)).serve(t.Context())
		if err == nil || oneLine(err) != c.want {
			t.Errorf("%v:\n got %v\nwant %s", c.flags, err, c.want)
		}
	}
}

func TestServeEndsCleanlyWhenItIsTold(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ready, log := io.Pipe()
	ended := make(chan error, 1)
	cfg := load(t, "--data-dir", filepath.Join(t.TempDir(), "d"))
	go func() { ended <- newBroker(cfg, slog.New(slog.NewTextHandler(log, nil))).serve(ctx) }()
	buf := make([]byte, 4096)
	for {
		n, err := ready.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(buf[:n]), "msg=ready") {
			break
		}
	}
	go io.Copy(io.Discard, ready)
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func TestAdminAddressReportsHealthReadinessAndMetrics(t *testing.T) {
	b, _ := startBroker(t, load(t, "--data-dir", filepath.Join(t.TempDir(), "d")))
	produce(t, b, "words", "a", "b")
	for path, want := range map[string]string{
		"/healthz": "ok", "/readyz": "ok", "/debug/pprof/cmdline": "headpond", "/debug/pprof/": "goroutine",
		"/metrics": `kafka_topic_partition_current_offset{partition="0",topic="words"} 2`,
	} {
		if code, body := get(t, b, path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d, without %q:\n%s", path, code, want, body)
		}
	}
	b.status.notReady("stopping")
	if code, body := get(t, b, "/readyz"); code != http.StatusServiceUnavailable || body != "stopping\n" {
		t.Errorf("not ready: %d %q", code, body)
	}
	if code, _ := get(t, b, "/healthz"); code != http.StatusOK {
		t.Errorf("not ready, and healthz says %d", code)
	}
	b.status.died(net.ErrClosed)
	if code, _ := get(t, b, "/healthz"); code != http.StatusServiceUnavailable {
		t.Errorf("dead, and healthz says %d", code)
	}
}

func TestMemoryPairServesAndLeavesNoIndex(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	cfg := load(t, "--data-dir", dir, "--wal", "mem:", "--objects", "mem:", "--admin", "off")
	for range 2 {
		b, stop := startBroker(t, cfg)
		produce(t, b, "words", "a")
		if got := consume(t, b, "words", 1); got != "a" {
			t.Errorf("got %s", got)
		}
		stop()
	}
	if _, err := os.Stat(filepath.Join(dir, "index")); !os.IsNotExist(err) {
		t.Errorf("there is an index of what is gone: %v", err)
	}
}

func TestToolsOnAStoppedBrokersDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	b, stop := startBroker(t, load(t, "--data-dir", dir))
	produce(t, b, "words", "a", "b", "c")
	if err := b.engine.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	inUse := fmt.Sprintf("headpond: data directory %s is in use by process %d; stop that broker first", dir, os.Getpid())
	script{
		{"index check --data-dir " + dir, 1, inUse},
		{"wal inspect file:" + dir + "/wal", 0, "the log is intact"},
	}.run(t, "")
	stop()
	code, list, _ := headpond(t, nil, "object", "list", "file:"+dir+"/objects")
	if code != 0 {
		t.Fatal(list)
	}
	var kinds []string
	for _, l := range strings.Split(list, "\n") {
		f := strings.Fields(l)
		if len(f) != 2 {
			continue
		}
		kinds = append(kinds, filepath.Ext(f[1]))
		script{{"object inspect file:" + dir + "/objects " + f[1], 0, inspectLine(f[1])}}.run(t, "")
	}
	if all := strings.Join(kinds, ""); !strings.Contains(all, ".bundle") && !strings.Contains(all, ".segment") {
		t.Errorf("no bundle or segment among\n%s", list)
	}
	script{
		{"wal inspect file:" + dir + "/wal --frames", 0, "the log is intact"},
		{"wal inspect file:" + dir + "/objects", 1, ""},
		{"wal inspect mem:", 2, "headpond: mem: a log in memory is its broker's alone"},
		{"object list file:" + dir + "/nothing", 1, ""},
		{"object inspect file:" + dir + "/objects none", 1, ""},
		{"index check --data-dir " + dir, 0, "the index agrees with the log and the objects"},
		{"index rebuild --data-dir " + dir, 0, ""},
		{"index check --data-dir " + dir, 0, "the index agrees with the log and the objects"},
		{"index check --data-dir " + dir + "/nothing", 1, ""},
	}.run(t, "")
	b, _ = startBroker(t, load(t, "--data-dir", dir))
	if got := consume(t, b, "words", 3); got != "a b c" {
		t.Errorf("after a rebuild: %s", got)
	}
}

// inspectLine is a line that inspecting an object prints.
func inspectLine(name string) string {
	switch {
	case strings.HasSuffix(name, ".bundle"), strings.HasSuffix(name, ".segment"):
		return "all checksums are right"
	}
	return ""
}

// A start that fails was not told to stop, and does not say so: why it failed is the last line.
func TestAFailedStartEndsWithItsReason(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var out lockedBuffer
	dir := t.TempDir()
	for range 20 {
		p := process{stdout: &out, stderr: &out}
		if code := p.run(t.Context(), []string{"serve", "--data-dir=" + filepath.Join(dir, "d"), "--listen=" + l.Addr().String()}); code != 1 {
			t.Fatalf("exit code %d", code)
		}
	}
	if s := out.String(); strings.Contains(s, "another signal") {
		t.Errorf("a failed start spoke of a signal:\n%s", s)
	}
}

// lockedBuffer is a buffer that several goroutines write to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
