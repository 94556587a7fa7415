package clients

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/headpond/headpond/conformance/process"
	"github.com/headpond/headpond/internal/gate/notrun"
)

// readmeLines are the lines of README's shell blocks without their comments.
func readmeLines(t *testing.T, root string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			line, _, _ = strings.Cut(line, " #")
			if line = strings.TrimSpace(line); line != "" {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// pick returns the lines that contain the text, in order; README must have some.
func pick(t *testing.T, lines []string, text string) []string {
	t.Helper()
	var out []string
	for _, l := range lines {
		if strings.Contains(l, text) {
			out = append(out, l)
		}
	}
	if len(out) == 0 {
		t.Fatalf("README.md has no command with %q", text)
	}
	return out
}

// README's first command starts a broker; the kcat commands below it bring back a file's lines. The commands run as
// they stand there, save for addresses, which the environment and a replacement make free ones.
func TestReadmesQuickStart(t *testing.T) {
	notrun.Program(t, "kcat")
	root, err := process.Root()
	if err != nil {
		t.Fatal(err)
	}
	lines := readmeLines(t, root)
	listen, admin := process.FreePort(t), process.FreePort(t)
	env := append(os.Environ(), "HEADPOND_DATA_DIR="+filepath.Join(t.TempDir(), "data"), "HEADPOND_LISTEN="+listen, "HEADPOND_ADMIN="+admin)
	env = append(env, "PATH="+filepath.Dir(installed(t))+":"+os.Getenv("PATH"))
	env = withoutRunners(env)

	serve := exec.Command("sh", "-c", "exec "+pick(t, lines, "serve")[0])
	serve.Dir, serve.Env = root, env
	serve.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // go run has a child
	var log bytes.Buffer
	serve.Stdout, serve.Stderr = &log, &log
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- serve.Wait() }()
	defer func() {
		syscall.Kill(-serve.Process.Pid, syscall.SIGTERM)
		<-ended
		if t.Failed() {
			t.Logf("the broker's output:\n%s", log.Bytes())
		}
	}()
	process.Eventually(t, "the broker of README's first command", func() bool {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("README's first command ended: %v", err)
		default:
		}
		return process.Ready(context.Background(), admin)
	})

	// A few files stand for those that README names.
	text := filepath.Join(t.TempDir(), "some.log")
	large := filepath.Join(t.TempDir(), "large")
	content := []byte("one\ntwo\nthree, and umlauts äöü\n")
	eight := bytes.Repeat([]byte("12345678"), 1<<20)
	for name, data := range map[string][]byte{text: content, large: eight} {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := func(line string) []byte {
		t.Helper()
		line = strings.NewReplacer("localhost:9092", listen, "/var/log/some.log", text, "some-file-of-8-MiB", large).Replace(line)
		if strings.HasPrefix(line, "headpond ") {
			line += " --brokers " + listen
		}
		c := exec.CommandContext(deadline(t), "sh", "-c", line)
		c.Dir, c.Env = t.TempDir(), env
		out, err := output(c)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	var got []byte
	for _, line := range pick(t, lines, "-t lines") {
		got = run(line)
	}
	if !bytes.Equal(got, content) {
		t.Errorf("README's kcat commands brought back %q, the file is %q", got, content)
	}
	for _, line := range append(pick(t, lines, "topic create large"), pick(t, lines, "-t large")...) {
		got = run(line)
	}
	if !bytes.Equal(bytes.TrimSuffix(got, []byte("\n")), eight) {
		t.Errorf("README's recipe for 8 MiB brought back %d bytes", len(got))
	}
}

// installed is the broker's binary under its own name.
func installed(t *testing.T) string {
	t.Helper()
	link := filepath.Join(t.TempDir(), "headpond")
	if err := os.Symlink(process.Binary(t), link); err != nil {
		t.Fatal(err)
	}
	return link
}

// withoutRunners leaves out what the test run itself is told through the environment.
func withoutRunners(env []string) []string {
	var out []string
	for _, e := range env {
		if name, _, _ := strings.Cut(e, "="); name != notrun.File && name != "HEADPOND_BINARY" {
			out = append(out, e)
		}
	}
	return out
}
