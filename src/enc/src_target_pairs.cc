#include "enc/src_target_pairs.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "enc/connected_components.h"

namespace nccom {
namespace {

Error withContext(const char* context, size_t set, const Error& error) {
  return fail(error.code, "%s %zu: %s", context, set, error.message.c_str());
}

/// All pairs, not only the own component's: what is wrong is wrong on every rank.
Status checkRange(const enc_glb_comm& global, const encPairSet& pairs, size_t set) {
  for (const encPair& pair : pairs) {
    const uint32_t highest = std::max(pair.source, pair.target);
    if (highest < global.g_device_cnt) continue;
    return fail(ncclInvalidArgument,
                "source_target_pairs %zu: pair [%u,%u] names rank %u; ranks of this world are 0 to "
                "%u",
                set, pair.source, pair.target, highest, global.g_device_cnt - 1);
  }
  return Ok{};
}

/// The own rank's component as a topology of one group; without any, the group of nobody in
/// particular, in which the own rank is missing.
encGroupSet ownComponent(const std::vector<std::vector<uint32_t>>& pairs, uint32_t me) {
  connected_components<uint32_t, true> graph(pairs);
  if (!graph.contains(me)) return {graph.universe};
  auto [components, root] = graph.getConnected(me);
  return {std::move(components.at(root))};
}

}  // namespace

Status encParseSrcTargetPairs(const enc_glb_comm* global, std::span<const encPairSet> sets,
                              encGroups& groups, const encGroupOptions& options) {
  if (global == nullptr) {
    return fail(ncclInvalidUsage,
                "Global communicator was not created. Unable to parse targets. (hint: was "
                "`nrt_load_collectives` called?)");
  }
  if (groups.replica_groups.size() + sets.size() > kMaxReplicaGroups) {
    return fail(ncclInvalidArgument,
                "%zu replica groups and %zu sets of source_target_pairs; a program has at most %d "
                "groups",
                groups.replica_groups.size(), sets.size(), kMaxReplicaGroups);
  }
  for (size_t i = 0; i < sets.size(); i++) {
    if (sets[i].empty()) {
      return fail(ncclInvalidArgument, "source_target_pairs %zu has no pair", i);
    }
    TRY(checkRange(*global, sets[i], i));
    enc_src_target_pairs_info info;
    for (const encPair& pair : sets[i])
      info.pairs.push_back({pair.source, pair.target});
    std::sort(info.pairs.begin(), info.pairs.end());

    const encGroupSet mine = ownComponent(info.pairs, global->g_device_id);
    Result<enc_replica_group_info> parsed = encParseReplicaGroup(*global, mine, 0, 1, options);
    if (!parsed.ok()) {
      return withContext("Failed to parse replica group generated from source_target_pairs", i,
                         parsed.error());
    }
    enc_replica_group_info group = std::move(parsed).value();
    group.group_id = static_cast<int>(groups.replica_groups.size());
    group.src_target_pairs_id = static_cast<int>(i);
    info.participants = group.participants;
    info.rank = group.rank;
    info.rank_n = group.rank_n;
    info.replica_group_id = group.group_id;
    info.src_target_pairs_id = static_cast<int>(i);
    groups.replica_groups.push_back(std::move(group));
    groups.src_target_pairs.push_back(std::move(info));
  }
  return Ok{};
}

Result<std::vector<std::vector<uint32_t>>> encPermuteRings(const encPairSet& pairs, size_t set) {
  std::map<uint32_t, uint32_t> next;
  std::set<uint32_t> targets;
  for (const encPair& pair : pairs) {
    if (!next.emplace(pair.source, pair.target).second) {
      return fail(ncclInvalidArgument,
                  "source_target_pairs %zu: rank %u is a source twice; the pairs of a permutation "
                  "form rings, in which a rank is a source once",
                  set, pair.source);
    }
    if (!targets.insert(pair.target).second) {
      return fail(ncclInvalidArgument,
                  "source_target_pairs %zu: rank %u is a target twice; the pairs of a permutation "
                  "form rings, in which a rank is a target once",
                  set, pair.target);
    }
  }
  for (const uint32_t target : targets) {
    if (next.contains(target)) continue;
    return fail(ncclInvalidArgument,
                "source_target_pairs %zu: rank %u is a target and never a source; the pairs of a "
                "permutation form rings",
                set, target);
  }
  std::vector<std::vector<uint32_t>> rings;
  std::set<uint32_t> seen;
  for (const auto& [start, unused] : next) {
    if (seen.contains(start)) continue;
    rings.emplace_back();
    for (uint32_t rank = start; seen.insert(rank).second; rank = next.at(rank)) {
      rings.back().push_back(rank);
    }
  }
  return rings;
}

}  // namespace nccom
