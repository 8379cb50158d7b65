// What all parts of the verifier know: the operations under test, and how to speak of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "enc/layout.h"
#include "enc/program.h"
#include "enc/verify.h"
#include "misc/result.h"

namespace nccom {

/// A descriptor's place.
struct encSite {
  int operation = 0, rank = 0;
  size_t queue = 0, block = 0, desc = 0;
};

/// Who raises a semaphore: one queue of a rank in one operation, or a rank's own proxy.
struct encRaiser {
  int party = kProxyParty;  // rank; kProxyParty: the owner's proxy
  int operation = 0;
  size_t queue = 0;      // of a proxy: the connection's index
  uint64_t total = 0;    // increments
  uint64_t without = 0;  // increments by others that can happen before its first one
  static constexpr int kProxyParty = -1;
};

/// A semaphore that some program uses.
struct encUsedSemaphore {
  int rank = 0;
  uint32_t number = 0;
  std::vector<encRaiser> raisers;  // by operation
};

/// What a descriptor that waits or raises does it with: numbers in encVerifyWorld::semaphores, and
/// among that one's raisers. Network descriptors raise the semaphore of their connection.
struct encTarget {
  uint32_t semaphore = 0, raiser = 0;
};

/// Small numbers for large keys.
class encIndex {
 public:
  /// The key's number; `next` becomes it if the key is new.
  uint32_t add(uint64_t key, uint32_t next);
  std::optional<uint32_t> find(uint64_t key) const;

 private:
  struct Entry {
    uint64_t key = 0;
    uint32_t value = 0;
    bool used = false;
  };
  size_t placeOf(uint64_t key) const;
  void grow();

  std::vector<Entry> entries_;  // a power of two, at most half of them used
  size_t used_ = 0;
};

struct encVerifyWorld {
  encVerifyWorld(const enc_comm_info& comm, std::span<const encOperation> programs,
                 const encVerifyOptions& wanted)
      : info(comm), operations(programs), options(wanted), layout(encLayout::of(comm)) {}

  const enc_comm_info& info;
  std::span<const encOperation> operations;
  encVerifyOptions options;
  encLayout layout;                    // of info's rank; but for the peers' slots, of all
  std::vector<uint64_t> scratchBytes;  // [rank] that its layout has
  std::vector<encUsedSemaphore> semaphores;
  std::vector<encTarget> targets;  // [number of site]

  const encProgram& program(int operation, int rank) const { return operations[operation][rank]; }
  const encDesc& desc(const encSite& site) const;

  /// Descriptors have numbers, in the order in which addBlock is called: by operation, rank, queue.
  void addBlock(const encSite& first);
  uint32_t blockSite(int operation, int rank, size_t queue, size_t block) const;
  uint32_t siteId(const encSite& site) const {
    return blockSite(site.operation, site.rank, site.queue, site.block) +
           static_cast<uint32_t>(site.desc);
  }
  encSite site(uint32_t number) const;

  /// Number of a semaphore in `semaphores`.
  uint32_t addSemaphore(int rank, uint32_t semaphore);
  std::optional<uint32_t> findSemaphore(int rank, uint32_t semaphore) const {
    return semaphoreNumbers_.find(semaphoreKey(rank, semaphore));
  }

  /// "rank 1 queue 0 block 2 descriptor 5 of operation 0 (AllReduce): recv_copy ...".
  std::string text(const encSite& site) const;
  std::string text(uint32_t site) const { return text(this->site(site)); }
  /// A violation at `site`.
  Error bad(const encSite& site, const std::string& what) const;
  Error bad(uint32_t site, const std::string& what) const { return bad(this->site(site), what); }

 private:
  struct Block {
    encSite first;
    uint32_t number = 0;  // of its descriptor 0
  };
  static uint64_t semaphoreKey(int rank, uint32_t semaphore) {
    return static_cast<uint64_t>(rank) << 32 | semaphore;
  }

  std::vector<Block> blocks_;
  std::vector<uint32_t> programQueues_;  // [operation * ranks + rank] index in queueBlocks_
  std::vector<uint32_t> queueBlocks_;    // index in blocks_ of each queue's first block
  encIndex semaphoreNumbers_;
};

/// Everything that can be seen without running: shapes, bounds, totals, who raises what.
/// @return the world, with semaphores, sites and targets filled in
Result<encVerifyWorld> encInspect(const enc_comm_info& info,
                                  std::span<const encOperation> operations,
                                  const encVerifyOptions& options);

}  // namespace nccom
