// What the adapters of all versions of the net ABI share.
#pragma once

#include <algorithm>
#include <climits>
#include <string>
#include <utility>

#include "include/plugin/nccl_net.h"
#include "plugin/library.h"
#include "plugin/net.h"
#include "plugin/net_log.h"

namespace nccom {

/// Largest message that a plugin whose ABI cannot say it is trusted with.
/// @source NCCL's MAX_NET_SIZE for plugins up to version 8
inline constexpr size_t kMaxNetBytesV8 = size_t{1} << 30;

/// Largest group that is passed to a plugin; maxRecvs above it is not used.
inline constexpr int kMaxNetGroup = 32;

/// A net by its table, with the library that the table lives in. `Table` is an ABI struct; those
/// functions whose shape did not change between versions are called here.
template <class Table>
class NetAdapter : public Net {
 public:
  NetAdapter(Library library, const Table* table, const char* symbol)
      : library_(std::move(library)), table_(table), symbol_(symbol) {
    name_ = table->name != nullptr ? table->name : "(no name)";
  }

  const std::string& name() const override { return name_; }
  std::string origin() const override { return std::string(symbol_) + " of " + library_.path(); }

  Result<int> devices() override {
    int count = 0;
    TRY(called("devices", table_->devices(&count)));
    return count;
  }

  Result<NetListenComm*> listen(int dev, NetHandle& handle) override {
    void* comm = nullptr;
    TRY(called("listen", table_->listen(dev, handle.data(), &comm)));
    if (comm == nullptr) return netCallFailed(name_, "listen (no comm)", ncclInternalError);
    return static_cast<NetListenComm*>(comm);
  }

  Status deregMr(NetSendComm* comm, NetMemory* memory) override {
    return called("deregMr", table_->deregMr(comm, memory));
  }
  Status deregMr(NetRecvComm* comm, NetMemory* memory) override {
    return called("deregMr", table_->deregMr(comm, memory));
  }

  Result<bool> test(NetRequest* request, std::span<int> sizes) override {
    int done = 0;
    TRY(called("test", table_->test(request, &done, sizes.empty() ? nullptr : sizes.data())));
    return done != 0;
  }

  Status closeSend(NetSendComm* comm) override {
    return called("closeSend", table_->closeSend(comm));
  }
  Status closeRecv(NetRecvComm* comm) override {
    return called("closeRecv", table_->closeRecv(comm));
  }
  Status closeListen(NetListenComm* comm) override {
    return called("closeListen", table_->closeListen(comm));
  }

 protected:
  Status called(const char* call, ncclResult_t code) const {
    if (code == ncclSuccess) return Ok{};
    return netCallFailed(name_, call, code);
  }

  Error tooMany(const char* call, size_t count) const {
    return fail(ncclInvalidUsage, "net %s: %s of %zu messages at once; at most %d are possible",
                name_.c_str(), call, count, kMaxNetGroup);
  }

  Error tooLong(const char* call, size_t bytes) const {
    return fail(ncclInvalidUsage, "net %s: %s of %zu bytes; its ABI takes at most %d",
                name_.c_str(), call, bytes, INT_MAX);
  }

  const Library library_;     // first: destroyed last
  const Table* const table_;  // in the library's memory; init may have filled it in
  const char* const symbol_;
  std::string name_;
};

inline int ncclPtrOf(NetMemoryKind kind) {
  switch (kind) {
    case NetMemoryKind::Host:
      return NCCL_PTR_HOST;
    case NetMemoryKind::Device:
      return NCCL_PTR_CUDA;
    case NetMemoryKind::Dmabuf:
      return NCCL_PTR_DMABUF;
  }
  return NCCL_PTR_HOST;
}

/// The names of those functions that a table must have and lacks, "" if none.
struct NetFunction {
  const char* name;
  bool present;
};
inline std::string missingFunctions(std::span<const NetFunction> functions) {
  std::string out;
  for (const NetFunction& function : functions) {
    if (!function.present) out += (out.empty() ? "" : ", ") + std::string(function.name);
  }
  return out;
}

}  // namespace nccom
