// Package process runs the broker's real binary for tests: builds it once for a test run, starts it on free ports over a
// data directory, waits until it is ready, kills it in every way, and says what memory and CPU it takes.
//
// A test package that uses it has
//
//	func TestMain(m *testing.M) { process.Main(m) }
//
// so that the binary is built once and removed, and no broker outlives the run.
package process
