// Package codec compresses and expands the records of batches with Kafka's four codecs.
//
// lz4 is the frame format. Snappy is read raw and in the framing of the Java library xerial-snappy, which Java clients
// write, and is written in that framing, which every client reads.
package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/headpond/headpond/internal/recordbatch"
)

// Decompressor is a [recordbatch.Decompressor]. The zero value is ready.
type Decompressor struct{}

var _ recordbatch.Decompressor = Decompressor{}

// Decompress implements [recordbatch.Decompressor].
func (Decompressor) Decompress(c recordbatch.Codec, src []byte, maxBytes int) ([]byte, error) {
	var out []byte
	var err error
	switch c {
	case recordbatch.None:
		if len(src) > maxBytes {
			return nil, tooLarge(c, maxBytes)
		}
		return bytes.Clone(src), nil
	case recordbatch.Snappy:
		out, err = expandSnappy(src, maxBytes)
	case recordbatch.Gzip, recordbatch.LZ4, recordbatch.Zstd:
		out, err = expandStream(c, src, maxBytes)
	default:
		return nil, fmt.Errorf("expand %d bytes: %w: codec %d", len(src), recordbatch.ErrUnsupportedCompression, c)
	}
	switch {
	case errors.Is(err, recordbatch.ErrTooLarge):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("expand %d bytes of %s: %w: %w", len(src), c, recordbatch.ErrCorruptMessage, err)
	}
	return out, nil
}

func tooLarge(c recordbatch.Codec, maxBytes int) error {
	return fmt.Errorf("expand %s: %w: more than %d bytes", c, recordbatch.ErrTooLarge, maxBytes)
}

// expandStream reads the three codecs that are streams, and stops one byte past the bound.
func expandStream(c recordbatch.Codec, src []byte, maxBytes int) ([]byte, error) {
	var r io.Reader
	switch in := bytes.NewReader(src); c {
	case recordbatch.Gzip:
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		defer func() { _ = z.Close() }()
		r = z
	case recordbatch.LZ4:
		r = lz4.NewReader(in)
	default:
		// The window bounds what the decoder allocates by itself; 8 MiB is what RFC 8878 asks every decoder to take.
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8<<20))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		r = z
	}
	var out bytes.Buffer
	n, err := io.Copy(&out, io.LimitReader(r, int64(maxBytes)+1))
	if err != nil {
		return nil, err
	}
	if n > int64(maxBytes) {
		return nil, tooLarge(c, maxBytes)
	}
	return out.Bytes(), nil
}

// The xerial framing: this magic, version and lowest compatible version (two int32), then blocks of an int32 length and
// raw snappy. Source: https://github.com/xerial/snappy-java, SnappyCodec.java.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const (
	xerialHeader = 16
	xerialBlock  = 32 << 10 // bytes of a block before compression, the Java library's default
)

func expandSnappy(src []byte, maxBytes int) ([]byte, error) {
	if len(src) < xerialHeader || !bytes.HasPrefix(src, xerialMagic) {
		return appendSnappy(nil, src, maxBytes)
	}
	var out []byte
	for p := src[xerialHeader:]; len(p) > 0; {
		if len(p) < 4 {
			return nil, io.ErrUnexpectedEOF
		}
		n := int64(binary.BigEndian.Uint32(p))
		if n > int64(len(p)-4) {
			return nil, io.ErrUnexpectedEOF
		}
		var err error
		if out, err = appendSnappy(out, p[4:4+n], maxBytes); err != nil {
			return nil, err
		}
		p = p[4+n:]
	}
	return out, nil
}

// appendSnappy expands one raw block behind out. The block states its length, which is checked before it is believed:
// a byte of snappy expands to at most some 22 (a 3-byte copy of 64).
func appendSnappy(out, block []byte, maxBytes int) ([]byte, error) {
	n, err := s2.DecodedLen(block)
	if err != nil {
		return nil, err
	}
	if n > maxBytes-len(out) {
		return nil, tooLarge(recordbatch.Snappy, maxBytes)
	}
	if n > 64*len(block) {
		return nil, fmt.Errorf("%d bytes cannot expand to %d", len(block), n)
	}
	data, err := s2.Decode(nil, block)
	if err != nil {
		return nil, err
	}
	if out == nil {
		return data, nil
	}
	return append(out, data...), nil
}

// Compress returns src compressed, in a new slice. An unknown codec is [recordbatch.ErrUnsupportedCompression].
func Compress(c recordbatch.Codec, src []byte) ([]byte, error) {
	var out bytes.Buffer
	var w io.WriteCloser
	switch c {
	case recordbatch.None:
		return bytes.Clone(src), nil
	case recordbatch.Snappy:
		return compressSnappy(src), nil
	case recordbatch.Gzip:
		w = gzip.NewWriter(&out)
	case recordbatch.LZ4:
		w = lz4.NewWriter(&out)
	case recordbatch.Zstd:
		z, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		w = z
	default:
		return nil, fmt.Errorf("compress %d bytes: %w: codec %d", len(src), recordbatch.ErrUnsupportedCompression, c)
	}
	_, err := w.Write(src)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("compress %d bytes with %s: %w", len(src), c, err)
	}
	return out.Bytes(), nil
}

func compressSnappy(src []byte) []byte {
	out := append(bytes.Clone(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1)
	for {
		n := min(len(src), xerialBlock)
		block := s2.EncodeSnappy(nil, src[:n])
		out = binary.BigEndian.AppendUint32(out, uint32(len(block)))
		out = append(out, block...)
		if src = src[n:]; len(src) == 0 {
			return out // with one block at least: some clients refuse a frame without
		}
	}
}
