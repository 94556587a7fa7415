package codec_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headpond/headpond/internal/recordbatch"
	"github.com/headpond/headpond/internal/recordbatch/codec"
)

var all = []recordbatch.Codec{recordbatch.None, recordbatch.Gzip, recordbatch.Snappy, recordbatch.LZ4, recordbatch.Zstd}

func TestClientsReadWhatWeCompressAndTheReverse(t *testing.T) {
	franz := map[recordbatch.Codec]kgo.CompressionCodec{
		recordbatch.Gzip: kgo.GzipCompression(), recordbatch.Snappy: kgo.SnappyCompression(),
		recordbatch.LZ4: kgo.Lz4Compression(), recordbatch.Zstd: kgo.ZstdCompression(),
	}
	for _, size := range []int{0, 1, 100, 32 << 10, 100_000} {
		want := bytes.Repeat([]byte("stream "), size/7+1)[:size]
		for c, theirs := range franz {
			ours, err := codec.Compress(c, want)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := kgo.DefaultDecompressor().Decompress(ours, kgo.CompressionCodecType(c)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s, %d bytes: the client read %d bytes: %v", c, size, len(got), err)
			}
			if got, err := (codec.Decompressor{}).Decompress(c, ours, size); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s, %d bytes: we read %d of our own: %v", c, size, len(got), err)
			}
			compressor, err := kgo.DefaultCompressor(theirs)
			if err != nil {
				t.Fatal(err)
			}
			in, used := compressor.Compress(new(bytes.Buffer), want)
			if used != kgo.CompressionCodecType(c) {
				continue // it found the bytes not worth it
			}
			if got, err := (codec.Decompressor{}).Decompress(c, in, size); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s, %d bytes: we read %d of the client's: %v", c, size, len(got), err)
			}
		}
	}
}

func TestRawSnappyIsRead(t *testing.T) {
	want := bytes.Repeat([]byte("raw "), 1000)
	if got, err := (codec.Decompressor{}).Decompress(recordbatch.Snappy, s2.EncodeSnappy(nil, want), len(want)); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestBoundIsExact(t *testing.T) {
	data := make([]byte, 100_000)
	for _, c := range all {
		packed, err := codec.Compress(c, data)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (codec.Decompressor{}).Decompress(c, packed, len(data)); err != nil {
			t.Errorf("%s at the bound: %v", c, err)
		}
		if _, err := (codec.Decompressor{}).Decompress(c, packed, len(data)-1); !errors.Is(err, recordbatch.ErrTooLarge) {
			t.Errorf("%s one byte over the bound: %v", c, err)
		}
	}
}

func TestBytesThatDoNotExpandAreCorrupt(t *testing.T) {
	data := bytes.Repeat([]byte("cut "), 5000)
	for _, c := range all[1:] {
		packed, err := codec.Compress(c, data)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range [][]byte{packed[:len(packed)-5], []byte("not compressed at all, whatever the codec")} {
			if _, err := (codec.Decompressor{}).Decompress(c, bad, 1<<20); !errors.Is(err, recordbatch.ErrCorruptMessage) && !errors.Is(err, recordbatch.ErrTooLarge) {
				t.Errorf("%s of %d bad bytes: %v", c, len(bad), err)
			}
		}
	}
	if _, err := (codec.Decompressor{}).Decompress(7, data, 1<<20); !errors.Is(err, recordbatch.ErrUnsupportedCompression) {
		t.Errorf("codec 7: %v", err)
	}
}

func FuzzDecompress(f *testing.F) {
	for _, c := range all {
		packed, err := codec.Compress(c, bytes.Repeat([]byte("seed "), 50))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(int8(c), packed)
	}
	f.Fuzz(func(t *testing.T, c int8, src []byte) {
		const bound = 1 << 16
		if out, err := (codec.Decompressor{}).Decompress(recordbatch.Codec(c), src, bound); err == nil && len(out) > bound {
			t.Fatalf("%d bytes, bound %d", len(out), bound)
		}
	})
}
