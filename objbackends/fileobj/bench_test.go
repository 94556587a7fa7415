package fileobj_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkPut compares puts with what they cannot be faster than: one write and one sync of as many bytes.
func BenchmarkPut(b *testing.B) {
	for _, size := range []int{64 << 10, 8 << 20} {
		data := make([]byte, size)
		b.Run(fmt.Sprintf("put/%d", size), func(b *testing.B) {
			s := onDisk(b, b.TempDir())
			b.SetBytes(int64(size))
			n := 0
			for b.Loop() {
				n++
				if err := s.Put(b.Context(), fmt.Sprintf("d/%d", n%8), bytes.NewReader(data), int64(size)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("raw/%d", size), func(b *testing.B) {
			dir := b.TempDir()
			b.SetBytes(int64(size))
			n := 0
			for b.Loop() {
				n++
				f, err := os.Create(filepath.Join(dir, fmt.Sprint(n%8)))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := f.Write(data); err != nil {
					b.Fatal(err)
				}
				if err := f.Sync(); err != nil {
					b.Fatal(err)
				}
				if err := f.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
