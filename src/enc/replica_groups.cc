#include "enc/replica_groups.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace nccom {
namespace {

/// Checks all groups of a topology, not only the own one: what is wrong is wrong on every rank.
Status checkTopology(const enc_glb_comm& global, const encGroupSet& topology,
                     const std::string& name) {
  std::map<uint32_t, size_t> groupOf;
  for (size_t group = 0; group < topology.size(); group++) {
    if (topology[group].empty()) {
      return fail(ncclInvalidArgument, "%s: group %zu has no rank; at least one is wanted",
                  name.c_str(), group);
    }
    for (const uint32_t rank : topology[group]) {
      if (rank >= global.g_device_cnt) {
        return fail(ncclInvalidArgument,
                    "%s: group %zu names rank %u; ranks of this world are 0 to %u", name.c_str(),
                    group, rank, global.g_device_cnt - 1);
      }
      const auto [seen, isNew] = groupOf.emplace(rank, group);
      if (isNew) continue;
      if (seen->second == group) {
        return fail(ncclInvalidArgument, "%s: group %zu names rank %u twice; a rank is in it once",
                    name.c_str(), group, rank);
      }
      return fail(ncclInvalidArgument,
                  "%s: rank %u is in groups %zu and %zu; a rank is in one group", name.c_str(),
                  rank, seen->second, group);
    }
  }
  return Ok{};
}

std::string topologyName(uint32_t index, uint32_t count) {
  return "replica groups (" + std::to_string(index) + "/" + std::to_string(count) + ")";
}

/// The implicit form: no group, or a single empty one.
bool isEverybody(const encGroupSet& topology) {
  return topology.empty() || (topology.size() == 1 && topology.front().empty());
}

size_t rankCount(const encGroupSet& topology) {
  size_t ranks = 0;
  for (const std::vector<uint32_t>& group : topology)
    ranks += group.size();
  return ranks;
}

int positionOf(uint32_t rank, const std::vector<uint32_t>& ranks) {
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

}  // namespace

Result<enc_replica_group_info> encParseReplicaGroup(const enc_glb_comm& global,
                                                    const encGroupSet& topology, uint32_t index,
                                                    uint32_t count,
                                                    const encGroupOptions& options) {
  const std::string name = topologyName(index, count);
  const uint32_t me = global.g_device_id;
  enc_replica_group_info info;
  if (isEverybody(topology)) {
    info.participants.resize(global.g_device_cnt);
    std::iota(info.participants.begin(), info.participants.end(), 0U);
  } else {
    TRY(checkTopology(global, topology, name));
    const auto mine = std::find_if(topology.begin(), topology.end(), [&](const auto& group) {
      return std::find(group.begin(), group.end(), me) != group.end();
    });
    if (mine != topology.end()) info.participants = *mine;
  }
  info.bootstrap_participants = info.participants;
  info.bootstrap_rank = positionOf(me, info.participants);
  if (info.bootstrap_rank == static_cast<int>(info.participants.size())) {
    return fail(ncclInvalidArgument,
                "%s does not have myself %u: every rank of the world is in one of its groups",
                name.c_str(), me);
  }
  if (options.forceSingleRank) info.participants = info.bootstrap_participants = {me};
  if (options.sortGroups) std::sort(info.participants.begin(), info.participants.end());
  info.bootstrap_rank = positionOf(me, info.bootstrap_participants);
  info.rank = positionOf(me, info.participants);
  info.rank_n = static_cast<int>(info.participants.size());
  return info;
}

Result<std::vector<enc_replica_group_info>> encParseReplicaGroups(
    const enc_glb_comm& global, const std::vector<encGroupSet>& topologies,
    const encGroupOptions& options) {
  const auto count = static_cast<uint32_t>(topologies.size());
  if (count > kMaxReplicaGroups) {
    return fail(ncclInvalidArgument, "%u replica groups; a program has at most %d", count,
                kMaxReplicaGroups);
  }
  std::vector<enc_replica_group_info> infos;
  for (uint32_t i = 0; i < count; i++) {
    if (isEverybody(topologies[i]) && count > 1) {
      return fail(ncclInvalidArgument,
                  "%s names nobody; that stands for everybody only where it is the only one",
                  topologyName(i, count).c_str());
    }
    if (rankCount(topologies[i]) != rankCount(topologies[0])) {
      return fail(ncclInvalidArgument,
                  "%s has %zu ranks, the first one %zu; all have the same number (programs for "
                  "several models are not supported)",
                  topologyName(i, count).c_str(), rankCount(topologies[i]),
                  rankCount(topologies[0]));
    }
    infos.push_back(TRY(encParseReplicaGroup(global, topologies[i], i, count, options)));
    infos.back().group_id = static_cast<int>(i);
  }
  return infos;
}

}  // namespace nccom
