package kafkaapi

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ApiVersions (key 18), versions 0 to 4: what is served.
//
// A version that is not served is answered in the layout of version 0 with UNSUPPORTED_VERSION and the whole table, so
// that a newer client finds a version in common (KIP-511). The response header has no tagged fields in any version. From
// version 3 the client's name and version must be like a word, else INVALID_REQUEST.
//
// No features are listed, supported or finalized: a client then knows that transactions of version 2 are not to be had.

func handleApiVersions(r *request) error {
	if r.version < 0 {
		r.version = 0
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.ErrorCode = kerr.UnsupportedVersion.Code
		resp.ApiKeys = advertised()
		return r.respond(resp)
	}
	return typed[kmsg.ApiVersionsRequest](apiVersions)(r)
}

func apiVersions(r *request, req *kmsg.ApiVersionsRequest) kmsg.Response {
	resp := kmsg.NewPtrApiVersionsResponse()
	if r.version >= 3 && !(likeAWord(req.ClientSoftwareName) && likeAWord(req.ClientSoftwareVersion)) {
		resp.ErrorCode = r.code(fmt.Errorf("client software %q version %q: %w", req.ClientSoftwareName, req.ClientSoftwareVersion, kerr.InvalidRequest), refused)
		return resp
	}
	resp.ApiKeys = advertised()
	return resp
}

func advertised() []kmsg.ApiVersionsResponseApiKey {
	keys := make([]kmsg.ApiVersionsResponseApiKey, len(apis))
	for i := range apis {
		keys[i] = kmsg.ApiVersionsResponseApiKey{ApiKey: int16(apis[i].key), MinVersion: apis[i].min, MaxVersion: apis[i].max}
	}
	return keys
}

// likeAWord is Kafka's pattern for client names and versions: letters and digits, and dots and dashes between them.
func likeAWord(s string) bool {
	for i := range len(s) {
		c := s[i]
		inner := i > 0 && i < len(s)-1
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || inner && (c == '-' || c == '.')) {
			return false
		}
	}
	return s != ""
}
