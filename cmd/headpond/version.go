package main

import "runtime/debug"

// version is set by the build, with -ldflags "-X main.version=…". Without that it is unknown.
var version = "unknown"

// versionName is what this program calls itself: the version that its build was told, else what Go wrote into it, which
// go install MODULE@VERSION and a build in a checkout do; else dev, as with go run.
func versionName() string {
	info, _ := debug.ReadBuildInfo()
	return chooseVersion(version, info)
}

func chooseVersion(told string, info *debug.BuildInfo) string {
	if told != "unknown" && told != "" {
		return told
	}
	if info == nil {
		return "dev"
	}
	// With -buildvcs, Go makes a pseudo-version here of the commit and its time.
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	commit, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if commit == "" {
		return "dev"
	}
	return "dev-" + commit + dirty
}
