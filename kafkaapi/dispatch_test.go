package kafkaapi

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestTableAgreesWithTheProtocol(t *testing.T) {
	last := kmsg.Key(-1)
	for _, a := range apis {
		if a.key <= last {
			t.Errorf("%s: key %d comes after key %d", a.name, a.key, last)
		}
		last = a.key
		req := a.key.Request()
		if req == nil {
			t.Fatalf("key %d is none of the protocol's", a.key)
		}
		if a.name != a.key.Name() && a.name != "InitProducerId" {
			t.Errorf("key %d is named %s, the protocol says %s", a.key, a.name, a.key.Name())
		}
		if a.max > req.MaxVersion() || a.min > a.served || a.served > a.max || a.handle == nil {
			t.Errorf("%s: versions %d to %d, served from %d, protocol to %d", a.name, a.min, a.max, a.served, req.MaxVersion())
		}
		for v := a.served; v <= a.max; v++ {
			req.SetVersion(v)
			if got := v >= a.flexible; got != req.IsFlexible() {
				t.Errorf("%s version %d: flexible %v, the protocol says %v", a.name, v, got, req.IsFlexible())
			}
		}
	}
}

// Clients tell what a broker can do from what it lists: these are the floors that old ones need, and what must not be there.
func TestAdvertisedRangesSuitOldClients(t *testing.T) {
	want := map[int16][2]int16{0: {0, 11}, 1: {4, 17}, 2: {1, 10}, 3: {0, 13}, 10: {0, 6}, 18: {0, 4}, 22: {0, 5}}
	for _, k := range advertised() {
		if w, ok := want[k.ApiKey]; ok && (k.MinVersion != w[0] || k.MaxVersion != w[1]) {
			t.Errorf("key %d: %d to %d, want %d to %d", k.ApiKey, k.MinVersion, k.MaxVersion, w[0], w[1])
		}
		delete(want, k.ApiKey)
		switch k.ApiKey {
		case 24, 25, 26, 28:
			t.Errorf("key %d is of transactions, which are not served", k.ApiKey)
		}
	}
	if len(want) > 0 {
		t.Errorf("not advertised: %v", want)
	}
}
