#include "comm/peers.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <utility>

namespace nccom {
namespace {

Error disagree(const char* what, const ncclPeerInfo& a, const std::string& ofA,
               const ncclPeerInfo& b, const std::string& ofB) {
  return fail(ncclInvalidUsage,
              "%s differs: '%s' at rank %d (host %s, pid %d), '%s' at rank %d (host %s, pid %d)",
              what, ofA.c_str(), a.rank, a.hostName, a.pid, ofB.c_str(), b.rank, b.hostName, b.pid);
}

Status agree(const char* what, const ncclPeerInfo& a, const std::string& ofA, const ncclPeerInfo& b,
             const std::string& ofB) {
  if (ofA == ofB) return Ok{};
  return disagree(what, a, ofA, b, ofB);
}

}  // namespace

Status checkPeers(const std::vector<ncclPeerInfo>& peers) {
  const ncclPeerInfo& first = peers[0];
  std::map<std::pair<uint64_t, int>, int> rankOf;  // (host, device) -> rank
  for (const ncclPeerInfo& peer : peers) {
    const auto number = [](auto value) { return std::to_string(value); };
    TRY(agree("the library's version", first, number(first.version), peer, number(peer.version)));
    TRY(agree("the number of ranks", first, number(first.nRanks), peer, number(peer.nRanks)));
    TRY(agree("the platform (NCCOM_PLATFORM, NCCOM_CLUSTER, NCCL_TOPO_FILE)", first, first.platform,
              peer, peer.platform));
    TRY(agree("NCCL_BUFFSIZE", first, number(first.bufferBytes), peer, number(peer.bufferBytes)));
    TRY(agree("how algorithms are chosen (NCCOM_ALG, NCCOM_WORK_SIZE, NEURON_RT_*)", first,
              first.algorithms, peer, peer.algorithms));
    TRY(agree("the net", first, first.net, peer, peer.net));
    TRY(agree("the least number of channels", first, number(first.minChannels), peer,
              number(peer.minChannels)));
    TRY(agree("the most channels", first, number(first.maxChannels), peer,
              number(peer.maxChannels)));
    const auto [found, isNew] = rankOf.emplace(std::pair(peer.hostHash, peer.device), peer.rank);
    if (isNew) continue;
    return fail(
        ncclInvalidUsage, "rank %d (pid %d) and rank %d (pid %d) both use device %d of host %s",
        found->second, peers[found->second].pid, peer.rank, peer.pid, peer.device, peer.hostName);
  }
  return Ok{};
}

namespace {

std::vector<int> numbered(const std::vector<ncclPeerInfo>& peers, uint64_t ncclPeerInfo::*hash) {
  std::map<uint64_t, int> numbers;
  std::vector<int> result;
  result.reserve(peers.size());
  for (const ncclPeerInfo& peer : peers) {
    const int next = static_cast<int>(numbers.size());
    result.push_back(numbers.emplace(peer.*hash, next).first->second);
  }
  return result;
}

}  // namespace

std::vector<int> nodesOf(const std::vector<ncclPeerInfo>& peers) {
  return numbered(peers, &ncclPeerInfo::hostHash);
}

std::vector<int> serversOf(const std::vector<ncclPeerInfo>& peers) {
  return numbered(peers, &ncclPeerInfo::serverHash);
}

bool hasOtherProcess(const std::vector<ncclPeerInfo>& peers, int rank) {
  const ncclPeerInfo& own = peers[static_cast<size_t>(rank)];
  return std::any_of(peers.begin(), peers.end(), [&own](const ncclPeerInfo& peer) {
    return peer.hostHash == own.hostHash && peer.pid != own.pid;
  });
}

std::string fitted(const std::string& text, size_t bytes) {
  if (text.size() < bytes) return text;
  char tail[24];  // of the smallest field, less than half
  const int length =
      snprintf(tail, sizeof(tail), "... #%016llx", static_cast<unsigned long long>(hashOf(text)));
  return text.substr(0, bytes - 1 - static_cast<size_t>(length)) + tail;
}

uint64_t hashOf(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325ULL;  // the offset basis and prime of 64-bit FNV-1a
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3ULL;
  }
  return hash;
}

}  // namespace nccom
