// Cost facts: what the programs of one operation do, counted.
//
//   steps        transfers, and messages of networks, on the longest chain of which each starts
//                after the one before has ended: by the order of a queue, or because a semaphore
//                says so. Where iterations of long blocks are not run, chains grow by as much as in
//                the last one before, which may be a few more.
//   accesses     bytes that transfers read and write in memory, each source and each destination,
//                and bytes that networks take from scratch and put there
//   touches      accesses, in elements, for each element of the message. The message is what NCCL's
//                tests count: the longer of one rank's buffers; for groups of messages all of them.
//                Divided by the number of ranks: how often each rank touches its share.
//   link bytes   a copy goes from the source's owner to each destination's; what is computed goes
//                from the sources' owners to the rank that computes, and on to the destinations'
//   hops         devices that the way of a transfer reaches, of the longest way
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "enc/comm_info.h"
#include "enc/links.h"
#include "enc/program.h"
#include "enc/verify.h"
#include "misc/result.h"

namespace nccom {

struct encCost {
  int ranks = 1;
  uint64_t messageBytes = 0;
  uint64_t steps = 0;
  uint64_t descriptors = 0;  // as they stand in the programs, each block once
  uint64_t transfers = 0;    // as they are executed, on all ranks; the same of what follows
  uint64_t increments = 0, waits = 0;
  uint64_t netMessages = 0, netBytes = 0;  // each once, where it is sent
  uint64_t readBytes = 0, writtenBytes = 0;
  uint64_t mostRankBytes = 0;  // read and written by transfers and networks of one rank
  uint64_t scratchBytes = 0;   // of the rank that has most
  bool hasLinks = false;       // else nothing is known of them
  uint64_t linkBytes = 0;      // over links between devices, once for each link
  uint64_t mostLinkBytes = 0;  // of one of them, or of a device's port at a switch
  int mostHops = 0;
  std::vector<encLinkUse> links;
  bool operator==(const encCost&) const = default;

  double touches() const;
  double touchesPerRank() const { return touches() / ranks; }

  /// Names and values, for people and for JSON: numbers as text, in the order above.
  std::vector<std::pair<std::string, std::string>> values() const;
  /// A line each, the links in a table.
  std::string text() const;
};

/// Verifies the programs of all ranks for one operation, and counts.
///
/// @param info  of any rank of the communicator
/// @error as encVerify
Result<encCost> encCostOf(const enc_comm_info& info, const encOperation& operation,
                          const encVerifyOptions& options = {});

}  // namespace nccom
