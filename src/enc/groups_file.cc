#include "enc/groups_file.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

namespace nccom {
namespace {

using Json = nlohmann::json;

constexpr const char* kGroupsKey = "replica_groups";
constexpr const char* kPairsKey = "src_target_pairs";
constexpr const char* kWorldKey = "#rank_world_size";

/// Lists of ranks are within three others and the object.
constexpr int kMaxDepth = 6;

/// Where in the file an element is: "groups.json: replica_groups[0][1]".
struct Place {
  std::string text;
  Place at(size_t index) const { return {text + "[" + std::to_string(index) + "]"}; }
};

Place keyPlace(const std::string& file, const std::string& key) {
  Place place{file};
  place.text.append(": ").append(key);
  return place;
}

Error wrong(const Place& place, const Json& found, const char* wanted) {
  std::string shown = found.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (shown.size() > 40) shown = shown.substr(0, 40) + "...";
  return fail(ncclInvalidArgument, "%s is %s; %s is wanted", place.text.c_str(), shown.c_str(),
              wanted);
}

Result<uint32_t> numberOf(const Json& json, const Place& place, const char* wanted) {
  // Parsed integers without a sign are unsigned.
  if (!json.is_number_unsigned() || json.get<uint64_t>() > std::numeric_limits<uint32_t>::max()) {
    return wrong(place, json, wanted);
  }
  return json.get<uint32_t>();
}

Result<std::vector<uint32_t>> ranksOf(const Json& json, const Place& place) {
  if (!json.is_array()) return wrong(place, json, "a list of ranks");
  std::vector<uint32_t> ranks;
  for (size_t i = 0; i < json.size(); i++) {
    ranks.push_back(TRY(numberOf(json[i], place.at(i), "a rank, a number from 0 on")));
  }
  return ranks;
}

Result<encGroupSet> topologyOf(const Json& json, const Place& place) {
  if (!json.is_array()) return wrong(place, json, "a list of groups");
  encGroupSet topology;
  for (size_t i = 0; i < json.size(); i++) {
    topology.push_back(TRY(ranksOf(json[i], place.at(i))));
  }
  return topology;
}

Result<encPairSet> pairsOf(const Json& json, const Place& place) {
  if (!json.is_array()) return wrong(place, json, "a list of pairs");
  encPairSet pairs;
  for (size_t i = 0; i < json.size(); i++) {
    const std::vector<uint32_t> pair = TRY(ranksOf(json[i], place.at(i)));
    if (pair.size() != 2) return wrong(place.at(i), json[i], "a pair [source, target]");
    pairs.push_back({pair[0], pair[1]});
  }
  return pairs;
}

/// Lists of lists of ranks are the only element of a list that was left out.
bool isOneLevelShort(const Json& json) {
  return std::any_of(json.begin(), json.end(), [](const Json& element) {
    return element.is_array() && !element.empty() && !element.front().is_array();
  });
}

template <class Element>
Result<std::vector<Element>> listOf(const Json& json, const Place& place, const char* wanted,
                                    Result<Element> (*elementOf)(const Json&, const Place&)) {
  if (!json.is_array()) return wrong(place, json, wanted);
  std::vector<Element> list;
  if (isOneLevelShort(json)) {
    list.push_back(TRY(elementOf(json, place)));
    return list;
  }
  for (size_t i = 0; i < json.size(); i++) {
    list.push_back(TRY(elementOf(json[i], place.at(i))));
  }
  return list;
}

/// The text as JSON, without keys that occur twice, of which one would be lost.
Result<Json> jsonOf(const std::string& text, const std::string& file) {
  std::set<std::string> keys;
  std::string twice;
  bool isTooDeep = false;
  const auto note = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMaxDepth) isTooDeep = true;
    if (isTooDeep) return false;
    if (event == Json::parse_event_t::key && depth == 1 &&
        !keys.insert(parsed.get<std::string>()).second) {
      twice = parsed.get<std::string>();
    }
    return true;
  };
  Json json;
  try {
    json = Json::parse(text, note);
  } catch (const Json::exception& error) {
    return fail(ncclInvalidArgument, "%s: no JSON: %s", file.c_str(), error.what());
  }
  if (isTooDeep) {
    return fail(ncclInvalidArgument, "%s: brackets within more than %d others", file.c_str(),
                kMaxDepth);
  }
  if (!json.is_object()) {
    return wrong({file + ": the whole"}, json, "an object {...}");
  }
  if (!twice.empty()) {
    return fail(ncclInvalidArgument, "%s: key \"%s\" is there twice", file.c_str(), twice.c_str());
  }
  return json;
}

Status checkWorld(const encGroupsFile& groups, const std::string& file) {
  if (!groups.worldSize) return Ok{};
  encGroupsFile named = groups;
  named.worldSize.reset();
  if (*groups.worldSize == 0 || named.smallestWorld() > *groups.worldSize) {
    return fail(ncclInvalidArgument, "%s: %s is %u, and the file names rank %u", file.c_str(),
                kWorldKey, *groups.worldSize, named.smallestWorld() - 1);
  }
  return Ok{};
}

}  // namespace

uint32_t encGroupsFile::smallestWorld() const {
  uint32_t size = std::max(worldSize.value_or(1), 1U);
  const auto holds = [&](uint32_t rank) {
    size = std::max(size, rank == UINT32_MAX ? rank : rank + 1);
  };
  for (const encGroupSet& topology : replicaGroups) {
    for (const std::vector<uint32_t>& group : topology) {
      for (const uint32_t rank : group)
        holds(rank);
    }
  }
  for (const encPairSet& pairs : srcTargetPairs) {
    for (const encPair& pair : pairs)
      holds(std::max(pair.source, pair.target));
  }
  return size;
}

Result<encGroupsFile> encParseGroupsFile(const std::string& text, const std::string& file) {
  const Json json = TRY(jsonOf(text, file));
  encGroupsFile groups;
  for (const auto& [key, value] : json.items()) {
    const Place place = keyPlace(file, key);
    if (key == kGroupsKey) {
      groups.replicaGroups =
          TRY(listOf<encGroupSet>(value, place, "a list of topologies", topologyOf));
    } else if (key == kPairsKey) {
      groups.srcTargetPairs =
          TRY(listOf<encPairSet>(value, place, "a list of sets of pairs", pairsOf));
    } else if (key == kWorldKey) {
      groups.worldSize = TRY(numberOf(value, place, "a number of ranks"));
    } else {
      return fail(ncclInvalidArgument, "%s: unknown key \"%s\"; known are %s, %s and %s",
                  file.c_str(), key.c_str(), kGroupsKey, kPairsKey, kWorldKey);
    }
  }
  if (groups.replicaGroups.empty() && groups.srcTargetPairs.empty()) {
    return fail(ncclInvalidArgument, "%s: neither %s nor %s name any rank", file.c_str(),
                kGroupsKey, kPairsKey);
  }
  TRY(checkWorld(groups, file));
  return groups;
}

Result<encGroups> encGroupsOf(const encGroupsFile& groups, const std::string& file,
                              const enc_glb_comm& global, const encGroupOptions& options) {
  if (groups.worldSize.value_or(1) > global.g_device_cnt ||
      global.g_device_id >= global.g_device_cnt) {
    return fail(ncclInvalidArgument, "%s: rank %u of a world of %u; the groups need a world of %u",
                file.c_str(), global.g_device_id, global.g_device_cnt, groups.smallestWorld());
  }
  encGroups result;
  Result<std::vector<enc_replica_group_info>> declared =
      encParseReplicaGroups(global, groups.replicaGroups, options);
  const Status derived = [&]() -> Status {
    result.replica_groups = TRY(std::move(declared));
    return encParseSrcTargetPairs(&global, groups.srcTargetPairs, result, options);
  }();
  if (!derived.ok()) {
    return fail(derived.error().code, "%s: %s", file.c_str(), derived.error().message.c_str());
  }
  return result;
}

}  // namespace nccom
