#include "misc/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace nccom {
namespace {

using testing::HasSubstr;

TEST(SocketAddress, PrintsWhatItReads) {
  for (const char* text : {"192.0.2.2:5000", "127.0.0.1:1", "[::1]:65535", "[2001:db8::7]:80",
                           "[fe80::1%lo]:5", "0.0.0.0:9"}) {
    const auto address = SocketAddress::parse(text);
    ASSERT_TRUE(address.ok()) << address.error().message;
    EXPECT_EQ(address.value().text(), text);
  }
}

TEST(SocketAddress, TakesTheScopeAsNumber) {
  const auto address = SocketAddress::parse("[fe80::1%1]:5");
  ASSERT_TRUE(address.ok()) << address.error().message;
  EXPECT_EQ(address.value().scope(), 1U);
  EXPECT_EQ(address.value().text(), "[fe80::1%lo]:5");
}

TEST(SocketAddress, ResolvesHostNames) {
  const auto address = SocketAddress::parse("localhost:77");
  ASSERT_TRUE(address.ok()) << address.error().message;
  EXPECT_TRUE(address.value().isLoopback());
  EXPECT_EQ(address.value().port(), 77);
  const auto v4 = SocketAddress::parse("localhost:77", AF_INET);
  ASSERT_TRUE(v4.ok()) << v4.error().message;
  EXPECT_EQ(v4.value().text(), "127.0.0.1:77");
}

TEST(SocketAddress, RefusesWhatIsNoAddress) {
  std::vector<std::string> wrong = {"",
                                    ":",
                                    "[]",
                                    "[]:",
                                    "[]:1",
                                    ":1",
                                    "host",
                                    "host:",
                                    "host:0",
                                    "host:65536",
                                    "host:-1",
                                    "host:+1",
                                    "host: 1",
                                    "host:1 ",
                                    "host:1x",
                                    "host:0x10",
                                    "::1:5",
                                    "[::1]",
                                    "[::1]5",
                                    "[::1:5",
                                    "::1]:5",
                                    "[[::1]]:5",
                                    "[127.0.0.1]:5",
                                    "[::1]:",
                                    "[::1]:0",
                                    "[::1%]:1",
                                    "[::1%nosuchif]:1",
                                    "1.2.3:5",
                                    "1.2.3.256:5",
                                    "1.2.3.4.5:5",
                                    "1:5",
                                    "a b:5",
                                    "a/b:5",
                                    "-a:5",
                                    "[::g]:5",
                                    "127.0.0.1:99999999999999999999",
                                    "[fe80::1%" + std::string(200, 'i') + "]:1",
                                    "[::1]:" + std::string(40, '9'),
                                    std::string("a\0b:5", 5),
                                    std::string("a:5\0", 4)};
  for (const size_t length : {63, 64, 65, 128, 4096, 100000}) {
    wrong.emplace_back(length, 'A');
    wrong.push_back(std::string(length, ':'));
    wrong.push_back("[" + std::string(length, ':') + "]:1");
  }
  wrong.push_back(std::string(254, 'A') + ":5");
  for (const std::string& text : wrong) {
    const auto address = SocketAddress::parse(text);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_EQ(address.error().code, ncclInvalidArgument) << text;
    EXPECT_THAT(address.error().message, HasSubstr("expected <ipv4>:<port>")) << text;
    EXPECT_LT(address.error().message.size(), 500U);
  }
}

TEST(SocketAddress, NamesTheHostThatDoesNotResolve) {
  const std::string host = std::string(60, 'h') + "." + std::string(60, 'i') + ".invalid";
  const auto address = SocketAddress::parse(host + ":5");
  ASSERT_FALSE(address.ok());
  EXPECT_EQ(address.error().code, ncclInvalidArgument);
  EXPECT_THAT(address.error().message, HasSubstr(std::string(60, 'h')));
}

TEST(SocketAddress, ZeroIsNoAddress) {
  const SocketAddress none;
  EXPECT_FALSE(none.valid());
  EXPECT_EQ(none.text(), "(no address)");
  EXPECT_EQ(none, SocketAddress());
  EXPECT_FALSE(none == SocketAddress::loopback(AF_INET));
}

TEST(SocketAddress, ComparesHostPortAndScope) {
  const auto parse = [](const char* text) { return SocketAddress::parse(text).value(); };
  EXPECT_EQ(parse("1.2.3.4:5"), parse("1.2.3.4:5"));
  EXPECT_FALSE(parse("1.2.3.4:5") == parse("1.2.3.4:6"));
  EXPECT_FALSE(parse("1.2.3.4:5") == parse("1.2.3.5:5"));
  EXPECT_FALSE(parse("[fe80::1%lo]:5") == parse("[fe80::1]:5"));
  SocketAddress rescoped = parse("[fe80::1]:5");
  EXPECT_TRUE(rescoped.isLinkLocal());
  rescoped.setScope(1);
  EXPECT_EQ(rescoped, parse("[fe80::1%lo]:5"));
}

}  // namespace
}  // namespace nccom
