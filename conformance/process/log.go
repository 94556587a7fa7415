package process

import "os"

// logFile takes what a broker prints. The process writes to it itself, so nothing is lost when it is killed.
type logFile struct {
	path string
	f    *os.File
}

func newLogFile(path string) (*logFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	return &logFile{path, f}, err
}

func (l *logFile) close() { l.f.Close() }

// tail returns the last n bytes.
func (l *logFile) tail(n int64) []byte {
	f, err := os.Open(l.path)
	if err != nil {
		return []byte(err.Error())
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return []byte(err.Error())
	}
	n = min(n, st.Size())
	buf := make([]byte, n)
	got, _ := f.ReadAt(buf, st.Size()-n)
	return buf[:got]
}

func (l *logFile) size() int64 {
	st, err := os.Stat(l.path)
	if err != nil {
		return 0
	}
	return st.Size()
}
