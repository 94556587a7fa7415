package crash

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/headpond/headpond/conformance/disk"
	"github.com/headpond/headpond/conformance/process"
)

// The tests of power failures would notice a broker that leaves a sync out. A disk that says it has synced and has not
// stands for such a broker: what it loses must come out, as an anomaly in the history, or as a refusal to start.
func TestALeftOutSyncIsNoticed(t *testing.T) {
	for name, lies := range map[string]disk.Lies{
		"of files":       {FileSync: true},
		"of directories": {DirSync: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, config{onDisk: true})
			r.disk.SetLies(lies)
			r.run()
			// Until some of it is in objects and no longer in the log.
			process.Eventually(t, "uploads", func() bool {
				n, err := r.broker.Metric("headpond_upload_objects_total")
				r.must(err)
				return n >= 20
			})
			r.broker.Kill()
			r.must(r.disk.Unmount())
			loss := r.disk.PowerFail(r.rng, 0)
			r.disk.SetLies(disk.Lies{})
			r.must(r.disk.Mount(r.mount))
			t.Logf("%d sectors and %d changes of directories lost", loss.Sectors, loss.Names)
			err := r.notice()
			if err == nil {
				t.Fatal("nothing was noticed")
			}
			t.Logf("noticed: %.2000v", err)
		})
	}
}

// notice starts the broker and says what is wrong, if anything is.
func (r *rig) notice() error {
	if err := r.broker.TryStart(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	if err := r.load.ReadAll(ctx); err != nil {
		return err
	}
	report, err := r.load.Check()
	if err == nil && !report.OK() {
		err = fmt.Errorf("%s", report)
	}
	return err
}
