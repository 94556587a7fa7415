package memobj_test

import (
	"context"
	"testing"

	"github.com/headpond/headpond/engine"
	"github.com/headpond/headpond/objbackends/memobj"
	"github.com/headpond/headpond/objbackends/objtest"
)

func TestContract(t *testing.T) {
	for _, c := range objtest.Checks() {
		t.Run(c.Name, func(t *testing.T) {
			var bucket memobj.Bucket
			h := objtest.Harness{
				Open:  func(context.Context) (engine.ObjectStore, error) { return bucket.Open(), nil },
				Crash: func() error { return nil }, // less than the process cannot fail
				Piece: 64 << 10,
			}
			if err := objtest.Run(t.Context(), h, c); err != nil {
				t.Error(err)
			}
			if n, size := bucket.Size(); n != 0 || size != 0 {
				t.Errorf("%d objects with %d bytes are left", n, size)
			}
		})
	}
}
