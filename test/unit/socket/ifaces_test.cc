#include "misc/ifaces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace nccom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Interface interface(const std::string& name, const std::string& host) {
  const bool v6 = host.find(':') != std::string::npos;
  auto address = SocketAddress::parse((v6 ? "[" + host + "]" : host) + ":1").value();
  address.setPort(0);
  return {name, address, 0};
}

std::vector<Interface> machine() {
  return {interface("lo", "127.0.0.1"),
          interface("docker0", "172.17.0.1"),
          interface("eth0", "10.0.0.1"),
          interface("eth1", "10.0.1.1"),
          interface("eth10", "10.0.10.1"),
          interface("ib0", "10.1.0.1"),
          interface("lo", "::1"),
          interface("eth0", "fe80::1"),
          interface("eth0", "2001:db8::1"),
          interface("wlan0", "fe80::2"),
          interface("virbr0", "192.168.0.1")};
}

std::vector<std::string> choose(const std::vector<Interface>& all, const std::string& ifname,
                                const std::string& family = "") {
  const auto chosen = chooseInterfaces(all, {ifname, family}, 16);
  if (!chosen.ok()) return {chosen.error().message};
  std::vector<std::string> out;
  for (const Interface& one : chosen.value())
    out.push_back(one.name + " " + one.address.hostText());
  return out;
}

std::vector<Interface> without(std::vector<Interface> all, const std::string& prefix) {
  std::erase_if(all, [&](const Interface& one) { return one.name.starts_with(prefix); });
  return all;
}

TEST(Interfaces, PrefersInfinibandThenOthersThenDockerThenLoopback) {
  std::vector<Interface> all = machine();
  EXPECT_THAT(choose(all, ""), ElementsAre("ib0 10.1.0.1"));
  all = without(all, "ib");
  EXPECT_THAT(choose(all, ""),
              ElementsAre("eth0 10.0.0.1", "eth1 10.0.1.1", "eth10 10.0.10.1", "wlan0 fe80::2"));
  all = without(without(all, "eth"), "wlan");
  EXPECT_THAT(choose(all, ""), ElementsAre("docker0 172.17.0.1"));
  all = without(all, "docker");
  EXPECT_THAT(choose(all, ""), ElementsAre("lo 127.0.0.1"));
  EXPECT_THAT(choose(without(all, "lo"), ""), ElementsAre("virbr0 192.168.0.1"));
}

TEST(Interfaces, TakesNamesByPrefixExactlyAndByExclusion) {
  EXPECT_THAT(choose(machine(), "eth1"), ElementsAre("eth1 10.0.1.1", "eth10 10.0.10.1"));
  EXPECT_THAT(choose(machine(), "=eth1"), ElementsAre("eth1 10.0.1.1"));
  EXPECT_THAT(choose(machine(), "=eth1,lo"), ElementsAre("lo 127.0.0.1", "eth1 10.0.1.1"));
  EXPECT_THAT(choose(machine(), "^eth,lo,docker,virbr,wlan"), ElementsAre("ib0 10.1.0.1"));
  EXPECT_THAT(choose(machine(), "^=eth1,ib0,lo,docker0,virbr0,wlan0"),
              ElementsAre("eth0 10.0.0.1", "eth10 10.0.10.1"));
}

TEST(Interfaces, ChoosesTheAddressByFamilyAndGlobalBeforeLinkLocal) {
  EXPECT_THAT(choose(machine(), "=eth0", "AF_INET6"), ElementsAre("eth0 2001:db8::1"));
  EXPECT_THAT(choose(machine(), "=lo", "AF_INET6"), ElementsAre("lo ::1"));
  EXPECT_THAT(choose(machine(), "=wlan0"), ElementsAre("wlan0 fe80::2"));
  EXPECT_THAT(choose(machine(), "eth1", "AF_INET6"),
              ElementsAre(HasSubstr("NCCL_SOCKET_IFNAME 'eth1' with NCCL_SOCKET_FAMILY AF_INET6")));
}

TEST(Interfaces, AnErrorNamesTheVariableAndTheInterfaces) {
  for (const std::string& name :
       {std::string("nope0"), std::string("=et"), std::string("="), std::string("^e,l,d,i,w,v"),
        std::string(",,"), std::string(300, 'x')}) {
    const auto chosen = chooseInterfaces(machine(), {name, ""}, 1);
    ASSERT_FALSE(chosen.ok()) << name;
    EXPECT_EQ(chosen.error().code, ncclInvalidUsage);
    EXPECT_THAT(chosen.error().message, HasSubstr("NCCL_SOCKET_IFNAME '" + name.substr(0, 80)));
    EXPECT_THAT(chosen.error().message, HasSubstr("eth10 10.0.10.1"));
    EXPECT_LT(chosen.error().message.size(), 600U);
  }
  EXPECT_THAT(choose({interface("lo", "127.0.0.1")}, "^lo"),
              ElementsAre(HasSubstr("NCCL_SOCKET_IFNAME '^lo'")));
  EXPECT_THAT(choose({}, ""), ElementsAre(HasSubstr("there are: none")));
}

TEST(Interfaces, RefusesAnUnknownFamily) {
  EXPECT_THAT(choose(machine(), "", "inet"),
              ElementsAre(HasSubstr("NCCL_SOCKET_FAMILY is 'inet'; expected AF_INET or AF_INET6")));
}

TEST(Interfaces, GivesAtMostAsManyAsAsked) {
  EXPECT_EQ(chooseInterfaces(machine(), {"eth", ""}, 2).value().size(), 2U);
}

TEST(Interfaces, OfThisHostIncludeTheLoopback) {
  const auto all = listInterfaces();
  ASSERT_TRUE(all.ok()) << all.error().message;
  EXPECT_THAT(choose(all.value(), "=lo", "AF_INET"), ElementsAre("lo 127.0.0.1"));
  const auto toward = findInterfaceToward(SocketAddress::parse("127.0.0.1:9").value(), {});
  ASSERT_TRUE(toward.ok()) << toward.error().message;
  EXPECT_EQ(toward.value().name, "lo");
  EXPECT_FALSE(findInterfaceToward(SocketAddress::parse("127.0.0.1:9").value(), {"nope", ""}).ok());
}

}  // namespace
}  // namespace nccom
