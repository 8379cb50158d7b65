// What the adapter passes to the functions of a table, and what it makes of their answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "include/plugin/nccl_net.h"
#include "plugin/net_versions.h"

namespace nccom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// What the table below was called with, and what it answers.
struct Recorder {
  std::vector<std::string> calls;
  int maxRecvs = 4;
  void* comm = nullptr;
  void* request = nullptr;
  int done = 0;
  ncclResult_t code = ncclSuccess;
};
Recorder recorder;  // the table's functions have no argument for it

void record(const std::string& call) {
  recorder.calls.push_back(call);
}
std::string text(const void* pointer) {
  return std::to_string(reinterpret_cast<size_t>(pointer));
}
template <class T = void>
T* fake(size_t value) {
  return reinterpret_cast<T*>(value);
}

ncclResult_t properties(int dev, ncclNetProperties_v8_t* out) {
  static char name[] = "nic0";
  out->name = name;
  out->pciPath = nullptr;
  out->guid = 0x1234567890abcdefULL + static_cast<uint64_t>(dev);
  out->ptrSupport = NCCL_PTR_HOST | NCCL_PTR_DMABUF;
  out->regIsGlobal = 1;
  out->speed = -1;
  out->port = 3;
  out->latency = 2.5F;
  out->maxComms = 77;
  out->maxRecvs = recorder.maxRecvs;
  return recorder.code;
}

const ncclNet_v8_t kTable = {
    .name = "Recorder",
    .init = [](ncclDebugLogger_t) { return ncclSuccess; },
    .devices = [](int* n) { return *n = 3, ncclSuccess; },
    .getProperties = properties,
    .listen =
        [](int dev, void* handle, void** comm) {
          record("listen " + std::to_string(dev));
          memset(handle, 0x5a, NCCL_NET_HANDLE_MAXSIZE);
          *comm = recorder.comm;
          return recorder.code;
        },
    .connect =
        [](int dev, void* handle, void** comm, ncclNetDeviceHandle_v8_t** device) {
          record("connect " + std::to_string(dev) + " " + text(handle));
          EXPECT_EQ(*comm, nullptr);
          EXPECT_NE(device, nullptr);
          *comm = recorder.comm;
          return recorder.code;
        },
    .accept =
        [](void* listener, void** comm, ncclNetDeviceHandle_v8_t** device) {
          record("accept " + text(listener));
          EXPECT_EQ(*comm, nullptr);
          EXPECT_NE(device, nullptr);
          *comm = recorder.comm;
          return recorder.code;
        },
    .regMr =
        [](void* comm, void* data, size_t size, int type, void** memory) {
          record("regMr " + text(comm) + " " + text(data) + " " + std::to_string(size) + " " +
                 std::to_string(type));
          *memory = fake(99);
          return recorder.code;
        },
    .regMrDmaBuf = nullptr,
    .deregMr =
        [](void* comm, void* memory) {
          record("deregMr " + text(comm) + " " + text(memory));
          return recorder.code;
        },
    .isend =
        [](void* comm, void* data, int size, int tag, void* memory, void** request) {
          record("isend " + text(comm) + " " + text(data) + " " + std::to_string(size) + " " +
                 std::to_string(tag) + " " + text(memory));
          *request = recorder.request;
          return recorder.code;
        },
    .irecv =
        [](void* comm, int n, void** data, int* sizes, int* tags, void** memories, void** request) {
          std::string call = "irecv " + text(comm);
          for (int i = 0; i < n; ++i) {
            call += " [" + text(data[i]) + " " + std::to_string(sizes[i]) + " " +
                    std::to_string(tags[i]) + " " + text(memories[i]) + "]";
          }
          record(call);
          *request = recorder.request;
          return recorder.code;
        },
    .iflush =
        [](void* comm, int n, void** data, int* sizes, void** memories, void** request) {
          record("iflush " + text(comm) + " " + std::to_string(n) + " " + text(data[0]) + " " +
                 std::to_string(sizes[0]) + " " + text(memories[0]));
          *request = recorder.request;
          return recorder.code;
        },
    .test =
        [](void* request, int* done, int* sizes) {
          record("test " + text(request) + (sizes != nullptr ? " sizes" : ""));
          *done = recorder.done;
          if (sizes != nullptr) sizes[0] = 42;
          return recorder.code;
        },
    .closeSend = [](void* comm) { return record("closeSend " + text(comm)), recorder.code; },
    .closeRecv = [](void* comm) { return record("closeRecv " + text(comm)), recorder.code; },
    .closeListen = [](void* comm) { return record("closeListen " + text(comm)), recorder.code; },
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
};

class NetV8 : public testing::Test {
 protected:
  void SetUp() override {
    recorder = {};
    Library program = Library::program().value();
    net_ = openNetV8(std::move(program), &kTable).value();
  }
  std::unique_ptr<Net> net_;
};

TEST_F(NetV8, TranslatesProperties) {
  EXPECT_EQ(net_->name(), "Recorder");
  EXPECT_EQ(net_->devices().value(), 3);
  const NetProperties got = net_->properties(1).value();
  EXPECT_EQ(got.name, "nic0");
  EXPECT_EQ(got.pciPath, "");
  EXPECT_EQ(got.guid, 0x1234567890abcdf0ULL);
  EXPECT_TRUE(got.hostMemory);
  EXPECT_FALSE(got.deviceMemory);
  EXPECT_TRUE(got.dmabuf);
  EXPECT_TRUE(got.registrationIsGlobal);
  EXPECT_EQ(got.speedMbps, 0);
  EXPECT_EQ(got.port, 3);
  EXPECT_EQ(got.latencyUs, 2.5F);
  EXPECT_EQ(got.maxComms, 77);
  EXPECT_EQ(got.maxRecvs, 4);
  EXPECT_EQ(got.maxP2pBytes, size_t{1} << 30);
  recorder.maxRecvs = 0;
  EXPECT_THAT(net_->properties(1).error().message, HasSubstr("maxRecvs 0"));
  recorder.maxRecvs = 1000;
  EXPECT_EQ(net_->properties(1).value().maxRecvs, 32);
}

TEST_F(NetV8, ANullCommMeansNotYet) {
  NetHandle handle{};
  EXPECT_EQ(net_->connect(2, handle).value(), nullptr);
  EXPECT_EQ(net_->accept(fake<NetListenComm>(8)).value(), nullptr);
  recorder.comm = fake(16);
  EXPECT_EQ(net_->connect(2, handle).value(), fake<NetSendComm>(16));
  EXPECT_EQ(net_->accept(fake<NetListenComm>(8)).value(), fake<NetRecvComm>(16));
  const std::string connect = "connect 2 " + text(handle.data());
  EXPECT_THAT(recorder.calls, ElementsAre(connect, "accept 8", connect, "accept 8"));
}

TEST_F(NetV8, ListenMustGiveAComm) {
  NetHandle handle{};
  EXPECT_FALSE(net_->listen(0, handle).ok());
  recorder.comm = fake(16);
  EXPECT_EQ(net_->listen(0, handle).value(), fake<NetListenComm>(16));
  EXPECT_EQ(handle.front(), std::byte{0x5a});
  EXPECT_EQ(handle.back(), std::byte{0x5a});
}

TEST_F(NetV8, PassesBuffersAsParallelArrays) {
  recorder.request = fake(5);
  const NetBuffer one{fake(100), 10, 7, fake<NetMemory>(1)};
  const NetBuffer large{fake(200), size_t{5} << 30, 8, fake<NetMemory>(2)};
  EXPECT_EQ(net_->isend(fake<NetSendComm>(3), one).value(), fake<NetRequest>(5));
  EXPECT_EQ(net_->irecv(fake<NetRecvComm>(4), std::vector{one, large}).value(),
            fake<NetRequest>(5));
  EXPECT_EQ(net_->iflush(fake<NetRecvComm>(4), std::vector{one}).value(), fake<NetRequest>(5));
  EXPECT_THAT(recorder.calls,
              ElementsAre("isend 3 100 10 7 1", "irecv 4 [100 10 7 1] [200 2147483647 8 2]",
                          "iflush 4 1 100 10 1"));
  EXPECT_THAT(net_->isend(fake<NetSendComm>(3), large).error().message, HasSubstr("5368709120"));
  EXPECT_THAT(net_->irecv(fake<NetRecvComm>(4), std::vector(33, one)).error().message,
              HasSubstr("33 messages"));
}

TEST_F(NetV8, ANullRequestMeansLater) {
  EXPECT_EQ(net_->isend(fake<NetSendComm>(3), {}).value(), nullptr);
  EXPECT_EQ(net_->irecv(fake<NetRecvComm>(3), std::vector<NetBuffer>(1)).value(), nullptr);
}

TEST_F(NetV8, TestTellsWhetherAndHowMuch) {
  int size = 0;
  EXPECT_FALSE(net_->test(fake<NetRequest>(5), {}).value());
  recorder.done = 1;
  EXPECT_TRUE(net_->test(fake<NetRequest>(5), std::span(&size, 1)).value());
  EXPECT_EQ(size, 42);
  EXPECT_THAT(recorder.calls, ElementsAre("test 5", "test 5 sizes"));
}

TEST_F(NetV8, RegistersWithTheKindAsABit) {
  int data = 0;
  auto* send = fake<NetSendComm>(3);
  EXPECT_EQ(net_->regMr(send, &data, 4, NetMemoryKind::Host).value(), fake<NetMemory>(99));
  EXPECT_TRUE(net_->regMr(fake<NetRecvComm>(4), &data, 5, NetMemoryKind::Device).ok());
  EXPECT_TRUE(net_->deregMr(send, fake<NetMemory>(99)).ok());
  EXPECT_THAT(recorder.calls, ElementsAre("regMr 3 " + text(&data) + " 4 1",
                                          "regMr 4 " + text(&data) + " 5 2", "deregMr 3 99"));
}

TEST_F(NetV8, OwnersCloseTheirComms) {
  {
    UniqueNetSend send(*net_, fake<NetSendComm>(1));
    UniqueNetSend moved = std::move(send);
    UniqueNetRecv recv(*net_, fake<NetRecvComm>(2));
    const UniqueNetListen listener(*net_, fake<NetListenComm>(3));
    recv = UniqueNetRecv(*net_, fake<NetRecvComm>(4));
    EXPECT_FALSE(send);
    EXPECT_EQ(moved.get(), fake<NetSendComm>(1));
  }
  EXPECT_THAT(recorder.calls,
              ElementsAre("closeRecv 2", "closeListen 3", "closeRecv 4", "closeSend 1"));
}

TEST_F(NetV8, KeepsThePluginsCodeIfItIsOne) {
  recorder.code = ncclRemoteError;
  EXPECT_EQ(net_->test(fake<NetRequest>(5), {}).error().code, ncclRemoteError);
  recorder.code = static_cast<ncclResult_t>(15);
  EXPECT_EQ(net_->test(fake<NetRequest>(5), {}).error().code, ncclInternalError);
  EXPECT_THAT(net_->closeSend(fake<NetSendComm>(5)).error().message, HasSubstr("code 15"));
}

}  // namespace
}  // namespace nccom
