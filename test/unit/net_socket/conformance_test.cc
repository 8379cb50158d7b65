#include "plugin/net.h"
#include "test/conformance/net_conformance.h"
#include "transport/net_socket.h"

namespace nccom {
namespace {

NetUnderTest socketNet(const std::string& name, const InterfaceChoice& choice) {
  return {name, [choice] { return openNet({}, [choice] { return openSocketNet(choice); }); }};
}

const auto kNets =
    testing::Values(socketNet("Default", {}), socketNet("Loopback6", {"=lo", "AF_INET6"}));

INSTANTIATE_TEST_SUITE_P(Socket, NetConformance, kNets, netName);
INSTANTIATE_TEST_SUITE_P(Socket, NetProcesses, kNets, netName);

}  // namespace
}  // namespace nccom
