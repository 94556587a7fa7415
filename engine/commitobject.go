package engine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Commits are copied to objects before the log is trimmed past them, so that an index can be rebuilt when it is lost
// (docs/format/commitobject.md). An object holds consecutive commits:
//
//	"HPcl" | version, 4 | then for each commit: length, 4 | CRC-32C of the encoding, 4 | the encoding      all little endian
//
// Its name says which: commits/<cluster>/<first>-<last>-<WAL>-<epoch>. Objects may overlap: copies of one commit are identical,
// and of two that are not, the chain of sums tells which one belongs.
const (
	commitPrefix     = "commits/"
	commitLogMagic   = "HPcl"
	commitLogVersion = 1
)

// commitObjectBytes is about how long a commit-log object gets before another is begun.
const commitObjectBytes = 8 << 20

func commitObjectName(cluster ID, first, last uint64, info WALInfo) string {
	return fmt.Sprintf("%s%x/%020d-%020d-%x-%016x", commitPrefix, cluster, first, last, info.ID, info.Epoch)
}

// saveCommits copies the commits at or below the position to objects. Those that remain are kept for the next time.
func (s *session) saveCommits(ctx context.Context, through Position) error {
	s.saving.Lock() // of two at once each would drop what the other copied
	defer s.saving.Unlock()
	s.mu.Lock()
	n := 0
	for n < len(s.commitLog) && s.commitLog[n].pos <= through {
		n++
	}
	due := slices.Clone(s.commitLog[:n])
	s.mu.Unlock()
	for len(due) > 0 {
		object := []byte(commitLogMagic)
		object = binary.LittleEndian.AppendUint32(object, commitLogVersion)
		n := 0
		for n < len(due) && len(object) < commitObjectBytes {
			encoded, err := s.readCommit(ctx, due[n])
			if err != nil {
				return err
			}
			object = binary.LittleEndian.AppendUint32(object, uint32(len(encoded)))
			object = binary.LittleEndian.AppendUint32(object, crc32.Checksum(encoded, castagnoli))
			object = append(object, encoded...)
			n++
		}
		name := commitObjectName(s.e.cluster, due[0].seq, due[n-1].seq, s.info)
		err := s.e.store.put(ctx, name, int64(len(object)), func() io.Reader { return bytes.NewReader(object) })
		if err != nil {
			return fmt.Errorf("copy commits %d to %d to %s: %w", due[0].seq, due[n-1].seq, name, err)
		}
		s.mu.Lock()
		s.commitLog = s.commitLog[n:]
		s.mu.Unlock()
		due = due[n:]
	}
	return nil
}

// saveAllCommits copies every commit that the log holds.
func (s *session) saveAllCommits(ctx context.Context) error {
	s.mu.Lock()
	through := s.done
	s.mu.Unlock()
	return s.saveCommits(ctx, through)
}

// readCommit reads one commit back from the log.
func (s *session) readCommit(ctx context.Context, l loggedCommit) (encoded []byte, err error) {
	err = s.wal.Read(ctx, l.before, l.pos, func(pos Position, record []byte) bool {
		if kind, _, body, splitErr := splitRecord(record); splitErr == nil && kind == walCommit && pos == l.pos {
			encoded = slices.Clone(body)
		}
		return true
	})
	if err == nil && encoded == nil {
		err = &CorruptError{Where: s.info.URL, Offset: -1, Reason: fmt.Sprintf("no commit at WAL position %d", l.pos)}
	}
	if err != nil {
		return nil, fmt.Errorf("read commit %d from the log: %w", l.seq, err)
	}
	return encoded, nil
}

// commitObject is a commit-log object as its name describes it.
type commitObject struct {
	name        string
	size        int64
	first, last uint64
}

func parseCommitObject(cluster ID, a ObjectAttrs) (commitObject, bool) {
	rest, ok := strings.CutPrefix(a.Name, fmt.Sprintf("%s%x/", commitPrefix, cluster))
	parts := strings.Split(rest, "-")
	if !ok || len(parts) != 4 {
		return commitObject{}, false
	}
	first, err1 := strconv.ParseUint(parts[0], 10, 64)
	last, err2 := strconv.ParseUint(parts[1], 10, 64)
	return commitObject{name: a.Name, size: a.Size, first: first, last: last}, err1 == nil && err2 == nil && first > 0 && first <= last
}

// readCommits calls fn for the commits from the given one on that objects hold, in order and without a gap, as far as they go.
func (c *storeClient) readCommits(ctx context.Context, cluster ID, from uint64, fn func(*Commit, uint32) error) error {
	listed, err := c.list(ctx, fmt.Sprintf("%s%x/", commitPrefix, cluster), nil)
	if err != nil {
		return fmt.Errorf("commit-log objects: %w", err)
	}
	var objects []commitObject
	for _, a := range listed {
		if o, ok := parseCommitObject(cluster, a); ok && o.last >= from {
			objects = append(objects, o)
		}
	}
	// Of objects that begin with the same commit the longer comes first; what it holds of the others is passed over.
	slices.SortFunc(objects, func(a, b commitObject) int {
		if a.first != b.first {
			return cmp.Compare(a.first, b.first)
		}
		return cmp.Compare(b.last, a.last)
	})
	next := from
	for _, o := range objects {
		if o.last < next {
			continue
		}
		if o.first > next {
			return &CorruptError{Where: commitPrefix, Offset: -1, Reason: fmt.Sprintf("commits %d to %d are in no object; %s comes next", next, o.first-1, o.name)}
		}
		b, err := c.get(ctx, o.name, 0, o.size)
		if err != nil {
			return fmt.Errorf("commit-log object %s: %w", o.name, err)
		}
		err = decodeCommitObject(o.name, b.Bytes(), func(encoded []byte) error {
			commit, err := DecodeCommit(encoded)
			if err != nil || commit.Seq != next {
				return err // an earlier object held it
			}
			next++
			return fn(commit, CommitSum(encoded))
		})
		b.Release()
		if err != nil {
			return fmt.Errorf("commit-log object %s: %w", o.name, err)
		}
	}
	return nil
}

// decodeCommitObject calls fn for each encoded commit.
func decodeCommitObject(name string, b []byte, fn func([]byte) error) error {
	damaged := func(at int, reason string) error {
		return &CorruptError{Where: name, Offset: int64(at), Reason: reason}
	}
	if len(b) < 8 || string(b[:4]) != commitLogMagic {
		return damaged(0, "not a commit-log object")
	}
	if v := binary.LittleEndian.Uint32(b[4:]); v != commitLogVersion {
		return fmt.Errorf("%w: %s has version %d, and this program knows %d", ErrInvalid, name, v, commitLogVersion)
	}
	for at := 8; at < len(b); {
		if len(b)-at < 8 {
			return damaged(at, "it ends within a commit's header")
		}
		n, sum := int(binary.LittleEndian.Uint32(b[at:])), binary.LittleEndian.Uint32(b[at+4:])
		if n > len(b)-at-8 {
			return damaged(at, fmt.Sprintf("a commit of %d bytes does not fit", n))
		}
		encoded := b[at+8 : at+8+n]
		if crc32.Checksum(encoded, castagnoli) != sum {
			return damaged(at, "checksum of a commit")
		}
		if err := fn(encoded); err != nil {
			return err
		}
		at += 8 + n
	}
	return nil
}
