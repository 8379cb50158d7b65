#include "plugins/net_ofi/endpoint.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "plugins/net_ofi/log.h"

namespace nccom::ofi {
namespace {

constexpr size_t kQueueEntries = 4096;
constexpr size_t kReadEntries = 16;  // completions taken in one call
constexpr int kMaxRounds = 8;        // calls before other threads get their turn
constexpr size_t kMaxAddressBytes = 256;
constexpr uint32_t kPollsOfOthers = 32;  // own polls to one of the domain's other endpoints

ncclResult_t fabricFailed(const char* call, ssize_t code) {
  return failed(ncclSystemError, "%s: %s (%zd)", call, fi_strerror(static_cast<int>(-code)), code);
}

/// Opens an object of libfabric into its owner.
template <class Fid, class Open>
ncclResult_t openInto(Owned<Fid>& owner, const char* call, Open open) {
  Fid* object = nullptr;
  if (const int code = open(&object); code != 0) return fabricFailed(call, code);
  owner.reset(object);
  return ncclSuccess;
}

void complete(Operation& operation, Operation::State state) {
  operation.state.store(state, std::memory_order_release);  // pairs with finished()
}

}  // namespace

ncclResult_t Domain::open(std::shared_ptr<const Device> device, std::shared_ptr<Domain>& out) {
  auto domain = std::make_shared<Domain>();
  fi_info* info = device->info.get();
  domain->device = std::move(device);
  TRY(openInto(domain->fabric, "fi_fabric",
               [&](fid_fabric** f) { return fi_fabric(info->fabric_attr, f, nullptr); }));
  TRY(openInto(domain->domain, "fi_domain",
               [&](fid_domain** d) { return fi_domain(domain->fabric.get(), info, d, nullptr); }));
  out = std::move(domain);
  return ncclSuccess;
}

ncclResult_t Endpoint::open(std::shared_ptr<Domain> domain, std::shared_ptr<Endpoint>& out) {
  std::shared_ptr<Endpoint> endpoint(
      new Endpoint(std::move(domain)));  // NOLINT: private constructor
  const std::lock_guard lock(endpoint->domain_->mutex);
  TRY(endpoint->start());
  out = std::move(endpoint);
  return ncclSuccess;
}

ncclResult_t Endpoint::start() {
  fi_info* info = domain_->device->info.get();
  fid_domain* domain = domain_->domain.get();
  fi_av_attr avAttr{};
  avAttr.type = FI_AV_UNSPEC;
  TRY(openInto(av_, "fi_av_open",
               [&](fid_av** av) { return fi_av_open(domain, &avAttr, av, nullptr); }));
  fi_cq_attr cqAttr{};
  cqAttr.size = kQueueEntries;
  cqAttr.format = FI_CQ_FORMAT_TAGGED;
  cqAttr.wait_obj = FI_WAIT_NONE;
  TRY(openInto(cq_, "fi_cq_open",
               [&](fid_cq** cq) { return fi_cq_open(domain, &cqAttr, cq, nullptr); }));
  TRY(openInto(ep_, "fi_endpoint",
               [&](fid_ep** ep) { return fi_endpoint(domain, info, ep, nullptr); }));
  if (const int code = fi_ep_bind(ep_.get(), &av_->fid, 0))
    return fabricFailed("bind the AV", code);
  if (const int code = fi_ep_bind(ep_.get(), &cq_->fid, FI_SEND | FI_RECV)) {
    return fabricFailed("bind the CQ", code);
  }
  if (const int code = fi_enable(ep_.get())) return fabricFailed("fi_enable", code);
  address_.resize(kMaxAddressBytes);
  size_t bytes = address_.size();
  if (const int code = fi_getname(&ep_->fid, address_.data(), &bytes)) {
    return fabricFailed("fi_getname", code);
  }
  address_.resize(bytes);
  domain_->endpoints.push_back(this);
  return ncclSuccess;
}

Endpoint::~Endpoint() {
  const std::lock_guard lock(domain_->mutex);
  std::erase(domain_->endpoints, this);
  ep_.reset();
  cq_.reset();
  av_.reset();
}

int Endpoint::tagBits() const {
  return static_cast<int>(std::bit_width(device().info->ep_attr->mem_tag_format));
}

ncclResult_t Endpoint::peer(const std::vector<std::byte>& address, fi_addr_t& out) {
  const std::lock_guard lock(domain_->mutex);
  const auto known = peers_.find(address);
  if (known != peers_.end()) {
    out = known->second;
    return ncclSuccess;
  }
  if (const int count = fi_av_insert(av_.get(), address.data(), 1, &out, 0, nullptr); count != 1) {
    return failed(ncclSystemError, "fi_av_insert of the peer's address: %s",
                  count < 0 ? fi_strerror(-count) : "not taken");
  }
  peers_.emplace(address, out);
  return ncclSuccess;
}

ncclResult_t Endpoint::outcome(const char* call, ssize_t code, bool* posted) {
  *posted = code == 0;
  if (code == 0) return ncclSuccess;
  if (code != -FI_EAGAIN) {
    return failed(ncclRemoteError, "%s: %s", call, fi_strerror(static_cast<int>(-code)));
  }
  progressLocked();
  return ncclSuccess;
}

ncclResult_t Endpoint::send(Operation& operation, const Post& post, bool* posted) {
  const std::lock_guard lock(domain_->mutex);
  void* descriptor = post.memory != nullptr ? post.memory->descriptor : nullptr;
  operation.bytes = post.bytes;
  operation.state.store(Operation::State::Posted, std::memory_order_relaxed);
  const ssize_t code = device().protocol == Protocol::Tagged
                           ? fi_tsenddata(ep_.get(), post.data, post.bytes, descriptor, post.word,
                                          post.peer, post.tag, &operation.context)
                           : fi_senddata(ep_.get(), post.data, post.bytes, descriptor, post.word,
                                         post.peer, &operation.context);
  // Not taken: nobody else has seen the operation.
  if (code != 0) operation.state.store(Operation::State::Idle, std::memory_order_relaxed);
  return outcome("send", code, posted);
}

ncclResult_t Endpoint::announce(const Post& post, bool* posted) {
  const std::lock_guard lock(domain_->mutex);
  return outcome("send", fi_tinjectdata(ep_.get(), nullptr, 0, post.word, post.peer, post.tag),
                 posted);
}

ncclResult_t Endpoint::recv(Operation& operation, const Post& post, bool* posted) {
  const std::lock_guard lock(domain_->mutex);
  void* descriptor = post.memory != nullptr ? post.memory->descriptor : nullptr;
  operation.state.store(Operation::State::Posted, std::memory_order_relaxed);
  const ssize_t code =
      device().protocol == Protocol::Tagged
          ? fi_trecv(ep_.get(), post.data, post.bytes, descriptor, post.peer, post.tag, 0,
                     &operation.context)
          : fi_recv(ep_.get(), post.data, post.bytes, descriptor, post.peer, &operation.context);
  if (code != 0) operation.state.store(Operation::State::Idle, std::memory_order_relaxed);
  return outcome("receive", code, posted);
}

void Endpoint::progress() {
  const std::unique_lock lock(domain_->mutex, std::try_to_lock);
  if (lock.owns_lock()) progressLocked();
}

void Endpoint::progressLocked() {
  readCompletions();
  if (domain_->endpoints.size() == 1 || ++polls_ % kPollsOfOthers != 0) return;
  for (Endpoint* endpoint : domain_->endpoints) {
    if (endpoint != this) endpoint->readCompletions();
  }
}

void Endpoint::readCompletions() {
  std::array<fi_cq_tagged_entry, kReadEntries> entries;  // NOLINT: filled as far as used
  for (int round = 0; round < kMaxRounds; ++round) {
    const ssize_t count = fi_cq_read(cq_.get(), entries.data(), entries.size());
    if (count == -FI_EAVAIL) {
      completeError();
      continue;
    }
    if (count <= 0) {
      if (count != 0 && count != -FI_EAGAIN && !broken_.exchange(true, std::memory_order_relaxed)) {
        fabricFailed("fi_cq_read", count);
      }
      return;
    }
    for (ssize_t i = 0; i < count; ++i) {
      const fi_cq_tagged_entry& entry = entries[static_cast<size_t>(i)];
      if (entry.op_context == nullptr) continue;
      auto& operation = *static_cast<Operation*>(entry.op_context);
      if ((entry.flags & FI_RECV) != 0) {
        operation.bytes = entry.len;
        operation.word = (entry.flags & FI_REMOTE_CQ_DATA) != 0 ? entry.data : entry.len;
      }
      complete(operation, Operation::State::Done);
    }
    if (static_cast<size_t>(count) < entries.size()) return;
  }
}

void Endpoint::completeError() {
  std::array<char, 256> words{};
  fi_cq_err_entry entry{};
  if (fi_cq_readerr(cq_.get(), &entry, 0) != 1 || entry.op_context == nullptr) return;
  auto& operation = *static_cast<Operation*>(entry.op_context);
  operation.error = entry.err;
  operation.overflow = entry.olen;
  operation.bytes = entry.len;
  operation.word = (entry.flags & FI_REMOTE_CQ_DATA) != 0 ? entry.data : 0;
  operation.text = fi_strerror(entry.err);
  const char* more =
      fi_cq_strerror(cq_.get(), entry.prov_errno, entry.err_data, words.data(), words.size());
  if (more != nullptr && *more != '\0' && operation.text != more) {
    operation.text += std::string(" (") + more + ")";
  }
  complete(operation, Operation::State::Failed);
}

void Endpoint::cancel(Operation& operation) {
  const std::lock_guard lock(domain_->mutex);
  fi_cancel(&ep_->fid, &operation.context);
}

void Endpoint::adopt(std::unique_ptr<Operation[]> operations, size_t count) {
  const std::lock_guard lock(domain_->mutex);
  const auto unfinished = [](const Orphans& orphans) {
    return std::any_of(orphans.operations.get(), orphans.operations.get() + orphans.count,
                       [](const Operation& operation) {
                         return operation.state.load(std::memory_order_acquire) ==
                                Operation::State::Posted;  // pairs with complete()
                       });
  };
  std::erase_if(orphans_, [&](const Orphans& orphans) { return !unfinished(orphans); });
  orphans_.push_back({std::move(operations), count});
}

void Endpoint::cleanUpAfter(const std::vector<std::byte>& address) const {
  if (strcmp(device().provider(), "shm") != 0) return;
  // "fi_shm://PID:...": what follows the slashes is also the name of the process's shared memory,
  // which nobody removes if it is killed.
  const std::string text(reinterpret_cast<const char*>(address.data()),
                         strnlen(reinterpret_cast<const char*>(address.data()), address.size()));
  const std::string name = text.substr(std::min(text.size(), text.rfind('/') + 1));
  if (!name.empty()) shm_unlink(("/" + name).c_str());
}

ncclResult_t Endpoint::registerMemory(void* data, size_t bytes, Memory& out) {
  const uint64_t mode = static_cast<uint64_t>(device().info->domain_attr->mr_mode);
  if ((mode & FI_MR_LOCAL) == 0 || bytes == 0) return ncclSuccess;
  const std::lock_guard lock(domain_->mutex);
  const uint64_t key = (mode & FI_MR_PROV_KEY) != 0 ? 0 : ++domain_->lastKey;
  TRY(openInto(out.region, "fi_mr_reg", [&](fid_mr** region) {
    return fi_mr_reg(domain_->domain.get(), data, bytes, FI_SEND | FI_RECV, 0, key, 0, region,
                     nullptr);
  }));
  if ((mode & FI_MR_ENDPOINT) != 0) {
    if (const int code = fi_mr_bind(out.region.get(), &ep_->fid, 0)) {
      return fabricFailed("fi_mr_bind", code);
    }
    if (const int code = fi_mr_enable(out.region.get())) return fabricFailed("fi_mr_enable", code);
  }
  out.descriptor = fi_mr_desc(out.region.get());
  return ncclSuccess;
}

void Endpoint::deregister(Memory memory) {
  const std::lock_guard lock(domain_->mutex);
  memory.region.reset();
}

}  // namespace nccom::ofi
