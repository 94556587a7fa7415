package clients

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// kcat is librdkafka's command.
type kcat struct{ path string }

// command prepares a kcat of the broker that a deadline ends.
func (k kcat) command(t *testing.T, addr string, args ...string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(deadline(t), k.path, append([]string{"-b", addr, "-X", "broker.address.family=v4", "-X", "reconnect.backoff.max.ms=200"}, args...)...)
}

// run runs a kcat to its end and returns what it printed.
func (k kcat) run(t *testing.T, addr string, args ...string) []byte {
	t.Helper()
	return k.pipe(t, nil, addr, args...)
}

// pipe is run with something to read.
func (k kcat) pipe(t *testing.T, in io.Reader, addr string, args ...string) []byte {
	t.Helper()
	c := k.command(t, addr, args...)
	c.Stdin = in
	out, err := output(c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// output runs a command; its error has what it printed on standard error.
func output(c *exec.Cmd) ([]byte, error) {
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), err, errs.Bytes())
	}
	return out, err
}

// produce starts a kcat for each record: only so does it take any bytes. It cannot set times.
func (k kcat) produce(t *testing.T, addr, topic, codec string, maxBytes int, records []record) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "value")
	for _, r := range records {
		args := []string{"-P", "-t", topic, "-p", "0", "-z", codec, "-X", "enable.idempotence=true", "-X", fmt.Sprintf("message.max.bytes=%d", maxBytes)}
		if r.key != nil && r.value != nil {
			args = append(args, "-k", string(r.key))
		}
		for _, h := range r.headers {
			arg := h.name
			if h.value != nil {
				arg += "=" + string(h.value)
			}
			args = append(args, "-H", arg)
		}
		if r.value == nil { // an empty file is nothing to kcat, an empty value in a line is null
			k.pipe(t, strings.NewReader(string(r.key)+":\n"), addr, append(args, "-Z", "-K", ":")...)
			continue
		}
		if err := os.WriteFile(file, r.value, 0o644); err != nil {
			t.Fatal(err)
		}
		k.run(t, addr, append(args, file)...)
	}
}

func (k kcat) consume(t *testing.T, addr, topic string, n int) []record {
	t.Helper()
	out := k.run(t, addr, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-c", fmt.Sprint(n), "-u", "-q", "-f", `%T %K %S %h\n%k%s`)
	var records []record
	for r := bufio.NewReader(bytes.NewReader(out)); ; {
		line, err := r.ReadString('\n')
		if err == io.EOF && line == "" {
			return records
		}
		var ms int64
		var keyLen, valueLen int
		if _, err := fmt.Sscanf(line, "%d %d %d", &ms, &keyLen, &valueLen); err != nil {
			t.Fatalf("after %d records: %q: %v", len(records), line, err)
		}
		rec := record{key: take(t, r, keyLen), value: take(t, r, valueLen), time: time.UnixMilli(ms)}
		if fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4); len(fields) == 4 && fields[3] != "" {
			for _, h := range strings.Split(fields[3], ",") {
				name, value, _ := strings.Cut(h, "=")
				hd := header{name, []byte(value)}
				if value == "NULL" {
					hd.value = nil
				}
				rec.headers = append(rec.headers, hd)
			}
		}
		records = append(records, rec)
	}
}

func take(t *testing.T, r io.Reader, n int) []byte {
	t.Helper()
	if n < 0 {
		return nil
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		t.Fatal(err)
	}
	return b
}
