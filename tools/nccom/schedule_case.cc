#include "tools/nccom/schedule_case.h"

#include <cstdio>
#include <fstream>
#include <utility>

#include "comm/places.h"
#include "enc/alg_table.h"
#include "misc/datatype.h"
#include "misc/params.h"
#include "tools/nccom/command.h"

namespace nccom {
namespace {

constexpr int64_t kLeastWork = 1 << 20;  // bytes that composers can always do with
constexpr int kMostRanks = 1 << 24;      // no machine bounds those of host

Status setSizes(const ncclParams& params, encSizes& sizes) {
  if (params.workBytes < kLeastWork) {
    return fail(ncclInvalidArgument, "NCCOM_WORK_SIZE is %lld: want at least %lld",
                static_cast<long long>(params.workBytes), static_cast<long long>(kLeastWork));
  }
  sizes.bufferBytes = static_cast<uint64_t>(params.bufferBytes);
  sizes.workBytes = static_cast<uint64_t>(params.workBytes) / 4096 * 4096;
  return Ok{};
}

std::string membersText(const std::vector<int>& members) {
  constexpr size_t kShown = 16;
  std::string text;
  for (size_t i = 0; i < members.size() && i < kShown; i++)
    text += (i > 0 ? "," : "") + std::to_string(members[i]);
  if (members.size() > kShown) text += ",... (" + std::to_string(members.size()) + ")";
  return text;
}

/// Switches that an operation does not look at are refused.
Status checkForcing(const ScheduleOp& op, const std::string& alg) {
  const bool isChosen = !op.op || op.type <= enc_op_type::ReduceScatter || op.op == encOp::AlltoAll;
  if (alg.empty() || isChosen) return Ok{};
  return fail(ncclInvalidArgument, "--alg %s: there is one way to do %s", alg.c_str(),
              op.name.c_str());
}

/// Permutations go along rings of pairs; errors name ranks of the file.
Status checkPairs(const ScheduleOp& op, const ScheduleGroup& group) {
  const bool isImplicit =
      op.type == enc_op_type::PermuteImplicit || op.type == enc_op_type::PermuteReduceImplicit;
  if (isImplicit && group.pairSet) {
    return fail(ncclInvalidArgument,
                "%s: it goes along the ring of its group, but %s are pairs: want replica_groups",
                op.name.c_str(), group.name.c_str());
  }
  if (!op.isAlongPairs()) return Ok{};
  if (!group.pairSet) {
    return fail(ncclInvalidArgument,
                "%s: no pairs say who gives to whom; want --groups with src_target_pairs",
                op.name.c_str());
  }
  encPairSet pairs;
  for (const encPair& pair : group.pairs) {
    pairs.push_back({static_cast<uint32_t>(group.members[pair.source]),
                     static_cast<uint32_t>(group.members[pair.target])});
  }
  const auto rings = encPermuteRings(pairs, *group.pairSet);
  if (rings.ok()) return Ok{};
  return fail(rings.error().code, "%s: %s", group.name.c_str(), rings.error().message.c_str());
}

}  // namespace

void addScheduleOptions(CLI::App& app, ScheduleOptions& options) {
  app.add_option("--platform", options.world.platform,
                 "platform, or a cluster of hosts of one kind: trn2.48xlarge, 4xtrn1.32xlarge, "
                 "trn2-ultraserver, host (NCCOM_CLUSTER, NCCOM_PLATFORM)");
  app.add_option("--lnc", options.world.lnc,
                 "logical core size of the platform (NEURON_LOGICAL_NC_CONFIG)")
      ->check(CLI::Range(1, 64));
  app.add_option("--pod", options.world.pod, "shape of the pods that hosts form, such as X4");
  app.add_option("--nodes", options.world.nodes, "hosts (1, or those of a pod)")
      ->check(CLI::Range(1, 65536));
  app.add_option("--ranks", options.world.ranks,
                 "ranks on all hosts together, each host's from its first core on (all cores)")
      ->check(CLI::Range(1, kMostRanks));
  app.add_option("--op", options.op, "operation")->default_str("all_reduce");
  CLI::Option* groups =
      app.add_option("--groups", options.group.file, "JSON file with the ranks that take part");
  app.add_option("--group", options.group.group,
                 "which of the file: its topologies, then its sets of pairs (0)")
      ->needs(groups);
  app.add_option("--alg,--force", options.alg, "the only algorithm to use, as NCCOM_ALG");
}

std::string ScheduleCase::text() const {
  std::string text = world.name;
  if (world.machine.platform != nullptr) text += ", LNC " + std::to_string(world.machine.lnc);
  const bool isPod = world.machine.shape.type != NeuronPodType::None;
  if (isPod) text += ", pods of shape " + std::string(world.machine.shape.name);
  text += ", " + std::to_string(world.nodes) + (world.nodes == 1 ? " node, " : " nodes, ");
  text += std::to_string(world.size()) + (world.size() == 1 ? " rank" : " ranks");
  if (!group.name.empty()) text += "; of them " + membersText(group.members) + ", " + group.name;
  return text;
}

bool ScheduleCase::knowsLinks() const {
  const bool hasPods = world.machine.shape.type != NeuronPodType::None;
  return !hasPods || info.pod.type != NeuronPodType::None || info.situation.node_n == 1;
}

namespace {

/// What the command line leaves open is as the library would have it.
Result<WorldOptions> machineOf(WorldOptions world, const ncclParams& params) {
  if (world.platform.empty()) {
    if (!params.topoFile.empty()) {
      return fail(ncclInvalidArgument,
                  "NCCL_TOPO_FILE is %s: schedules are made for platforms; want --platform",
                  params.topoFile.c_str());
    }
    world.platform = params.cluster.empty() ? params.platform : params.cluster;
  }
  const bool isHost = world.platform.find("host") != std::string::npos;
  if (world.lnc == 0 && !isHost) world.lnc = static_cast<int>(params.logicalNc);
  return world;
}

}  // namespace

Result<ScheduleCase> makeCase(const ScheduleOptions& options, bool rings) {
  ScheduleCase made;
  made.op = TRY(parseScheduleOp(options.op));
  TRY(checkForcing(made.op, options.alg));
  const ncclParams params = TRY(readProcessParams());
  const WorldOptions world = TRY(machineOf(options.world, params));
  made.world = TRY(makeWorld(world));
  made.group = TRY(makeGroup(made.world, options.group));
  TRY(checkPairs(made.op, made.group));
  made.info = TRY(describeGroup(made.world, made.group, rings));
  TRY(setSizes(params, made.info.sizes));
  if (params.maxChannels > 0 && static_cast<size_t>(params.maxChannels) < made.info.rings.size()) {
    made.info.rings.resize(static_cast<size_t>(params.maxChannels));  // as communicators do
  }
  const enc_comm_type scope = made.info.situation.scope();
  made.info.options = TRY(algOptionsOf(params, scope));
  made.switches = algOptionsText(params);
  if (!options.alg.empty()) {
    made.info.options.shared = encSharedWayOf(options.alg);
    made.info.options.forced.reset();
    if (made.info.options.shared == encSharedWay::None) {
      made.info.options.forced = TRY(encAlgOf(options.alg, scope));
    }
  }
  return made;
}

uint64_t countOf(const ScheduleOp& op, uint64_t bytes, ncclDataType_t type, int ranks) {
  const uint64_t unit = ncclTypeSize(type) * (op.isParted() ? static_cast<uint64_t>(ranks) : 1);
  return bytes / unit + (bytes % unit > 0 ? 1 : 0);
}

int refuse(const char* command, const Error& error) {
  fprintf(stderr, "nccom %s: %s\n", command, printable(error.message).c_str());
  const bool isMisuse = error.code == ncclInvalidArgument || error.code == ncclInvalidUsage;
  return isMisuse ? kExitUsage : kExitFailed;
}

Status writeText(const std::string& path, const std::string& text) {
  if (path == "-") {
    fputs(text.c_str(), stdout);
    return Ok{};
  }
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) return fail(ncclSystemError, "%s: cannot be written", path.c_str());
  return Ok{};
}

}  // namespace nccom
