#include "plugin/net.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "plugin/library.h"
#include "test/unit/plugin/folders.h"

namespace nccom {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// Stands for the builtin net.
class FakeBuiltin : public Net {
 public:
  const std::string& name() const override { return name_; }
  std::string origin() const override { return "builtin"; }
  Result<int> devices() override { return 1; }
  Result<NetProperties> properties(int) override { return NetProperties{}; }
  Result<NetListenComm*> listen(int, NetHandle&) override { return no(); }
  Result<NetSendComm*> connect(int, NetHandle&) override { return no(); }
  Result<NetRecvComm*> accept(NetListenComm*) override { return no(); }
  Result<NetMemory*> regMr(NetSendComm*, void*, size_t, NetMemoryKind) override { return no(); }
  Result<NetMemory*> regMr(NetRecvComm*, void*, size_t, NetMemoryKind) override { return no(); }
  Status deregMr(NetSendComm*, NetMemory*) override { return no(); }
  Status deregMr(NetRecvComm*, NetMemory*) override { return no(); }
  Result<NetRequest*> isend(NetSendComm*, const NetBuffer&) override { return no(); }
  Result<NetRequest*> irecv(NetRecvComm*, std::span<const NetBuffer>) override { return no(); }
  Result<NetRequest*> iflush(NetRecvComm*, std::span<const NetBuffer>) override { return no(); }
  Result<bool> test(NetRequest*, std::span<int>) override { return no(); }
  Status closeSend(NetSendComm*) override { return no(); }
  Status closeRecv(NetRecvComm*) override { return no(); }
  Status closeListen(NetListenComm*) override { return no(); }

 private:
  static Error no() { return fail(ncclInternalError, "not of this fake"); }
  const std::string name_ = "Socket";
};

Result<std::unique_ptr<Net>> builtin() {
  return std::unique_ptr<Net>(std::make_unique<FakeBuiltin>());
}

NetChoice choice(const std::string& plugin, const std::string& net = "") {
  return {plugin, net, pluginFolder()};
}

/// The name of the net that is opened, or the error.
std::string opened(const std::string& plugin, const std::string& net = "") {
  const auto got = openNet(choice(plugin, net), builtin);
  if (got.ok()) return got.value()->name();
  EXPECT_EQ(got.error().code, ncclInvalidUsage);
  return got.error().message;
}

TEST(OpenNet, WithoutANameIsTheBuiltinOne) {
  EXPECT_EQ(opened(""), "Socket");
  EXPECT_EQ(opened("none"), "Socket");
  EXPECT_EQ(opened("NONE"), "Socket");
  EXPECT_EQ(opened("socket"), "Socket");
}

TEST(OpenNet, OpensThePluginThatIsNamed) {
  EXPECT_EQ(opened("good"), "Good");
  EXPECT_EQ(opened("own"), "Own");
  EXPECT_EQ(opened("libnccl-net-good.so"), "Good");
  EXPECT_EQ(opened(pluginFolder() + "/libnccl-net-good.so"), "Good");
  const auto net = openNet(choice("good"), builtin);
  ASSERT_TRUE(net.ok());
  EXPECT_EQ(net.value()->origin(),
            "ncclNetPlugin_v8 of " + pluginFolder() + "/libnccl-net-good.so");
}

TEST(OpenNet, ReadsATableThatInitHasCompleted) {
  EXPECT_EQ(opened("late"), "Late");
}

TEST(OpenNet, NeverFallsBackFromANameSilently) {
  EXPECT_THAT(opened("nosuch"),
              AllOf(HasSubstr("NCCL_NET_PLUGIN 'nosuch'"), HasSubstr("libnccl-net-nosuch.so"),
                    HasSubstr("libnccom-net-nosuch.so"), HasSubstr("cannot open shared object")));
  EXPECT_THAT(opened("failing"), AllOf(HasSubstr("init"), HasSubstr("no cable in port 7"),
                                       HasSubstr("ncclSystemError")));
  EXPECT_THAT(opened("empty"), HasSubstr("has 0 devices"));
  EXPECT_THAT(opened("holes"), HasSubstr("lacks isend, closeListen"));
  EXPECT_THAT(opened("ancient"), AllOf(HasSubstr("ncclNetPlugin_v8"),
                                       HasSubstr("it has ncclNetPlugin_v2 ncclNetPlugin_v3")));
  EXPECT_THAT(opened("libm.so.6"), HasSubstr("libm.so.6"));
  EXPECT_THAT(opened(","), HasSubstr("holds no name"));
}

TEST(OpenNet, TriesAListInOrder) {
  EXPECT_EQ(opened("nosuch,empty, failing ,own,good"), "Own");
  EXPECT_EQ(opened("nosuch,socket"), "Socket");
  EXPECT_THAT(opened("nosuch,empty,failing"),
              AllOf(HasSubstr("nosuch: "), HasSubstr("empty: net Empty"), HasSubstr("no cable")));
}

TEST(OpenNet, TakesOnlyANetOfTheNameAsked) {
  EXPECT_EQ(opened("good", "gOOD"), "Good");
  EXPECT_EQ(opened("good,own", "Own"), "Own");
  EXPECT_EQ(opened("", "socket"), "Socket");
  EXPECT_THAT(opened("good", "Own"), AllOf(HasSubstr("net Good"), HasSubstr("'Own'")));
  EXPECT_THAT(opened("", "IB"), AllOf(HasSubstr("NCCL_NET_PLUGIN is not set"), HasSubstr("'IB'")));
}

TEST(OpenNet, PassesTheErrorOfTheBuiltinNet) {
  const auto net = openNet({}, [] { return fail(ncclInvalidUsage, "no interface"); });
  ASSERT_FALSE(net.ok());
  EXPECT_THAT(net.error().message, HasSubstr("no interface"));
}

TEST(OpenNet, AnErrorOfACallHasThePluginsWords) {
  const auto net = openNet(choice("good"), builtin);
  ASSERT_TRUE(net.ok());
  NetHandle handle{};
  const auto listening = net.value()->listen(0, handle);
  ASSERT_FALSE(listening.ok());
  EXPECT_EQ(listening.error().code, ncclSystemError);
  EXPECT_EQ(listening.error().message,
            "net Good: listen failed with ncclSystemError: listening is not possible");
  const auto connecting = net.value()->connect(0, handle);
  ASSERT_FALSE(connecting.ok());
  EXPECT_EQ(connecting.error().message, "net Good: connect failed with ncclInternalError");
  EXPECT_THAT(net.value()->iflush(nullptr, {}).error().message, HasSubstr("not supported"));
}

TEST(NetRegistry, RunsInitOnceHoweverOftenANetIsOpened) {
  const auto library = Library::open(pluginFolder() + "/libnccl-net-good.so");
  ASSERT_TRUE(library.ok()) << library.error().message;
  const int* inits = static_cast<int*>(library.value().symbol("goodInits"));
  ASSERT_NE(inits, nullptr);
  const int before = *inits;
  NetRegistry registry(builtin);
  Net* first = nullptr;
  {
    const auto net = registry.open(choice("good"));
    ASSERT_TRUE(net.ok()) << net.error().message;
    first = net.value().get();
  }
  for (const NetChoice& again : {choice("good"), choice("nosuch,good"), choice("good", "Good")}) {
    const auto net = registry.open(again);
    ASSERT_TRUE(net.ok()) << net.error().message;
    EXPECT_EQ(net.value().get(), first);
  }
  EXPECT_FALSE(registry.open(choice("good", "Other")).ok());
  EXPECT_EQ(*inits, before + 1);
}

TEST(NetRegistry, KeepsTwoPluginsOfOneVersionApart) {
  NetRegistry registry(builtin);
  const auto good = registry.open(choice("good"));
  const auto own = registry.open(choice("own"));
  ASSERT_TRUE(good.ok() && own.ok());
  EXPECT_EQ(good.value()->name(), "Good");
  EXPECT_EQ(own.value()->name(), "Own");
}

}  // namespace
}  // namespace nccom
