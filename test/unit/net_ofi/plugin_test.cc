// What only this plugin promises: its choice of a provider, and what it leaves behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "plugins/net_ofi/interfaces.h"
#include "plugins/net_ofi/provider.h"
#include "test/conformance/net_conformance.h"
#include "test/unit/net_ofi/ofi_net.h"

namespace nccom {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string providerOf(const std::string& asked, const std::string& ifname = "",
                       const std::string& protocol = "") {
  startLibfabric();
  std::vector<std::shared_ptr<const ofi::Device>> devices;
  if (ofi::findDevices({asked, ifname, protocol}, devices) != ncclSuccess) return "none";
  return devices.at(0)->provider();
}

TEST(OfiProvider, IsTheOneThatIsNamed) {
  EXPECT_EQ(providerOf("tcp"), "tcp;ofi_rxm");
  EXPECT_EQ(providerOf("tcp;ofi_rxm"), "tcp;ofi_rxm");
  EXPECT_EQ(providerOf("shm"), "shm");
  EXPECT_EQ(providerOf("sockets"), "sockets");
  EXPECT_EQ(providerOf("nosuch,sockets"), "sockets");
  EXPECT_EQ(providerOf("nosuch"), "none");
  EXPECT_EQ(providerOf("tc"), "none");
}

TEST(OfiProvider, IsByDefaultTheBestThatReachesOtherHosts) {
  const std::string best = providerOf("");
  EXPECT_NE(best, "shm");
  EXPECT_NE(best, "sockets");
  EXPECT_NE(providerOf("^tcp"), "tcp;ofi_rxm");
  EXPECT_EQ(providerOf("^tcp,net,efa,verbs,psm2,psm,psm3,opx,cxi"), "sockets");
}

TEST(OfiProvider, HasADeviceForEachInterfaceThatIsListed) {
  startLibfabric();
  std::vector<std::shared_ptr<const ofi::Device>> devices;
  ASSERT_EQ(ofi::findDevices({"tcp", "=lo", ""}, devices), ncclSuccess);
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(devices[0]->name, "lo");
  EXPECT_EQ(devices[0]->controlAddress.sin6_family, AF_INET);
  EXPECT_GT(devices[0]->speedMbps, 0);
  EXPECT_EQ(providerOf("tcp", "nosuchif"), "none");
}

TEST(OfiProvider, TakesAProtocolByName) {
  EXPECT_EQ(providerOf("tcp", "", "message"), "tcp;ofi_rxm");
  EXPECT_EQ(providerOf("tcp", "", "TAGGED"), "tcp;ofi_rxm");
  EXPECT_EQ(providerOf("tcp", "", "pigeon"), "none");
}

TEST(OfiInterfaces, AreListedAsUsersOfNcclListThem) {
  EXPECT_TRUE(ofi::interfaceListed("", "eth0"));
  EXPECT_FALSE(ofi::interfaceListed("", "lo"));
  EXPECT_FALSE(ofi::interfaceListed("", "docker0"));
  EXPECT_TRUE(ofi::interfaceListed("eth", "eth1"));
  EXPECT_FALSE(ofi::interfaceListed("=eth", "eth1"));
  EXPECT_TRUE(ofi::interfaceListed("=ib0,=x,eth1", "eth1"));
  EXPECT_FALSE(ofi::interfaceListed("^eth", "eth1"));
  EXPECT_TRUE(ofi::interfaceListed("^=eth", "eth1"));
}

TEST(OfiPlugin, SaysWhichProvidersThereAre) {
  const auto net = ofiNet("Bad", "nosuch", "").open();
  ASSERT_FALSE(net.ok());
  EXPECT_THAT(net.error().message,
              AllOf(HasSubstr("init failed"), HasSubstr("FI_PROVIDER 'nosuch'"), HasSubstr("tcp"),
                    HasSubstr("shm")));
}

TEST(OfiPlugin, RefusesAPeerOfAnotherProvider) {
  const auto listening = ofiNet("A", "tcp", "").open();
  ASSERT_TRUE(listening.ok()) << listening.error().message;
  Net& net = *listening.value();
  NetHandle handle{};
  const UniqueNetListen listener(net, net.listen(0, handle).value());
  const auto other = ofiNet("B", "sockets", "").open();  // another init: new comms use sockets
  ASSERT_TRUE(other.ok()) << other.error().message;
  std::string refusal, refused;
  for (int i = 0; i < 1000000 && (refusal.empty() || refused.empty()); ++i) {
    if (refused.empty()) {
      const auto connected = net.connect(0, handle);
      if (!connected.ok()) refused = connected.error().message;
    }
    if (refusal.empty()) {
      const auto accepted = net.accept(listener.get());
      if (!accepted.ok()) refusal = accepted.error().message;
    }
  }
  EXPECT_THAT(refusal, AllOf(HasSubstr("sockets"), HasSubstr("tcp")));
  EXPECT_THAT(refused, AllOf(HasSubstr("sockets"), HasSubstr("tcp")));
}

class OfiShm : public NetProcesses {};

TEST_P(OfiShm, LeavesNothingWhenAPeerIsKilled) {
  const auto sharedMemory = [] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  };
  const std::vector<std::string> before = sharedMemory();
  const Pipe handles, ready;
  {
    ChildProcess child([&] {
      auto opened = GetParam().open();
      NetHandle handle;
      if (!opened.ok() || !handles.read(handle.data(), handle.size())) return 2;
      NetSendComm* comm = nullptr;
      while (comm == nullptr)
        comm = opened.value()->connect(0, handle).value();
      ready.write("x", 1);
      pause();
      return 0;
    });
    NetLink link;
    link.recv = acceptFrom(handles);
    char byte = 0;
    ASSERT_TRUE(link.recv && ready.read(&byte, 1));
    EXPECT_GT(sharedMemory().size(), before.size());
    {
      RecvBuffer to(net(), link.recv.get(), 8);
      NetRequest* request = irecv(link, {to.whole()});
      child.kill();
      EXPECT_THAT(errorOf(request), HasSubstr("the peer is gone"));
    }
  }
  EXPECT_EQ(sharedMemory(), before);
}

INSTANTIATE_TEST_SUITE_P(Ofi, OfiShm, testing::Values(ofiNet("Shm", "shm", "")), netName);

}  // namespace
}  // namespace nccom
