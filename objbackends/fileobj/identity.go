package fileobj

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/vfs"
)

// The marker of a store is a line that says what it is, and a random word that says which.
const (
	markerName = "~store"
	markerLine = "headpond objects 1\n"
	markerMax  = 256 // bytes
)

// identity reads which store is in the directory. None is [fs.ErrNotExist].
func identity(fsys vfs.FS, root string) (id string, err error) {
	f, err := fsys.Open(filepath.Join(root, markerName))
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	b := make([]byte, markerMax)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	id, ok := strings.CutPrefix(string(b[:n]), markerLine)
	if !ok || strings.TrimSpace(id) == "" {
		return "", fmt.Errorf("%w: %s is not a store's that this program knows: %q", engine.ErrInvalid, f.Name(), b[:n])
	}
	return strings.TrimSpace(id), nil
}

// establish makes a store in the directory, unless there is one. Of several callers one makes it.
func establish(fsys vfs.FS, root string) error {
	if err := fsys.MkdirAll(root); err != nil {
		return err
	}
	// Who made the directory may have died before that was durable. Above it we may lack the right to look.
	if err := fsys.SyncDir(filepath.Dir(root)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	marker := filepath.Join(root, markerName)
	_, err := fsys.Stat(marker)
	if errors.Is(err, fs.ErrNotExist) {
		err = mark(fsys, root, marker)
	}
	if err != nil {
		return err
	}
	return sweepMarkers(fsys, root)
}

// mark writes the marker of a new store under a temporary name and links it, which one caller can.
func mark(fsys vfs.FS, root, marker string) error {
	id := rand.Text()
	f, err := fsys.Create(marker + "." + id)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(markerLine+id+"\n"), 0)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = fsys.Link(f.Name(), marker)
	}
	if _, statErr := fsys.Stat(marker); err != nil && statErr == nil {
		err = nil // another was faster, and may have swept ours
	}
	return errors.Join(err, fsys.SyncDir(root))
}

// sweepMarkers removes the temporary names of markers, once there is one.
func sweepMarkers(fsys vfs.FS, root string) error {
	entries, err := fsys.ReadDir(root)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), markerName+".") {
			_ = fsys.Remove(filepath.Join(root, e.Name())) // else the next opening does it
		}
	}
	return nil
}
