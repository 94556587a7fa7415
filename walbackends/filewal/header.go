package filewal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/internal/vfs"
)

// Names in the directory.
const (
	headerName  = "header"
	headerFresh = "header.new" // becomes header by renaming
	lockName    = "lock"
	slotPattern = "%06d.wal"
)

const (
	headerMagic   = "HPFWAL\x00\x00"
	headerVersion = 1
	headerCopy    = 4096 // each of the two copies
	headerLength  = 64
)

var (
	le         = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// header is the identity and the shape of a log. Its layout is docs/format/filewal.md.
type header struct {
	id      engine.ID
	segment uint64 // bytes
	slots   uint32 // files that exist
}

func (h header) encode() []byte {
	b := make([]byte, headerCopy)
	copy(b, headerMagic)
	le.PutUint32(b[8:], headerVersion)
	le.PutUint32(b[12:], sector)
	copy(b[16:], h.id[:])
	le.PutUint64(b[32:], h.segment)
	le.PutUint32(b[40:], h.slots)
	le.PutUint32(b[headerLength-4:], crc32.Checksum(b[:headerLength-4], castagnoli))
	return append(b, b...)
}

var errHeaderCopy = errors.New("not a valid header")

// decodeHeader reads one copy. errHeaderCopy means that the other should be tried.
func decodeHeader(b []byte) (header, error) {
	var h header
	if len(b) < headerLength || string(b[:8]) != headerMagic ||
		crc32.Checksum(b[:headerLength-4], castagnoli) != le.Uint32(b[headerLength-4:]) {
		return h, errHeaderCopy
	}
	if v := le.Uint32(b[8:]); v != headerVersion {
		return h, fmt.Errorf("%w: format version %d, this release knows %d", engine.ErrInvalid, v, headerVersion)
	}
	copy(h.id[:], b[16:])
	h.segment, h.slots = le.Uint64(b[32:]), le.Uint32(b[40:])
	if s := le.Uint32(b[12:]); s != sector || h.segment < minSegment || h.segment%sector != 0 || h.segment > 1<<40 ||
		h.slots < 1 || h.slots > 1<<20 {
		return h, errHeaderCopy
	}
	return h, nil
}

// readHeader reads the header file. heal says that one copy is damaged and the file should be written anew.
// An absent file is fs.ErrNotExist.
func readHeader(fsys vfs.FS, dir string) (h header, heal bool, err error) {
	name := filepath.Join(dir, headerName)
	f, err := fsys.Open(name)
	if err != nil {
		return h, false, err
	}
	defer f.Close()
	b := make([]byte, 2*headerCopy)
	n, err := readFull(f, b, 0)
	if err != nil {
		return h, false, fmt.Errorf("%w: read %s: %w", engine.ErrUnavailable, name, err)
	}
	b = b[:n]
	first, err := decodeHeader(b)
	if err == nil {
		return first, !bytes.Equal(b, first.encode()), nil
	}
	if !errors.Is(err, errHeaderCopy) {
		return h, false, fmt.Errorf("%s: %w", name, err)
	}
	if len(b) > headerCopy {
		second, err := decodeHeader(b[headerCopy:])
		if err == nil {
			return second, true, nil
		}
		if !errors.Is(err, errHeaderCopy) {
			return h, false, fmt.Errorf("%s: %w", name, err)
		}
	}
	if !bytes.Contains(b, []byte(headerMagic)) && n > 0 && bytes.ContainsFunc(b, func(r rune) bool { return r != 0 }) {
		return h, false, fmt.Errorf("%w: %s is not the header of a WAL", engine.ErrInvalid, name)
	}
	return h, false, &engine.CorruptError{Where: name, Offset: 0, Reason: "neither copy of the header is valid"}
}

// writeHeader replaces the header file; when it returns, the new one is durable.
func writeHeader(fsys vfs.FS, dir string, h header) error {
	fresh := filepath.Join(dir, headerFresh)
	if err := fsys.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := fsys.Create(fresh)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(h.encode(), 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fsys.Rename(fresh, filepath.Join(dir, headerName)); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

func slotName(dir string, slot int) string { return filepath.Join(dir, fmt.Sprintf(slotPattern, slot)) }
