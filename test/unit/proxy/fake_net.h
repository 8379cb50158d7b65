// A net in memory, with seeded delays and faults on demand, that checks how it is used.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "plugin/net.h"

namespace nccom {

/// What goes wrong, and when. Numbers count calls from 1; 0: never.
struct FakeFaults {
  int isendFailsAt = 0;
  int irecvFailsAt = 0;
  int testFailsAt = 0;
  bool connectFails = false;
  bool acceptFails = false;
  bool listenFails = false;
  bool regMrFails = false;
  bool neverConnects = false;
  bool neverDone = false;    // no request ends
  bool noRoom = false;       // isend and irecv always say "later"
  bool sizesUnsaid = false;  // test() does not say how much was received
  int sizeOff = 0;           // added to what test() says
};

class FakeNet : public Net {
 public:
  explicit FakeNet(unsigned seed = 1, bool isSlow = true) : random_(seed), isSlow_(isSlow) {}

  FakeFaults faults;
  std::atomic<int> isends{0}, irecvs{0}, tests{0}, flushes{0};
  std::atomic<int> open{0};     // comms and registrations
  std::atomic<int> mostOut{0};  // requests under way on one comm

  const std::string& name() const override { return name_; }
  std::string origin() const override { return "test"; }
  Result<int> devices() override { return 1; }
  Result<NetProperties> properties(int) override {
    NetProperties out;
    out.hostMemory = true;
    out.deviceMemory = true;
    out.maxP2pBytes = 1 << 20;
    return out;
  }

  Result<NetListenComm*> listen(int, NetHandle& handle) override {
    if (faults.listenFails) return fail(ncclSystemError, "no port left");
    const std::lock_guard lock(mutex_);
    auto* listener = make<Listener>();
    listener->id = static_cast<uint32_t>(comms_.size());
    memcpy(handle.data(), &listener->id, sizeof listener->id);
    listeners_[listener->id] = listener;
    return reinterpret_cast<NetListenComm*>(listener);
  }
  Result<NetSendComm*> connect(int, NetHandle& handle) override {
    if (faults.connectFails) return fail(ncclRemoteError, "nobody home");
    const std::lock_guard lock(mutex_);
    // The state of connecting lives in the handle, as in real nets: where it is, and how often.
    uintptr_t place = 0;
    memcpy(&place, handle.data() + 8, sizeof place);
    EXPECT_TRUE(place == 0 || place == reinterpret_cast<uintptr_t>(&handle))
        << "a retry must pass the same buffer";
    place = reinterpret_cast<uintptr_t>(&handle);
    memcpy(handle.data() + 8, &place, sizeof place);
    if (faults.neverConnects || later()) return nullptr;
    uint32_t id = 0;
    memcpy(&id, handle.data(), sizeof id);
    auto* comm = make<Comm>();
    comm->link = std::make_shared<Link>();
    listeners_.at(id)->waiting.push_back(comm->link);
    return reinterpret_cast<NetSendComm*>(comm);
  }
  Result<NetRecvComm*> accept(NetListenComm* handle) override {
    if (faults.acceptFails) return fail(ncclSystemError, "no descriptor left");
    const std::lock_guard lock(mutex_);
    auto* listener = reinterpret_cast<Listener*>(handle);
    if (listener->waiting.empty() || later()) return nullptr;
    auto* comm = make<Comm>();
    comm->link = listener->waiting.front();
    listener->waiting.pop_front();
    return reinterpret_cast<NetRecvComm*>(comm);
  }

  Result<NetMemory*> regMr(NetSendComm*, void*, size_t, NetMemoryKind) override { return reg(); }
  Result<NetMemory*> regMr(NetRecvComm*, void*, size_t, NetMemoryKind) override { return reg(); }
  Status deregMr(NetSendComm*, NetMemory*) override { return dereg(); }
  Status deregMr(NetRecvComm*, NetMemory*) override { return dereg(); }

  Result<NetRequest*> isend(NetSendComm* comm, const NetBuffer& buffer) override {
    if (++isends == faults.isendFailsAt) return fail(ncclRemoteError, "the wire is cut");
    return begin(reinterpret_cast<Comm*>(comm), buffer, Kind::Send);
  }
  Result<NetRequest*> irecv(NetRecvComm* comm, std::span<const NetBuffer> buffers) override {
    EXPECT_EQ(buffers.size(), 1U);
    if (++irecvs == faults.irecvFailsAt) return fail(ncclSystemError, "out of memory");
    return begin(reinterpret_cast<Comm*>(comm), buffers[0], Kind::Recv);
  }
  Result<NetRequest*> iflush(NetRecvComm* comm, std::span<const NetBuffer> buffers) override {
    if (++flushes % 3 == 0) return nullptr;  // nothing to wait for
    return begin(reinterpret_cast<Comm*>(comm), buffers[0], Kind::Flush);
  }
  Result<bool> test(NetRequest* handle, std::span<int> sizes) override {
    if (++tests == faults.testFailsAt) return fail(ncclRemoteError, "the peer hung up");
    const std::lock_guard lock(mutex_);
    auto* request = reinterpret_cast<Request*>(handle);
    Comm& comm = *request->comm;
    std::deque<Request*>& queue = request->kind == Kind::Flush ? comm.flushes : comm.requests;
    EXPECT_TRUE(!queue.empty() && queue.front() == request) << "only the oldest may be tested";
    if (faults.neverDone || later()) return false;
    const char* data = static_cast<const char*>(request->buffer.data);
    if (request->kind == Kind::Send) {  // read only now: the buffer is the net's until done
      comm.link->messages.emplace_back(data, request->buffer.bytes);
    } else if (request->kind == Kind::Recv) {
      if (comm.link->messages.empty()) return false;
      const std::string message = std::move(comm.link->messages.front());
      comm.link->messages.pop_front();
      memcpy(request->buffer.data, message.data(), std::min(message.size(), request->buffer.bytes));
      if (!faults.sizesUnsaid) sizes[0] = static_cast<int>(message.size()) + faults.sizeOff;
    }
    queue.pop_front();
    owned_.erase(request);
    return true;
  }

  Status closeSend(NetSendComm*) override { return closed(); }
  Status closeRecv(NetRecvComm*) override { return closed(); }
  Status closeListen(NetListenComm*) override { return closed(); }

 private:
  enum class Kind { Send, Recv, Flush };
  struct Link {
    std::deque<std::string> messages;
  };
  struct Comm;
  struct Request {
    Comm* comm;
    Kind kind;
    NetBuffer buffer;
  };
  struct Object {
    virtual ~Object() = default;
  };
  struct Comm : Object {
    std::shared_ptr<Link> link;
    std::deque<Request*> requests, flushes;
  };
  struct Listener : Object {
    uint32_t id = 0;
    std::deque<std::shared_ptr<Link>> waiting;
  };

  template <class T>
  T* make() {
    auto owner = std::make_unique<T>();
    T* object = owner.get();
    comms_.push_back(std::move(owner));
    open++;
    return object;
  }
  bool later() { return isSlow_ && random_() % 3 != 0; }
  Result<NetRequest*> begin(Comm* comm, const NetBuffer& buffer, Kind kind) {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(buffer.memory, reinterpret_cast<NetMemory*>(this)) << "registered";
    if (faults.noRoom || (kind != Kind::Flush && later())) return nullptr;
    auto owner = std::make_unique<Request>(Request{comm, kind, buffer});
    Request* request = owner.get();
    owned_[request] = std::move(owner);
    std::deque<Request*>& queue = kind == Kind::Flush ? comm->flushes : comm->requests;
    queue.push_back(request);
    mostOut = std::max(mostOut.load(), static_cast<int>(queue.size()));
    return reinterpret_cast<NetRequest*>(request);
  }
  Result<NetMemory*> reg() {
    if (faults.regMrFails) return fail(ncclSystemError, "out of memory");
    open++;
    return reinterpret_cast<NetMemory*>(this);
  }
  Status dereg() {
    open--;
    return Ok{};
  }
  Status closed() {
    open--;
    return Ok{};
  }

  std::string name_ = "Fake";
  std::mutex mutex_;  // guards all below
  std::mt19937 random_;
  bool isSlow_;
  std::vector<std::unique_ptr<Object>> comms_;
  std::map<uint32_t, Listener*> listeners_;
  std::map<Request*, std::unique_ptr<Request>> owned_;
};

}  // namespace nccom
