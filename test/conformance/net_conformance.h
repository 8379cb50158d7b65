// What every net must do, as tests that run against any Net. A test program instantiates the suite:
//   INSTANTIATE_TEST_SUITE_P(Socket, NetConformance, testing::Values(NetUnderTest{...}), netName);
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "plugin/net.h"

namespace nccom {

struct NetUnderTest {
  std::string name;  // letters and digits
  std::function<Result<std::shared_ptr<Net>>()> open;
};

inline void PrintTo(const NetUnderTest& net, std::ostream* out) {
  *out << net.name;
}

inline std::string netName(const testing::TestParamInfo<NetUnderTest>& info) {
  return info.param.name;
}

/// Both ends of one connection.
struct NetLink {
  UniqueNetSend send;
  UniqueNetRecv recv;
};

/// A buffer registered with one end; all of it is `fill` at first.
template <class Comm>
class NetTestBuffer {
 public:
  NetTestBuffer(Net& net, Comm* comm, size_t bytes, uint8_t fill = 0)
      : net_(net), comm_(comm), bytes_(bytes, fill) {
    bytes_.resize(bytes + 1, fill);  // never empty: registration of nothing is not asked for
    auto memory = net.regMr(comm, bytes_.data(), bytes_.size(), NetMemoryKind::Host);
    EXPECT_TRUE(memory.ok()) << memory.error().message;
    if (memory.ok()) memory_ = memory.value();
  }
  NetTestBuffer(const NetTestBuffer&) = delete;
  NetTestBuffer& operator=(const NetTestBuffer&) = delete;
  ~NetTestBuffer() { EXPECT_TRUE(net_.deregMr(comm_, memory_).ok()); }

  uint8_t* data() { return bytes_.data(); }
  NetBuffer whole(int tag = 0) { return part(0, bytes_.size() - 1, tag); }
  NetBuffer part(size_t offset, size_t bytes, int tag = 0) {
    return {bytes_.data() + offset, bytes, tag, memory_};
  }

 private:
  Net& net_;
  Comm* comm_;
  std::vector<uint8_t> bytes_;
  NetMemory* memory_ = nullptr;
};
using SendBuffer = NetTestBuffer<NetSendComm>;
using RecvBuffer = NetTestBuffer<NetRecvComm>;

class NetConformance : public testing::TestWithParam<NetUnderTest> {
 protected:
  void SetUp() override;

  Net& net() { return *net_; }
  int maxRecvs();

  /// Connects the two ends in this thread, in turns.
  NetLink makeLink();
  std::vector<NetLink> makeLinks(size_t count);

  /// Posts, for as long as there is no room for it.
  NetRequest* isend(const NetLink& link, const NetBuffer& buffer);
  NetRequest* irecv(const NetLink& link, std::vector<NetBuffer> buffers);

  /// Tests all in turns until all are done; the sizes of each. A request is null for none.
  std::vector<std::vector<int>> finish(const std::vector<NetRequest*>& requests);
  std::vector<int> finishOne(NetRequest* request) { return finish({request}).at(0); }

  /// Tests until an error comes; "" if none came in time, or it was done.
  std::string errorOf(NetRequest* request);

  std::shared_ptr<Net> net_;
};

/// Bytes that depend on seed and place.
void fillPattern(uint8_t* data, size_t bytes, uint64_t seed);
/// Where they differ first; -1: nowhere.
ssize_t wrongByte(const uint8_t* data, size_t bytes, uint64_t seed);

/// Runs `body` in a process of its own, which ends with its result; see join().
class ChildProcess {
 public:
  explicit ChildProcess(const std::function<int()>& body);
  ~ChildProcess();
  void kill();
  /// Its exit status, 128 + signal if it was killed, -1 if it does not end in time.
  int join();

 private:
  pid_t pid_ = -1;
};

/// Messages of a fixed size between two processes that have forked.
class Pipe {
 public:
  Pipe();
  ~Pipe();
  void write(const void* data, size_t bytes) const;
  bool read(void* data, size_t bytes) const;

 private:
  int fds_[2] = {-1, -1};
};

/// The net is opened after the fork, by each process for itself.
class NetProcesses : public NetConformance {
 protected:
  void SetUp() override {}
  void openNow() { NetConformance::SetUp(); }

  /// Listens, tells the handle, and waits for the peer.
  UniqueNetRecv acceptFrom(const Pipe& pipe);
};

}  // namespace nccom
