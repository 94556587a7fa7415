package process

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// The test binary itself plays the broker when it is started with serve as its first argument.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		play(os.Args[2:])
	}
	Main(m)
}

func play(args []string) {
	if os.Getenv("REFUSE") != "" {
		fmt.Println("the port is in use")
		os.Exit(3)
	}
	fmt.Println("started with", args)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	http.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	go func() { panic(http.ListenAndServe(args[slices.Index(args, "--admin")+1], nil)) }()
	<-stop
	fmt.Println("drained")
	os.Exit(0)
}

func self(t *testing.T) string {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestABrokerIsStartedKilledAndStopped(t *testing.T) {
	b := Start(t, Config{Binary: self(t), Args: []string{"--memory", "64MiB"}})
	if !b.Alive() || !strings.Contains(b.Log(), "--memory 64MiB") {
		t.Fatalf("log: %s", b.Log())
	}
	if cpu, err := b.CPU(); err == nil && cpu < 0 {
		t.Errorf("CPU %v", cpu)
	}
	if m, err := b.Memory(); err == nil && (m.Now <= 0 || m.Peak < m.Now) {
		t.Errorf("memory %+v", m)
	}
	first := b.PID()
	b.Kill()
	if b.Alive() {
		t.Fatal("alive after the kill")
	}
	b.Start()
	if b.PID() == first {
		t.Fatal("the same process")
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.Log(), "drained") {
		t.Fatalf("log: %s", b.Log())
	}
}

func TestABrokerThatEndsInsteadOfStartingIsAnError(t *testing.T) {
	b := New(t, Config{Binary: self(t), Env: []string{"REFUSE=1"}})
	err := b.TryStart()
	if exit, ok := errors.AsType[*ExitError](err); !ok || exit.Code != 3 || !strings.Contains(exit.Output, "in use") {
		t.Fatal(err)
	}
}

func TestPortsAreGivenOutOnce(t *testing.T) {
	seen := map[string]bool{}
	for range 50 {
		p := FreePort(t)
		if seen[p] {
			t.Fatalf("%s twice", p)
		}
		seen[p] = true
	}
}
