package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNewDirectoryIsMadeAndOpensAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	for range 2 {
		d, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if d.Index() != filepath.Join(path, "index") {
			t.Errorf("index is %s", d.Index())
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(path, "format")); err != nil || string(text) != Format {
		t.Fatalf("format file holds %q, %v", text, err)
	}
}

func TestSecondUserIsToldWhoTheFirstIs(t *testing.T) {
	path := t.TempDir()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(path)
	var held *InUseError
	if !errors.As(err, &held) || held.PID != os.Getpid() {
		t.Fatalf("error %v, want one that names process %d", err, os.Getpid())
	}
	if want := fmt.Sprintf("data directory %s is in use by process %d", path, os.Getpid()); err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d, err = Open(path)
	if err != nil {
		t.Fatalf("the lock outlived its holder: %v", err)
	}
	d.Close()
}

func TestDirectoryOfAnotherVersionIsRefusedAndNotChanged(t *testing.T) {
	path := t.TempDir()
	if err := os.WriteFile(filepath.Join(path, "format"), []byte("headpond data directory 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path)
	if err == nil || !strings.Contains(err.Error(), `"headpond data directory 2"`) {
		t.Fatalf("error %v, want one that names the other version", err)
	}
	entries, _ := os.ReadDir(path)
	if len(entries) != 1 {
		t.Fatalf("the refused directory was changed: %v", entries)
	}
}

func TestForeignDirectoryIsRefusedAndNotChanged(t *testing.T) {
	path := t.TempDir()
	if err := os.WriteFile(filepath.Join(path, "thesis.tex"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path)
	if err == nil || !strings.Contains(err.Error(), "thesis.tex") {
		t.Fatalf("error %v, want one that names the foreign file", err)
	}
	entries, _ := os.ReadDir(path)
	if len(entries) != 1 {
		t.Fatalf("the refused directory was changed: %v", entries)
	}
}

func TestPartsThatWerePutBackAreAccepted(t *testing.T) {
	path := t.TempDir()
	for _, name := range []string{"wal", "objects", "lost+found", ".snapshot"} {
		if err := os.Mkdir(filepath.Join(path, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
}

func TestToolsDoNotMakeADirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "absent")
	if _, err := OpenExisting(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("error %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("it made the directory")
	}
}
