package clients

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/headpond/headpond/conformance/load"
	"github.com/headpond/headpond/conformance/process"
	"github.com/headpond/headpond/internal/gate/notrun"
)

// wantLines is the least number of lines of the file.
const wantLines = 100_000

// realFile returns real text without empty lines: the sources of Go's standard library.
func realFile(t *testing.T) []byte {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatalf("go env GOROOT: %v", err)
	}
	var out bytes.Buffer
	lines := 0
	err = filepath.WalkDir(filepath.Join(strings.TrimSpace(string(root)), "src"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		if lines >= wantLines+10_000 {
			return fs.SkipAll
		}
		data, err := os.ReadFile(path)
		for line := range bytes.Lines(data) {
			if len(line) > 1 && line[len(line)-1] == '\n' {
				out.Write(line)
				lines++
			}
		}
		return err
	})
	if err != nil || lines < wantLines {
		t.Fatalf("%d lines of Go's sources: %v", lines, err)
	}
	return out.Bytes()
}

// A file of lines goes through kcat, idempotent, into one partition, and comes back byte for byte: from a running
// broker, with a kill -9 in the middle of writing, after a restart, and after the index is gone.
func TestAFileOfLinesComesBackByteForByte(t *testing.T) {
	k := kcat{notrun.Program(t, "kcat")}
	b := own(t)
	file := realFile(t)
	path := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(path, file, 0o644); err != nil {
		t.Fatal(err)
	}
	read := func(topic, when string) {
		t.Helper()
		got := k.run(t, b.Addr, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q")
		if !bytes.Equal(got, file) {
			t.Fatalf("%s: %d bytes came back of %d; they differ from byte %d on", when, len(got), len(file), commonPrefix(got, file))
		}
	}

	calm := newTopic(t, b.Addr, 1)
	k.run(t, b.Addr, "-P", "-t", calm, "-p", "0", "-X", "enable.idempotence=true", "-l", path)
	read(calm, "after writing")

	killed := newTopic(t, b.Addr, 1)
	half := bytes.LastIndexByte(file[:len(file)/2], '\n') + 1
	in, feed := io.Pipe()
	c := k.command(t, b.Addr+","+neverDown(t), "-P", "-t", killed, "-p", "0", "-X", "enable.idempotence=true", "-X", "api.version.request.timeout.ms=300000")
	c.Stdin = in
	done := make(chan error, 1)
	go func() {
		_, err := output(c)
		in.CloseWithError(errors.New("kcat has ended"))
		done <- err
	}()
	if _, err := feed.Write(file[:half]); err != nil {
		t.Fatal(err)
	}
	process.Eventually(t, "the first records", func() bool { return end(t, b.Addr, killed) > 1000 })
	b.Kill()
	if _, err := feed.Write(file[half : half+half/2]); err != nil {
		t.Fatal(err)
	}
	b.Start()
	if _, err := feed.Write(file[half+half/2:]); err != nil {
		t.Fatal(err)
	}
	feed.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	read(killed, "after a kill in the middle of writing")
	read(calm, "after the kill")

	b.Kill()
	b.Start()
	read(killed, "after another kill")
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(b.DataDir, "index")); err != nil {
		t.Fatal(err)
	}
	b.Start()
	read(killed, "without the index")
	read(calm, "without the index")
}

// neverDown is the address of a second bootstrap broker that takes connections and says nothing: kcat ends by itself
// once all its brokers are down, be it for a moment.
func neverDown(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close() // when the listener is closed
		}
	}()
	return l.Addr().String()
}

func commonPrefix(a, b []byte) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// end is the high watermark of partition 0.
func end(t *testing.T, addr, topic string) int64 {
	t.Helper()
	cl, err := load.Client(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	offsets, err := kadm.NewClient(cl).ListEndOffsets(deadline(t), topic)
	if err != nil {
		t.Fatal(err)
	}
	o, _ := offsets.Lookup(topic, 0)
	return o.Offset
}

// The scanner that the lines went through, in reverse: no line is empty.
func TestTheFileHasNoEmptyLines(t *testing.T) {
	n := 0
	for s := bufio.NewScanner(bytes.NewReader(realFile(t))); s.Scan(); n++ {
		if len(s.Bytes()) == 0 {
			t.Fatalf("line %d is empty", n)
		}
	}
	if n < wantLines {
		t.Fatalf("%d lines", n)
	}
}
