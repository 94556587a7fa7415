package config

import (
	"fmt"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/headpond/headpond/internal/size"
)

// Memory is a default of --memory and how it came about.
type Memory struct {
	Size size.Size
	From string
}

// DefaultMemory is a quarter of what the cgroup, else the machine, allows, and at least 256 MiB.
func DefaultMemory() Memory {
	limit, what := uint64(0), "cgroup's"
	cgroup, err := memlimit.FromCgroup()
	if err == nil {
		limit = cgroup
	}
	if machine, err := memlimit.FromSystem(); err == nil && (limit == 0 || machine < limit) {
		limit, what = machine, "machine's"
	}
	return quarter(limit, what)
}

func quarter(limit uint64, what string) Memory {
	const least = 256 * size.MiB
	q := size.Size(limit/4) / size.MiB * size.MiB
	if q < least {
		return Memory{least, "the least"}
	}
	return Memory{q, fmt.Sprintf("a quarter of the %s %s", what, size.Size(limit)/size.MiB*size.MiB)}
}
