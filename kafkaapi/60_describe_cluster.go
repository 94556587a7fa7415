package kafkaapi

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeCluster (key 60), versions 0 to 2: the cluster's id and its one broker, which is also its controller.
//
// From 1 the client says whether it wants brokers or controllers; there are only brokers to speak of.

const endpointBroker = 1

func describeCluster(r *request, req *kmsg.DescribeClusterRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.EndpointType = endpointBroker
	if r.version >= 1 && req.EndpointType != endpointBroker {
		err := refuse(kerr.UnsupportedEndpointType, fmt.Sprintf("endpoints of type %d are not served, brokers are", req.EndpointType))
		resp.ErrorCode, resp.ErrorMessage = r.code(err, refused), message(err)
		return resp
	}
	resp.ClusterID = r.c.s.clusterID
	resp.ControllerID = r.c.s.o.NodeID
	broker := kmsg.NewDescribeClusterResponseBroker()
	broker.NodeID = r.c.s.o.NodeID
	broker.Host, broker.Port = r.c.advertised()
	resp.Brokers = append(resp.Brokers, broker)
	return resp
}
