package index_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/index"
)

// builtIndex is a closed index of several tables, one of them merged, and its history.
func builtIndex(t *testing.T) (*vfs.MemFS, *history) {
	t.Helper()
	h := newHistory(7)
	mem := vfs.NewCrashableMem()
	for range 2 {
		ix := mustOpen(t, "index", index.Options{FS: mem, MemTableBytes: 64 << 10})
		if st, err := ix.State(); err != nil {
			t.Fatal(err)
		} else if st.Seq == 0 {
			if err := ix.Reset(t.Context(), cluster, wal); err != nil {
				t.Fatal(err)
			}
		}
		for n := range 24 {
			mustApply(t, ix, h.step())
			if n%2 == 1 {
				if err := ix.Sync(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		mustClose(t, ix)
	}
	h.step() // one that is not in the index
	return mem, h
}

func readAll(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeAll(t *testing.T, fs vfs.FS, name string, b []byte) {
	t.Helper()
	f, err := fs.Create(name, "test")
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// openAndDump opens a damaged index. It must say so, or hold what the model held after some commit.
func openAndDump(t *testing.T, what string, fs vfs.FS, h *history) error {
	t.Helper()
	ix, err := index.Open("index", index.Options{FS: fs})
	if err != nil {
		return err
	}
	defer ix.Close()
	got, err := dump(ix)
	if err != nil {
		// Writing on may fail or not, but ends.
		if st, err := ix.State(); err == nil && int(st.Seq) < len(h.all) {
			c := h.all[st.Seq]
			_ = ix.Apply(t.Context(), c, c.Sum())
			_ = ix.Sync(t.Context())
		}
		return err
	}
	if got.State.Cluster != cluster {
		t.Errorf("%s: silently begun anew", what)
		return nil
	}
	want, err := dump(h.states[got.State.Seq])
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: reads as commit %d, but with\n%+v, want\n%+v", what, got.State.Seq, got, want)
	}
	return nil
}

func kindOf(name string) string {
	for _, kind := range []string{"MANIFEST", "OPTIONS", "marker.manifest", "marker.format-version"} {
		if strings.HasPrefix(name, kind) {
			return kind
		}
	}
	return name[strings.LastIndexByte(name, '.')+1:]
}

func TestFlippedByteIsFoundOutOrLeavesTheStateAfterSomeCommit(t *testing.T) {
	mem, h := builtIndex(t)
	names, err := mem.List("index")
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(11, 12))
	found := map[string]int{}
	for _, name := range names {
		good := readAll(t, mem, "index/"+name)
		for n := 0; n < 20 && len(good) > 0; n++ {
			at := rng.IntN(len(good))
			switch {
			case n < 6: // footers and the heads of files
				at = len(good) - 1 - n*len(good)/6/8
			case n < 10:
				at = (n - 6) % len(good)
			}
			fs := mem.CrashClone(vfs.CrashCloneCfg{})
			bad := append([]byte(nil), good...)
			bad[at] ^= 1 << rng.IntN(8)
			writeAll(t, fs, "index/"+name, bad)
			err := openAndDump(t, fmt.Sprintf("byte %d of %d of %s", at, len(good), name), fs, h)
			if err != nil {
				found[kindOf(name)]++
				if !errors.Is(err, engine.ErrCorrupt) || !strings.Contains(err.Error(), "remove the directory index") {
					t.Errorf("byte %d of %s: %v, want ErrCorrupt that says what to do", at, name, err)
				}
			}
		}
	}
	t.Logf("found out: %v", found)
	for _, kind := range []string{"sst", "MANIFEST"} {
		if found[kind] == 0 {
			t.Errorf("no damage in a file of kind %s was found out", kind)
		}
	}
}

func TestMissingOrShortFileIsFoundOut(t *testing.T) {
	mem, h := builtIndex(t)
	names, err := mem.List("index")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		kind, inUse := kindOf(name), true
		if kind == "MANIFEST" { // an older one may be left over
			inUse = slices.ContainsFunc(names, func(marker string) bool { return strings.HasSuffix(marker, "."+name) })
		}
		for _, how := range []string{"missing", "empty", "half"} {
			fs := mem.CrashClone(vfs.CrashCloneCfg{})
			good := readAll(t, fs, "index/"+name)
			if how != "missing" && len(good) == 0 {
				continue
			}
			if err := fs.Remove("index/" + name); err != nil {
				t.Fatal(err)
			}
			if how == "empty" {
				writeAll(t, fs, "index/"+name, nil)
			} else if how == "half" {
				writeAll(t, fs, "index/"+name, good[:len(good)/2])
			}
			err := openAndDump(t, name+" is "+how, fs, h)
			if err != nil && !errors.Is(err, engine.ErrCorrupt) {
				t.Errorf("%s is %s: %v, want ErrCorrupt", name, how, err)
			}
			must := kind == "sst" || kind == "marker.manifest" || kind == "MANIFEST" && inUse && how != "half"
			if must && err == nil {
				t.Errorf("%s is %s: opened", name, how)
			}
		}
	}
}

func TestIndexOfAnotherVersionIsRefused(t *testing.T) {
	mem, _ := builtIndex(t)
	names, err := mem.List("index")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "marker.format-version.") {
			if err := mem.Rename("index/"+name, "index/"+name[:strings.LastIndexByte(name, '.')]+".999"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := index.Open("index", index.Options{FS: mem}); !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), "999") {
		t.Errorf("store format 999: %v, want ErrInvalid that names it", err)
	}
}

func TestIndexThatIsOpenCannotBeOpenedTwice(t *testing.T) {
	for name, fs := range map[string]vfs.FS{"memory": vfs.NewMem(), "disk": vfs.Default} {
		dir := "index"
		if name == "disk" {
			dir = t.TempDir() + "/data/index"
		}
		ix := mustOpen(t, dir, index.Options{FS: fs})
		if _, err := index.Open(dir, index.Options{FS: fs}); !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), "held") {
			t.Errorf("%s: %v, want ErrUnavailable that says so", name, err)
		}
		mustClose(t, ix)
		mustClose(t, mustOpen(t, dir, index.Options{FS: fs}))
	}
}
