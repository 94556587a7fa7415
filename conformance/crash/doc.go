// Package crash kills a broker under load, again and again, and checks the history of its clients after each time.
//
// The tests run the real binary. kill -9 alone keeps what the kernel has taken, so they run on a disk that loses
// what was not synced, too. Flags, after -args: -rounds N kills, -seed N repeats a run's choices, -racebuild runs
// the kills with a broker built with the race detector.
package crash
