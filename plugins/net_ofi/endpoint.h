// An endpoint of libfabric with its completion queue and address vector.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "include/plugin/nccl_net.h"
#include "plugins/net_ofi/provider.h"

namespace nccom::ofi {

template <class Fid>
struct CloseFid {
  void operator()(Fid* object) const { fi_close(&object->fid); }
};
template <class Fid>
using Owned = std::unique_ptr<Fid, CloseFid<Fid>>;

/// One message under way. Its address is the provider's context, so it neither moves nor goes
/// before it is finished: the endpoint adopts those that their owner leaves.
struct Operation {
  enum class State : uint8_t { Idle, Posted, Done, Failed };

  fi_context2 context{};  // first: the provider gives back its address
  // Written by whoever progresses the endpoint (release), read by the owner (acquire): the fields
  // below are complete when Done or Failed is seen.
  std::atomic<State> state{State::Idle};
  size_t bytes = 0;     // received or sent
  uint64_t word = 0;    // of the sender; the size, if there is none
  int error = 0;        // of libfabric
  size_t overflow = 0;  // bytes that did not fit
  std::string text;     // of the failure

  bool finished() const {
    const State now = state.load(std::memory_order_acquire);  // pairs with complete()
    return now == State::Done || now == State::Failed;
  }
};

/// Registered memory; `descriptor` is what posting wants, null where the provider wants none.
struct Memory {
  Owned<fid_mr> region;
  void* descriptor = nullptr;
};

class Endpoint;

/// The domain of a device, shared by its endpoints.
struct Domain {
  std::shared_ptr<const Device> device;
  Owned<fid_fabric> fabric;
  Owned<fid_domain> domain;
  std::mutex mutex;  // guards all calls into the provider on this domain, and what follows
  std::vector<Endpoint*>
      endpoints;  // open ones: each helps the others, as peers may be in here too
  uint64_t lastKey = 0;

  static ncclResult_t open(std::shared_ptr<const Device> device, std::shared_ptr<Domain>& out);
};

/// Thread-safe: any thread posts and progresses. Shared by the connections that use it, so that
/// the last one closes it.
class Endpoint {
 public:
  static ncclResult_t open(std::shared_ptr<Domain> domain, std::shared_ptr<Endpoint>& out);
  ~Endpoint();

  /// The address that a peer inserts.
  const std::vector<std::byte>& address() const { return address_; }
  /// The peer of an address.
  ncclResult_t peer(const std::vector<std::byte>& address, fi_addr_t& out);
  /// Room of the tag: how many of its low bits the provider matches.
  int tagBits() const;
  uint32_t nextConnection() { return ++lastConnection_; }
  const Device& device() const { return *domain_->device; }

  /// What to post.
  struct Post {
    void* data = nullptr;
    size_t bytes = 0;
    const Memory* memory = nullptr;
    fi_addr_t peer = FI_ADDR_UNSPEC;
    uint64_t tag = 0;   // with Protocol::Tagged
    uint64_t word = 0;  // of a send: travels beside the message
  };
  /// *posted is false when the provider has no room now.
  ncclResult_t send(Operation& operation, const Post& post, bool* posted);
  /// Sends no bytes but the word, with Protocol::Tagged; there is nothing to wait for.
  ncclResult_t announce(const Post& post, bool* posted);
  ncclResult_t recv(Operation& operation, const Post& post, bool* posted);

  /// Takes completions and lets the provider work; does nothing if another thread is at it.
  void progress();

  /// The provider has given up on the whole endpoint; why has been logged.
  bool broken() const { return broken_.load(std::memory_order_relaxed); }

  /// Withdraws receives that no message has met.
  void cancel(Operation& operation);
  /// Keeps operations that are not finished until they are, or the endpoint closes.
  void adopt(std::unique_ptr<Operation[]> operations, size_t count);

  /// Removes what the provider of a process that died has left on this host.
  void cleanUpAfter(const std::vector<std::byte>& address) const;

  ncclResult_t registerMemory(void* data, size_t bytes, Memory& out);
  void deregister(Memory memory);

 private:
  explicit Endpoint(std::shared_ptr<Domain> domain) : domain_(std::move(domain)) {}
  ncclResult_t start();
  ncclResult_t outcome(const char* call, ssize_t code, bool* posted);
  void progressLocked();
  void readCompletions();
  void completeError();

  struct Orphans {
    std::unique_ptr<Operation[]> operations;
    size_t count;
  };

  const std::shared_ptr<Domain> domain_;  // outlives the members below
  std::vector<Orphans> orphans_;          // freed after the endpoint is closed
  Owned<fid_av> av_;
  Owned<fid_cq> cq_;
  Owned<fid_ep> ep_;  // closed first
  std::vector<std::byte> address_;
  std::map<std::vector<std::byte>, fi_addr_t> peers_;
  uint32_t polls_ = 0;
  std::atomic<uint32_t> lastConnection_{0};  // relaxed: a counter
  std::atomic<bool> broken_{false};          // relaxed: ends waits a poll earlier or later
};

}  // namespace nccom::ofi
