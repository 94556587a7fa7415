package group

import (
	"encoding/binary"
	"fmt"

	"github.com/headpond/headpond/engine"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Versions of the keys and values of the topic, as Kafka writes them. The version of a key says what kind it is: 0 and 1
// are an offset, 2 is a group. The offset's value is version 4, whose tagged field carries the topic's id: without it,
// the offsets of a deleted topic would become those of a new one with the same name.
const (
	offsetKeyVersion   = 1
	groupKeyVersion    = 2
	offsetValueVersion = 4
	groupValueVersion  = 3
)

// record is one key and value of the topic; a nil value deletes the key.
type record struct {
	key, value []byte
}

func (r record) size() int { return len(r.key) + len(r.value) }

type topicPartition struct {
	topic     string
	partition int32
}

// offset is a committed offset.
type offset struct {
	at          int64
	leaderEpoch int32
	metadata    string
	committed   int64     // ms since 1970
	topicID     engine.ID // zero: written by a program that knew none
}

func offsetKey(group string, tp topicPartition) []byte {
	k := kmsg.OffsetCommitKey{Version: offsetKeyVersion, Group: group, Topic: tp.topic, Partition: tp.partition}
	return k.AppendTo(nil)
}

func offsetRecord(group string, tp topicPartition, o offset) record {
	v := kmsg.OffsetCommitValue{
		Version: offsetValueVersion, Offset: o.at, LeaderEpoch: o.leaderEpoch,
		Metadata: o.metadata, CommitTimestamp: o.committed, TopicID: o.topicID,
	}
	return record{offsetKey(group, tp), v.AppendTo(nil)}
}

func groupKey(group string) []byte {
	k := kmsg.GroupMetadataKey{Version: groupKeyVersion, Group: group}
	return k.AppendTo(nil)
}

// image is what a log says, keyed by group.
type image map[string]*groupImage

type groupImage struct {
	meta    []byte // encoded kmsg.GroupMetadataValue; nil: none
	offsets map[topicPartition]offset
}

func (i image) group(id string) *groupImage {
	g := i[id]
	if g == nil {
		g = &groupImage{offsets: map[topicPartition]offset{}}
		i[id] = g
	}
	return g
}

// apply adds a record to the image. It keeps none of the record's memory. A key of a kind that this program does not know is
// skipped and reported as false; bytes that cannot be decoded are [engine.ErrCorrupt].
func (i image) apply(key, value []byte) (known bool, err error) {
	if len(key) < 2 {
		return false, fmt.Errorf("%w: key of %d bytes", engine.ErrCorrupt, len(key))
	}
	switch version := int16(binary.BigEndian.Uint16(key)); version {
	case 0, offsetKeyVersion:
		var k kmsg.OffsetCommitKey
		if err := k.ReadFrom(key); err != nil {
			return true, fmt.Errorf("%w: key of an offset: %w", engine.ErrCorrupt, err)
		}
		return true, i.applyOffset(k, value)
	case groupKeyVersion:
		var k kmsg.GroupMetadataKey
		if err := k.ReadFrom(key); err != nil {
			return true, fmt.Errorf("%w: key of a group: %w", engine.ErrCorrupt, err)
		}
		if value == nil {
			if g := i[k.Group]; g != nil {
				g.meta = nil
				i.dropIfBare(k.Group, g)
			}
			return true, nil
		}
		i.group(k.Group).meta = append([]byte{}, value...)
		return true, nil
	}
	return false, nil
}

func (i image) applyOffset(k kmsg.OffsetCommitKey, value []byte) error {
	tp := topicPartition{k.Topic, k.Partition}
	if value == nil {
		if g := i[k.Group]; g != nil {
			delete(g.offsets, tp)
			i.dropIfBare(k.Group, g)
		}
		return nil
	}
	var v kmsg.OffsetCommitValue
	if err := v.ReadFrom(value); err != nil {
		return fmt.Errorf("%w: offset of group %q: %w", engine.ErrCorrupt, k.Group, err)
	}
	if v.Version < 3 {
		v.LeaderEpoch = -1
	}
	i.group(k.Group).offsets[tp] = offset{v.Offset, v.LeaderEpoch, v.Metadata, v.CommitTimestamp, v.TopicID}
	return nil
}

func (i image) dropIfBare(id string, g *groupImage) {
	if g.meta == nil && len(g.offsets) == 0 {
		delete(i, id)
	}
}
