package filewal_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/vfs"
	"github.com/headpond/headpond/walbackends/filewal"
)

// BenchmarkRaw is the machine's own limit: one write at a time into a preallocated file, each followed by fdatasync.
func BenchmarkRaw(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			const area = 256 << 20
			f, err := vfs.OS.Create(filepath.Join(b.TempDir(), "raw"))
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			if err := f.Preallocate(area); err != nil {
				b.Fatal(err)
			}
			data := make([]byte, size)
			b.SetBytes(int64(size))
			for i := 0; b.Loop(); i++ {
				if _, err := f.WriteAt(data, int64(i*size%area)); err != nil {
					b.Fatal(err)
				}
				if err := f.SyncData(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAppend appends with so many records in flight and trims behind.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{100, 4 << 10, 64 << 10, 1 << 20} {
		for _, flight := range []int{1, 16, 128} {
			b.Run(fmt.Sprintf("%dB-%d", size, flight), func(b *testing.B) {
				opener, err := filewal.Opener(b.TempDir(), filewal.Options{Capacity: 512 << 20})
				if err != nil {
					b.Fatal(err)
				}
				writes, records := 0, 0
				w, err := opener(b.Context(), engine.WALOptions{Create: true, OnWrite: func(x engine.WALWrite) {
					writes++
					records += x.Records
				}})
				if err != nil {
					b.Fatal(err)
				}
				benchmarkAppend(b, w, size, flight)
				if err := w.Close(); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(records)/float64(writes), "records/write")
			})
		}
	}
}

func benchmarkAppend(b *testing.B, w engine.WAL, size, flight int) {
	slots := make(chan struct{}, flight)
	parts := [][]byte{make([]byte, size/8), make([]byte, size-size/8)}
	var mu sync.Mutex
	var failed error
	done := func(err error) {
		if err != nil {
			mu.Lock()
			failed = err
			mu.Unlock()
		}
		<-slots
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		slots <- struct{}{}
		if _, err := w.Append(engine.Record{Parts: parts}, done); err != nil {
			b.Fatal(err)
		}
		if i%64 == 63 {
			if err := w.Trim(b.Context(), w.Stats().Done); err != nil {
				b.Fatal(err)
			}
		}
	}
	for range flight {
		slots <- struct{}{}
	}
	mu.Lock()
	defer mu.Unlock()
	if failed != nil {
		b.Fatal(failed)
	}
}

// BenchmarkRead reads 64 MiB back.
func BenchmarkRead(b *testing.B) {
	for _, size := range []int{100, 64 << 10} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			opener, err := filewal.Opener(b.TempDir(), filewal.Options{Capacity: 512 << 20})
			if err != nil {
				b.Fatal(err)
			}
			w, err := opener(b.Context(), engine.WALOptions{Create: true})
			if err != nil {
				b.Fatal(err)
			}
			defer w.Close()
			done := make(chan error, 1000)
			for range 64 << 20 / size / 1000 {
				for range 1000 {
					if _, err := w.Append(engine.Record{Parts: [][]byte{make([]byte, size)}}, func(err error) { done <- err }); err != nil {
						b.Fatal(err)
					}
				}
				for range 1000 {
					if err := <-done; err != nil {
						b.Fatal(err)
					}
				}
			}
			end := w.Stats().Done
			b.SetBytes(int64(end))
			b.ReportAllocs()
			for b.Loop() {
				if err := w.Read(b.Context(), 0, end, func(engine.Position, []byte) bool { return true }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
