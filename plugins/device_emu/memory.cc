#include "plugins/device_emu/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <utility>

#include "plugins/device_emu/available.h"

namespace nccom::emu {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kLargeBytes = uint64_t{2} << 20;  // a huge page of x86-64 and of 4 KiB arm64
constexpr uint64_t kCheckEvery = uint64_t{16}
                                 << 20;  // memory handed out between two looks at what is left

uint64_t roundUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

uint64_t alignmentOf(uint64_t bytes) {
  if (bytes >= kLargeBytes) return kLargeBytes;
  return bytes >= kPageBytes ? kPageBytes : kHbmAlignment;
}

using ull = unsigned long long;

// Growing a file beyond RLIMIT_FSIZE would raise a signal, not only fail: look first.
bool fileMayHave(uint64_t bytes) {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
         bytes <= limit.rlim_cur;
}

struct Mapped {
  OwnedFd fd;
  OwnedMapping mapping;
};

Result<Mapped> createAndMap(uint64_t bytes) {
  OwnedFd fd(memfd_create("nccom-hbm", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return fail(ncclSystemError, "device memory: memfd_create: %s", strerror(errno));
  if (!fileMayHave(bytes)) {
    return fail(ncclSystemError,
                "device memory: %llu bytes are beyond the limit on file sizes (ulimit -f)",
                ull{bytes});
  }
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return fail(ncclSystemError, "device memory: a memfd of %llu bytes: %s", ull{bytes},
                strerror(errno));
  }
  // A file that cannot shrink cannot turn a peer's access into SIGBUS. A kernel that does not know
  // seals for memfds is no reason to fail: we never shrink it.
  fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL);
  OwnedMapping mapping = EMU_TRY(mapShared(fd.get(), bytes));
  return Mapped{std::move(fd), std::move(mapping)};
}

}  // namespace

Result<OwnedMapping> mapShared(int fd, uint64_t bytes) {
  // Reserve more than is needed, keep the part that starts at a multiple of a huge page.
  const uint64_t reserved = bytes + kLargeBytes;
  void* const space =
      mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED) {
    return fail(ncclSystemError, "device memory: no address space for %llu bytes: %s",
                ull{reserved}, strerror(errno));
  }
  auto* const first = static_cast<std::byte*>(space);
  const auto start = reinterpret_cast<uintptr_t>(space);
  const uint64_t before = roundUp(start, kLargeBytes) - start;
  const uint64_t behind = kLargeBytes - before;
  void* const base = mmap(first + before, bytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0);
  if (base == MAP_FAILED) {
    const int error = errno;
    munmap(space, reserved);
    return fail(ncclSystemError, "device memory: mmap of %llu bytes: %s", ull{bytes},
                strerror(error));
  }
  if (before > 0) munmap(first, before);
  if (behind > 0) munmap(first + before + bytes, behind);
  return OwnedMapping(base, bytes);
}

Result<std::unique_ptr<Hbm>> Hbm::open(const HbmOptions& options) {
  if (options.bytes < kMinHbmBytes || options.bytes > (uint64_t{1} << 46)) {
    return fail(ncclInvalidArgument, "device memory: %llu bytes asked for, not within %llu..2^46",
                ull{options.bytes}, ull{kMinHbmBytes});
  }
  const uint64_t wanted = roundUp(options.bytes, kLargeBytes);
  std::string why;
  for (uint64_t bytes = wanted; bytes >= kMinHbmBytes; bytes = roundUp(bytes / 2, kLargeBytes)) {
    auto mapped = createAndMap(bytes);
    if (!mapped.ok()) {
      if (why.empty()) why = mapped.error().message;
      continue;
    }
    Mapped parts = std::move(mapped).value();
    std::unique_ptr<Hbm> hbm(
        new Hbm(std::move(parts.fd), std::move(parts.mapping), options));  // NOLINT: private
    if (bytes < wanted) {
      hbm->notice_ =
          fail(ncclSystemError, "%s; device memory has %llu bytes instead", why.c_str(), ull{bytes})
              .message;
    }
    return hbm;
  }
  return fail(ncclSystemError, "%s; nor is there room for the smallest size, %llu bytes",
              why.c_str(), ull{kMinHbmBytes});
}

Hbm::Hbm(OwnedFd fd, OwnedMapping mapping, const HbmOptions& options)
    : fd_(std::move(fd)),
      mapping_(std::move(mapping)),
      memoryLeft_(options.memoryLeft ? options.memoryLeft : systemMemoryLeft),
      preallocate_(options.preallocate < 0 ? strictOvercommit() : options.preallocate != 0),
      pid_(getpid()),
      ranges_({kHbmHeaderBytes, mapping_.bytes() - kHbmHeaderBytes}) {}

Status Hbm::ownedByThisProcess(const char* what) const {
  if (getpid() == pid_) return Ok{};
  return fail(ncclInvalidUsage,
              "device memory: %s in process %d, forked from process %d that owns it: initialise "
              "after fork()",
              what, getpid(), pid_);
}

uint64_t Hbm::residentBytes() const {
  struct stat status {};
  if (fstat(fd_.get(), &status) != 0) return 0;
  return static_cast<uint64_t>(status.st_blocks) * 512;
}

// With mutex_ held, the block already counted in ranges_. What is promised but not resident must
// find room in what is left.
Status Hbm::backed(uint64_t bytes) {
  if (uncheckedBytes_ + bytes < kCheckEvery) {
    uncheckedBytes_ += bytes;
    return Ok{};
  }
  const uint64_t taken = ranges_.takenBytes();
  const uint64_t untouched = std::max(bytes, taken - std::min(taken, residentBytes()));
  const uint64_t left = memoryLeft_();
  if (untouched > left) {
    return fail(ncclSystemError,
                "device memory: %llu bytes wanted, but of the machine's memory %llu bytes are "
                "left, %llu of them "
                "promised to blocks allocated before",
                ull{bytes}, ull{left}, ull{untouched - bytes});
  }
  uncheckedBytes_ = 0;
  return Ok{};
}

Result<void*> Hbm::alloc(size_t bytes) {
  EMU_TRY(ownedByThisProcess("alloc"));
  const uint64_t alignment = alignmentOf(bytes);
  // The first comparison keeps the rounding from overflowing.
  const uint64_t rounded =
      bytes > this->bytes() ? bytes : roundUp(std::max<uint64_t>(bytes, 1), alignment);
  uint64_t offset = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto place =
        rounded > ranges_.largestFree() ? std::nullopt : ranges_.take(rounded, alignment);
    if (!place) {
      return fail(ncclSystemError,
                  "device memory: %llu bytes wanted, %llu of %llu bytes left, in one piece at most "
                  "%llu (NCCOM_HBM_SIZE)",
                  ull{bytes}, ull{ranges_.freeBytes()}, ull{this->bytes()},
                  ull{ranges_.largestFree()});
    }
    offset = *place;
    if (auto enough = backed(rounded); !enough.ok()) {
      ranges_.reuse(*ranges_.release(offset));
      return std::move(enough).error();
    }
  }
  void* const address = at(offset);
  // Fewer faults where shared memory may use huge pages; where it may not, nothing changes.
  if (rounded >= kLargeBytes) madvise(address, rounded, MADV_HUGEPAGE);
  if (preallocate_) {
    int failed = 0;
    while ((failed = fallocate(fd_.get(), 0, static_cast<off_t>(offset),
                               static_cast<off_t>(rounded))) != 0 &&
           errno == EINTR) {
    }
    if (failed != 0) {
      const int error = errno;
      EMU_TRY(free(address));
      return fail(ncclSystemError,
                  "device memory: %llu bytes wanted, and no memory behind them: %s", ull{bytes},
                  strerror(error));
    }
  }
  return address;
}

Status Hbm::checkUse(const void* address, uint64_t bytes) const {
  if (!contains(address, 1)) return Ok{};
  thread_local Remembered<Range> found;
  const uint64_t offset = offsetOf(address);
  std::optional<Range> block = found.find(gone_, [offset](const Range& range) {
    return offset >= range.offset && offset - range.offset < range.bytes;
  });
  if (!block) {
    const uint64_t epoch = gone_.now();
    const std::lock_guard lock(mutex_);
    block = ranges_.find(offset);
    if (block) found.keep(epoch, *block);
  }
  if (!block) {
    return fail(ncclInvalidArgument, "device memory at %p is not allocated (freed before?)",
                address);
  }
  const uint64_t left = block->offset + block->bytes - offsetOf(address);
  if (bytes <= left) return Ok{};
  return fail(ncclInvalidArgument,
              "%llu bytes at %p are more than the %llu left of its block of device memory",
              ull{bytes}, address, ull{left});
}

Status Hbm::free(void* address) {
  if (address == nullptr) return Ok{};
  EMU_TRY(ownedByThisProcess("free"));
  if (!contains(address, 1)) {
    return fail(ncclInvalidArgument, "device memory: free of %p, which is not in %p..%p", address,
                static_cast<void*>(base()), static_cast<void*>(base() + bytes()));
  }
  std::optional<Range> range;
  {
    const std::lock_guard lock(mutex_);
    range = ranges_.release(offsetOf(address));
    if (!range) {
      if (const auto block = ranges_.find(offsetOf(address))) {
        return fail(ncclInvalidArgument,
                    "device memory: free of %p, within the block of %llu bytes at %p", address,
                    ull{block->bytes}, at(block->offset));
      }
      return fail(ncclInvalidArgument,
                  "device memory: free of %p, which is not allocated (freed before?)", address);
    }
    gone_.next();
  }
  // Between release and reuse nobody can get the block: its pages go unseen. If the kernel refuses,
  // they stay for the next owner.
  if (range->bytes >= kLargeBytes) {
    fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(range->offset), static_cast<off_t>(range->bytes));
  }
  const std::lock_guard lock(mutex_);
  ranges_.reuse(*range);
  return Ok{};
}

bool Hbm::contains(const void* address, size_t bytes) const {
  const auto first = reinterpret_cast<uintptr_t>(address);
  const auto start = reinterpret_cast<uintptr_t>(base());
  return first >= start && first - start <= this->bytes() &&
         bytes <= this->bytes() - (first - start);
}

Hbm::Usage Hbm::usage() const {
  const std::lock_guard lock(mutex_);
  return {.allocatedBytes = ranges_.takenBytes(),
          .blocks = ranges_.takenCount(),
          .freeBytes = ranges_.freeBytes(),
          .largestFreeBytes = ranges_.largestFree(),
          .residentBytes = residentBytes()};
}

}  // namespace nccom::emu
