package fileobj_test

import (
	"context"
	"testing"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/crashfs"
	"github.com/headpond/headpond/internal/vfs"
	"github.com/headpond/headpond/objbackends/fileobj"
	"github.com/headpond/headpond/objbackends/objtest"
)

func opener(fsys func() vfs.FS, dir string) func(context.Context) (engine.ObjectStore, error) {
	return func(context.Context) (engine.ObjectStore, error) {
		return fileobj.Open(dir, fileobj.Options{Create: true, FS: fsys()})
	}
}

func TestContractOnDisk(t *testing.T) {
	for _, c := range objtest.Checks() {
		if c.Crashes {
			continue // TestContractAfterCrash does that in memory
		}
		t.Run(c.Name, func(t *testing.T) {
			h := objtest.Harness{Open: opener(func() vfs.FS { return vfs.OS }, t.TempDir()), Many: 300}
			if err := objtest.Run(t.Context(), h, c); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestContractAfterCrash loses, at each crash, all that was not synced.
func TestContractAfterCrash(t *testing.T) {
	for _, c := range objtest.Checks() {
		t.Run(c.Name, func(t *testing.T) {
			disk := crashfs.New()
			h := objtest.Harness{
				Open: opener(func() vfs.FS { return disk }, "/objects"),
				Crash: func() error {
					disk.Crash()
					disk = disk.Restart(crashfs.Synced)
					return nil
				},
				Many: 500,
			}
			if err := objtest.Run(t.Context(), h, c); err != nil {
				t.Error(err)
			}
		})
	}
}
