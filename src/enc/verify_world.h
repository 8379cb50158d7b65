// What all parts of the verifier know: the operations under test, and how to speak of them.
#pragma once

#include <cstdint>
#include <map>
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
  uint64_t done = 0;     // increments made so far in a run
  static constexpr int kProxyParty = -1;
};

struct encVerifyWorld {
  const enc_comm_info& info;
  std::span<const encOperation> operations;
  encVerifyOptions options;
  std::vector<encLayout> layouts;               // [rank]
  std::vector<std::vector<encRaiser>> raisers;  // [rank * semaphores + semaphore]
  std::vector<encSite> sites;                   // by number
  std::map<std::vector<size_t>, uint32_t>
      siteIds;  // {operation, rank, queue, block} of descriptor 0

  const encProgram& program(int operation, int rank) const { return operations[operation][rank]; }
  const encDesc& desc(const encSite& site) const;
  uint32_t siteId(const encSite& site) const;
  size_t semaphoreId(int rank, uint32_t semaphore) const {
    return static_cast<size_t>(rank) * layouts[0].semaphores() + semaphore;
  }
  /// "rank 1 queue 0 block 2 descriptor 5 of operation 0 (AllReduce): recv_copy ...".
  std::string text(const encSite& site) const;
  /// A violation at `site`.
  Error bad(const encSite& site, const std::string& what) const;
};

/// Everything that can be seen without running: shapes, bounds, totals, who raises what.
/// @return the world, with raisers and sites filled in
Result<encVerifyWorld> encInspect(const enc_comm_info& info,
                                  std::span<const encOperation> operations,
                                  const encVerifyOptions& options);

}  // namespace nccom
