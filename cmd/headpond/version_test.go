package main

import (
	"runtime/debug"
	"testing"
)

func TestVersionIsTheBestThatTheBuildKnows(t *testing.T) {
	checkout := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.modified", Value: "true"}}
	for _, c := range []struct {
		told string
		info *debug.BuildInfo
		want string
	}{
		{"v1.2.3", &debug.BuildInfo{Main: debug.Module{Version: "v9.9.9"}}, "v1.2.3"},
		{"unknown", &debug.BuildInfo{Main: debug.Module{Version: "v9.9.9"}}, "v9.9.9"},
		{"unknown", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: checkout}, "dev-0123456789ab-dirty"},
		{"unknown", &debug.BuildInfo{Settings: checkout[:1]}, "dev-0123456789ab"},
		{"", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "dev"},
		{"unknown", nil, "dev"},
	} {
		if got := chooseVersion(c.told, c.info); got != c.want {
			t.Errorf("told %q: got %s, want %s", c.told, got, c.want)
		}
	}
}
