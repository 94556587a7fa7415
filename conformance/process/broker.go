package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Deadline ends a hang, no more: what takes this long on a busy machine is stuck.
const Deadline = 2 * time.Minute

// Config says how to run a broker. The zero value runs the released build over a fresh directory.
type Config struct {
	Binary  string   // default: Binary(t)
	DataDir string   // default: a temporary directory of the test
	Args    []string // further arguments of serve
	Env     []string // further environment, NAME=VALUE
}

// Broker is a broker that a test runs, stops and runs again, always at the same addresses.
type Broker struct {
	Addr    string // of the Kafka listener
	Admin   string // of the admin listener
	DataDir string

	t   testing.TB
	cfg Config
	log *logFile

	mu   sync.Mutex
	proc *proc
}

// proc is one run of the binary.
type proc struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how, once done is closed
	from int64         // where its part of the log begins
}

// New prepares a broker and does not start it. It is killed at the end of the test, and its log is printed if the test failed.
func New(t testing.TB, c Config) *Broker {
	t.Helper()
	if c.Binary == "" {
		c.Binary = Binary(t)
	}
	if c.DataDir == "" {
		c.DataDir = filepath.Join(t.TempDir(), "data")
	}
	log, err := newLogFile(filepath.Join(t.TempDir(), "broker.log"))
	if err != nil {
		t.Fatal(err)
	}
	b := &Broker{Addr: FreePort(t), Admin: FreePort(t), DataDir: c.DataDir, t: t, cfg: c, log: log}
	t.Cleanup(func() {
		b.Kill()
		log.close()
		if t.Failed() {
			t.Logf("log of the broker at %s, its end:\n%s", b.Addr, b.log.tail(16<<10))
		}
	})
	return b
}

// Start is New, and a broker that is ready.
func Start(t testing.TB, c Config) *Broker {
	t.Helper()
	b := New(t, c)
	b.Start()
	return b
}

// Start runs the broker and waits until it is ready. It fails the test if the broker ends instead.
func (b *Broker) Start() {
	b.t.Helper()
	if err := b.TryStart(); err != nil {
		b.t.Fatalf("%v\n%s", err, b.log.tail(4<<10))
	}
}

// SetArgs replaces the further arguments from the next start on.
func (b *Broker) SetArgs(args ...string) { b.cfg.Args = args }

// TryStart runs the broker and waits until it is ready. When the broker ends by itself instead, the error is an
// [*ExitError].
func (b *Broker) TryStart() error {
	if err := b.Launch(); err != nil {
		return err
	}
	return b.waitReady(b.current())
}

// Launch runs the broker and does not wait for it.
func (b *Broker) Launch() error {
	args := append([]string{"serve", "--data-dir", b.DataDir, "--listen", b.Addr, "--admin", b.Admin}, b.cfg.Args...)
	cmd := exec.Command(b.cfg.Binary, args...)
	cmd.Env = append(environment(), b.cfg.Env...)
	cmd.Stdout, cmd.Stderr = b.log.f, b.log.f
	dieWithParent(cmd)
	p := &proc{cmd: cmd, done: make(chan struct{}), from: b.log.size()}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the broker: %w", err)
	}
	running.add(p)
	go func() {
		p.err = cmd.Wait()
		running.remove(p)
		close(p.done)
	}()
	b.mu.Lock()
	b.proc = p
	b.mu.Unlock()
	return nil
}

// environment is ours without the settings of a broker: what the caller has set for his own must not reach this one.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "HEADPOND_") })
}

func (b *Broker) waitReady(p *proc) error {
	ctx, cancel := context.WithTimeout(context.Background(), Deadline)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if b.Ready(ctx) {
			return nil
		}
		select {
		case <-p.done:
			return &ExitError{Code: p.cmd.ProcessState.ExitCode(), Output: string(b.log.tail(min(b.log.size()-p.from, 64<<10)))}
		case <-ctx.Done():
			return fmt.Errorf("the broker was not ready within %v", Deadline)
		case <-tick.C:
		}
	}
}

// ExitError says that a broker ended by itself when it should have become ready.
type ExitError struct {
	Code   int
	Output string // what this run printed
}

// Error has the exit code and the last line of the output, where a broker says why.
func (e *ExitError) Error() string {
	lines := strings.Split(strings.TrimSpace(e.Output), "\n")
	return fmt.Sprintf("the broker ended with code %d: %s", e.Code, lines[len(lines)-1])
}

// Ready asks once whether the broker says that it is ready.
func (b *Broker) Ready(ctx context.Context) bool { return Ready(ctx, b.Admin) }

// Ready asks a broker by its admin address whether it is ready.
func Ready(ctx context.Context, admin string) bool {
	_, err := get(ctx, admin, "/readyz")
	return err == nil
}

// Get returns the body of a page of the admin address.
func (b *Broker) Get(path string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), Deadline)
	defer cancel()
	return get(ctx, b.Admin, path)
}

var httpClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func get(ctx context.Context, admin, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := httpClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", path, resp.Status, body)
	}
	return string(body), err
}

func (b *Broker) current() *proc {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.proc
}

// Alive says whether the process runs.
func (b *Broker) Alive() bool {
	p := b.current()
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Kill ends the process with SIGKILL and waits until it is gone. Of a broker that does not run it is nothing.
func (b *Broker) Kill() {
	p := b.current()
	if p == nil {
		return
	}
	p.cmd.Process.Kill()
	<-p.done
}

// Stop asks the broker to end with SIGTERM, waits, and returns its exit error: nil after a clean stop.
func (b *Broker) Stop() error {
	p := b.current()
	if p == nil {
		return errors.New("the broker was never started")
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("signal the broker: %w", err)
	}
	select {
	case <-p.done:
		return p.err
	case <-time.After(Deadline):
		return fmt.Errorf("the broker had not stopped %v after SIGTERM", Deadline)
	}
}

// Wait returns when the process has ended by itself, with its exit error.
func (b *Broker) Wait() error {
	p := b.current()
	select {
	case <-p.done:
		return p.err
	case <-time.After(Deadline):
		return fmt.Errorf("the broker had not ended after %v", Deadline)
	}
}

// PID is the number of the current process.
func (b *Broker) PID() int { return b.current().cmd.Process.Pid }

// Log is all that the broker has printed so far, over all its runs.
func (b *Broker) Log() string { return string(b.log.tail(64 << 20)) }

// running are the processes to end with the test run.
var running procs

type procs struct {
	mu  sync.Mutex
	all map[*proc]bool
}

func (r *procs) add(p *proc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[*proc]bool{}
	}
	r.all[p] = true
}

func (r *procs) remove(p *proc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, p)
}

func killAll() {
	running.mu.Lock()
	defer running.mu.Unlock()
	for p := range running.all {
		p.cmd.Process.Kill()
	}
}
