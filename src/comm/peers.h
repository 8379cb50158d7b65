// Who is where: the record that every rank gives of itself, and what follows from all of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "misc/result.h"

namespace nccom {

/// A rank as the others see it. Travels as bytes between processes of one version of the library.
struct ncclPeerInfo {
  int32_t rank;
  int32_t device;
  int32_t nRanks;
  int32_t version;  // NCCL_VERSION_CODE
  int32_t pid;
  int32_t minChannels, maxChannels;
  int32_t reserved;
  uint64_t hostHash;    // equal: memory can be shared
  uint64_t serverHash;  // equal: one server of the platform; several of a pod may share memory
  uint64_t bufferBytes;
  char hostName[64];
  char platform[64];
  char net[64];           // name of the net, "" if none was opened
  char algorithms[1024];  // what was set of how algorithms are chosen
};

/// What ranks must agree on: version, size, platform, buffer size, net.
///
/// @error  ncclInvalidUsage  they do not: names the field, both ranks and both values; or two ranks
///                           of one host have one device
Status checkPeers(const std::vector<ncclPeerInfo>& peers);

/// Node of each rank: those that share memory, numbered in the order of their lowest rank.
std::vector<int> nodesOf(const std::vector<ncclPeerInfo>& peers);
/// Server of each rank, numbered alike.
std::vector<int> serversOf(const std::vector<ncclPeerInfo>& peers);

/// Whether a rank of this rank's host is in another process.
bool hasOtherProcess(const std::vector<ncclPeerInfo>& peers, int rank);

/// The text, where it fits into so many bytes with its end; else its beginning and a hash of all of
/// it, so that different texts stay different. At least 32 bytes.
std::string fitted(const std::string& text, size_t bytes);

/// 64 bits of a text, equal in every process (FNV-1a).
uint64_t hashOf(const std::string& text);

}  // namespace nccom
