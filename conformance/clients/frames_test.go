package clients

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// header makes the start of a frame: key, version, correlation id, client id, and the tags of a flexible header.
func frameHeader(key, version int16, flexible bool) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, 7)
	b = append(b, 0, 1, 'c')
	if flexible {
		b = append(b, 0)
	}
	return b
}

// frame puts a length in front.
func frame(parts ...[]byte) []byte {
	body := bytes.Join(parts, nil)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

var (
	maxInt32  = []byte{0x7f, 0xff, 0xff, 0xff}
	minInt32  = []byte{0x80, 0, 0, 0}
	maxVarint = []byte{0xff, 0xff, 0xff, 0xff, 0x0f} // 2^32-1
	overlong  = bytes.Repeat([]byte{0xff}, 16)       // a varint without an end
)

// truncated frames end their connection once the client has ended its side.
func truncatedFrames() map[string][]byte {
	return map[string][]byte{
		"nothing":               {},
		"half a length":         {0, 0},
		"a length and no frame": {0, 0, 0, 10},
		"a truncated frame":     frame(frameHeader(3, 1, false), make([]byte, 100))[:50],
	}
}

// badFrames make the broker close the connection by itself.
func badFrames() map[string][]byte {
	return map[string][]byte{
		"a negative length":           minInt32,
		"a length of minus one":       {0xff, 0xff, 0xff, 0xff},
		"a length of 2 GiB":           append(bytes.Clone(maxInt32), make([]byte, 1000)...),
		"an empty frame":              {0, 0, 0, 0},
		"half a header":               frame([]byte{0, 3, 0}),
		"a client id beyond the end":  frame([]byte{0, 3, 0, 1, 0, 0, 0, 1, 0x7f, 0xff, 'c'}),
		"an unknown key":              frame(frameHeader(9999, 0, false)),
		"a negative key":              frame(frameHeader(-1, 0, false)),
		"a version out of range":      frame(frameHeader(3, 999, true)),
		"a negative version":          frame(frameHeader(3, -5, false)),
		"2^31-1 topics":               frame(frameHeader(3, 1, false), maxInt32),
		"2^32-2 topics, compact":      frame(frameHeader(3, 12, true), maxVarint),
		"an overlong varint":          frame(frameHeader(3, 12, true), overlong),
		"a million tags":              frame(frameHeader(3, 12, false), []byte{0xc0, 0x84, 0x3d}, make([]byte, 100)),
		"produce of 2^31-1 topics":    frame(frameHeader(0, 8, false), []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 100}, maxInt32),
		"fetch of 2^31-1 topics":      frame(frameHeader(1, 11, false), bytes.Repeat([]byte{0xff}, 4), make([]byte, 21), maxInt32),
		"records of 2 GiB in produce": frame(frameHeader(0, 8, false), []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 100, 0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 1, 0, 0, 0, 0}, maxInt32),
	}
}

// send writes bytes on a connection of its own, ends the sending side if asked to, and reads until the broker closes.
func send(t *testing.T, addr string, b []byte, end bool) []byte {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	c.Write(b) // the broker may close before it is all written
	if end {
		c.(*net.TCPConn).CloseWrite()
	}
	answer, err := io.ReadAll(c)
	if nerr, ok := err.(net.Error); ok && nerr.Timeout() {
		t.Fatalf("the connection was not closed; %d bytes of answer", len(answer))
	}
	return answer
}

// stillThere asks for the API versions.
func stillThere(t *testing.T, addr string) {
	t.Helper()
	if answer := send(t, addr, frame(frameHeader(18, 0, false)), true); len(answer) < 20 {
		t.Fatalf("answer to ApiVersions: %x", answer)
	}
}

// Frames that are truncated, negative, too long, or whose counts lie close their connection; the broker lives, other
// connections do too, and its memory stays flat.
func TestBadFramesCloseTheirConnectionAndCostNothing(t *testing.T) {
	b := own(t)
	bystander, err := net.Dial("tcp", b.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer bystander.Close()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))

	flat := func(name string, fn func()) {
		t.Helper()
		before, merr := b.Memory()
		fn()
		if !b.Alive() {
			t.Fatalf("%s: the broker has died", name)
		}
		stillThere(t, b.Addr)
		// The heap may grow a little for connections; one lie believed is 2 GiB, or 16 bytes for each of 2^31 elements.
		if after, err := b.Memory(); err == nil && merr == nil && after.Peak > max(before.Peak, before.Now)+128<<20 {
			t.Fatalf("%s: memory went from %d to a peak of %d MiB", name, before.Now>>20, after.Peak>>20)
		}
	}
	for end, frames := range map[bool]map[string][]byte{true: truncatedFrames(), false: badFrames()} {
		for name, bytes := range frames {
			flat(name, func() {
				for range 10 {
					if answer := send(t, b.Addr, bytes, end); len(answer) > 0 {
						t.Errorf("%s: answered with %x", name, answer[:min(len(answer), 64)])
					}
				}
			})
		}
	}
	flat("lying counts in every request", func() {
		for key := int16(0); key <= kmsg.MaxKey; key++ {
			req := kmsg.RequestForKey(key)
			if req == nil {
				continue
			}
			for version := int16(0); version <= req.MaxVersion(); version++ {
				req.SetVersion(version)
				head := frameHeader(key, version, req.IsFlexible())
				for _, lie := range [][]byte{maxInt32, minInt32, maxVarint, overlong} {
					send(t, b.Addr, frame(head, bytes.Repeat(lie, 16)), true)
				}
			}
		}
	})
	flat("noise", func() {
		for range 500 {
			noise := make([]byte, rng.IntN(4096))
			for i := range noise {
				noise[i] = byte(rng.Uint32())
			}
			key := int16(rng.IntN(int(kmsg.MaxKey)))
			if req := kmsg.RequestForKey(key); req != nil {
				version := int16(rng.IntN(int(req.MaxVersion()) + 1))
				req.SetVersion(version)
				send(t, b.Addr, frame(frameHeader(key, version, req.IsFlexible()), noise), true)
			}
		}
	})
	// The connection that was open all the time still works.
	bystander.SetDeadline(time.Now().Add(time.Minute))
	if _, err := bystander.Write(frame(frameHeader(18, 0, false))); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(bystander, make([]byte, 10)); err != nil {
		t.Fatalf("the bystander's connection: %v", err)
	}
}
