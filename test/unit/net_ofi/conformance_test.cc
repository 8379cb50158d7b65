// The plugin through its C table, over the providers that work on any machine.
#include "test/conformance/net_conformance.h"
#include "test/unit/net_ofi/ofi_net.h"

namespace nccom {
namespace {

const auto kNets = testing::Values(ofiNet("Tcp", "tcp", ""), ofiNet("Shm", "shm", ""),
                                   ofiNet("TcpMessage", "tcp", "message"));

INSTANTIATE_TEST_SUITE_P(Ofi, NetConformance, kNets, netName);
INSTANTIATE_TEST_SUITE_P(Ofi, NetProcesses, kNets, netName);

}  // namespace
}  // namespace nccom
