package group

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// roundTrip is the response as a client of its version reads it.
func roundTrip[R kmsg.Response](t *testing.T, resp R) R {
	t.Helper()
	read := kmsg.ResponseForKey(resp.Key())
	read.SetVersion(resp.GetVersion())
	if err := read.ReadFrom(resp.AppendTo(nil)); err != nil {
		t.Fatalf("response %T of version %d: %v", resp, resp.GetVersion(), err)
	}
	return read.(R)
}
