// Device memory of this process (HBM): one sparse memfd, mapped once, shared with the processes
// that its descriptor is handed to.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "plugins/device_emu/epoch.h"
#include "plugins/device_emu/owned.h"
#include "plugins/device_emu/ranges.h"
#include "plugins/device_emu/status.h"

namespace nccom::emu {

inline constexpr uint64_t kDefaultHbmBytes = uint64_t{64} << 30;
inline constexpr uint64_t kMinHbmBytes = uint64_t{16} << 20;
inline constexpr uint64_t kHbmAlignment = 256;
/// The first page is never allocated: it carries the process header (peers.h), and offset 0 can
/// mean "nowhere".
inline constexpr uint64_t kHbmHeaderBytes = 4096;

/// Maps `bytes` of a memfd, readable and writable, at a multiple of 2 MiB so that huge pages fit.
/// @error ncclSystemError  no room in the address space
Result<OwnedMapping> mapShared(int fd, uint64_t bytes);

struct HbmOptions {
  uint64_t bytes = kDefaultHbmBytes;  // address space; rounded up to 2 MiB
  // Bytes that this machine could still back with memory; empty: systemMemoryLeft of available.h.
  std::function<uint64_t()> memoryLeft = {};
  // Back every block with memory when it is allocated: without it strict overcommit accounting
  // would turn the first touch of a page into SIGBUS. -1: as the machine's overcommit mode asks,
  // 0, 1.
  int preallocate = -1;
};

// Thread-safe. Nothing has a name in any file system, so nothing remains when the process is
// killed, and the size of /dev/shm does not matter. The metadata of the allocator is private
// memory.
//
// Memory is host memory, taken page by page at first touch. Before it hands out a large block, or
// many small ones, alloc() compares what was promised and not yet touched with what the machine and
// the memory control groups have left, and refuses instead of letting the first touch kill the
// process. Other processes may still be faster: that is the kernel's to settle.
//
// fork(): the child inherits the mapping, sharing the parent's data. It must not use it: alloc()
// and free() in the child fail, and neither allocator state nor pages are changed there. Writing
// through an inherited pointer is not prevented. The child keeps the pages alive until it execs or
// ends.
class Hbm {
 public:
  /// Maps `options.bytes`, or the largest half, quarter ... of it that a limit on the address space
  /// (RLIMIT_AS) or file size lets through; notice() then says so.
  ///
  /// @error ncclInvalidArgument  bytes below kMinHbmBytes or above 2^46
  /// @error ncclSystemError      no memfd, or not even kMinHbmBytes can be mapped
  static Result<std::unique_ptr<Hbm>> open(const HbmOptions& options = {});
  Hbm(const Hbm&) = delete;
  Hbm& operator=(const Hbm&) = delete;

  /// A block aligned to 256 B, from 4 KiB on to 4 KiB, from 2 MiB on to 2 MiB. 0 bytes give a block
  /// too. Contents: unspecified.
  ///
  /// @error ncclSystemError   no room in the address space, or not enough memory to back it
  /// @error ncclInvalidUsage  in a forked child
  Result<void*> alloc(size_t bytes);

  /// Ends a block. The pages of blocks of 2 MiB and more go back to the machine at once.
  ///
  /// @param address  what alloc() returned; nullptr does nothing
  /// @error ncclInvalidArgument  any other address: freed before, inside a block, or not ours
  /// @error ncclInvalidUsage     in a forked child
  Status free(void* address);

  std::byte* base() const { return mapping_.base(); }
  uint64_t bytes() const { return mapping_.bytes(); }
  int fd() const { return fd_.get(); }

  /// Whether all of [address, address + bytes) is device memory, allocated or not.
  bool contains(const void* address, size_t bytes) const;
  /// Whether an operation may use [address, address + bytes): memory elsewhere is not ours to
  /// judge.
  ///
  /// @error ncclInvalidArgument  device memory that is not all in one block that alloc() gave out
  Status checkUse(const void* address, uint64_t bytes) const;
  /// Changes whenever a block ends: what checkUse() has accepted is good until then.
  uint64_t epoch() const { return gone_.now(); }
  /// @param address  within device memory
  uint64_t offsetOf(const void* address) const {
    return static_cast<uint64_t>(static_cast<const std::byte*>(address) - base());
  }
  /// @param offset  below bytes()
  void* at(uint64_t offset) const { return base() + offset; }

  /// What was not as asked for, in words for the log; empty if all was.
  const std::string& notice() const { return notice_; }

  struct Usage {
    uint64_t allocatedBytes;  // rounded as allocated
    uint64_t blocks;
    uint64_t freeBytes;  // of the address space
    uint64_t largestFreeBytes;
    uint64_t residentBytes;  // backed by memory now
  };
  Usage usage() const;

 private:
  Hbm(OwnedFd fd, OwnedMapping mapping, const HbmOptions& options);
  Status ownedByThisProcess(const char* what) const;
  Status backed(uint64_t bytes);
  uint64_t residentBytes() const;

  OwnedFd fd_;
  OwnedMapping mapping_;
  std::function<uint64_t()> memoryLeft_;
  bool preallocate_;
  pid_t pid_;
  std::string notice_;

  mutable std::mutex mutex_;  // guards ranges_ and uncheckedBytes_
  Ranges ranges_;
  Epoch gone_;                   // of blocks
  uint64_t uncheckedBytes_ = 0;  // handed out since memoryLeft_ was last asked
};

}  // namespace nccom::emu
