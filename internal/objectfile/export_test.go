package objectfile

import (
	"encoding/binary"
	"hash/crc32"
)

// Reseal gives an object the checksums that its bytes have, as far as it has the places for them.
func Reseal(b []byte) {
	size := int64(len(b))
	if size < HeaderSize+FooterSize {
		return
	}
	le := binary.LittleEndian
	le.PutUint32(b[HeaderSize-4:], crc32.Checksum(b[:HeaderSize-4], castagnoli))
	foot := b[size-FooterSize:]
	if pos := le.Uint64(foot[metaSize:]); pos < uint64(size-FooterSize) {
		le.PutUint32(foot[metaSize+20:], crc32.Checksum(b[pos:size-FooterSize], castagnoli))
	}
	le.PutUint32(foot[metaSize+24:], crc32.Checksum(foot[:metaSize+24], castagnoli))
	copy(foot[metaSize+28:], footerMagic)
}

// FooterKey is the name that the footer gives the object, whatever else is wrong with it.
func FooterKey(b []byte) string {
	if int64(len(b)) < FooterSize {
		return ""
	}
	return decodeMeta(b[int64(len(b))-FooterSize:]).Key()
}
