// Package prove measures the broker's real binary against what it promises about size: partitions, clients, a backlog
// larger than memory, idleness, a store that is away; and damages its data in every way that has a right answer.
//
// The defaults are sizes for every run of the gate. The long run has larger ones: -args -backlog 10GiB -memory 256MiB
// -once. No test bounds elapsed time; what is bounded is memory, with headroom, and processor time, which noise can
// only raise, in the best of several windows.
package prove
