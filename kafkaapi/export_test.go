package kafkaapi

import "github.com/twmb/franz-go/pkg/kmsg"

// Served calls fn for each version of each API that is served.
func Served(fn func(key kmsg.Key, version int16)) {
	for _, a := range apis {
		for v := a.served; v <= a.max; v++ {
			fn(a.key, v)
		}
	}
}
