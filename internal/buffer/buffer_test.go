package buffer

import "testing"

func TestGetHasTheAskedLengthInItsClass(t *testing.T) {
	for n, want := range map[int]int{
		0: 512, 1: 512, 512: 512, 513: 768, 768: 768, 769: 1024, 64<<10 + 100: 96 << 10, 96<<10 + 1: 128 << 10,
		3 << 19: 3 << 19, 3<<19 + 1: 1 << 21, 1 << 21: 1 << 21, 1<<21 + 1: 1<<21 + 1,
	} {
		b := Get(n)
		if len(b.Bytes()) != n || b.Cap() < want || want <= 1<<21 && b.Cap() != want {
			t.Errorf("Get(%d): length %d, capacity %d, want %d", n, len(b.Bytes()), b.Cap(), want)
		}
		b.Release()
	}
}

func TestMisuseOfHoldsPanics(t *testing.T) {
	for name, misuse := range map[string]func(){
		"release twice":        func() { b := &Buffer{class: -1}; b.refs.Store(1); b.Release(); b.Release() },
		"retain after release": func() { b := &Buffer{class: -1}; b.refs.Store(1); b.Release(); b.Retain() },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			misuse()
		})
	}
}
