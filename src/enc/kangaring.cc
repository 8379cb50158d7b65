#include "enc/kangaring.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "enc/chunking.h"
#include "enc/flat.h"
#include "enc/kangaring_path.h"
#include "misc/check.h"

namespace nccom {
namespace {

bool isParts(encOp op) {
  return op == encOp::AllGather || op == encOp::ReduceScatter;
}

bool isComposed(encOp op) {
  return isParts(op) || op == encOp::AllReduce;
}

/// Channels of the chunking are paths.
encChunking chunkingOf(const encStage& stage, const NeuronKangaring& paths, uint64_t slotBytes) {
  const encKangaringCycle cycle(paths.paths[0], stage.self);
  const uint64_t hops = cycle.dies.size() - 1;
  encChunkingInput input;
  input.bytes = isParts(stage.op) ? stage.partBytes : stage.messageBytes;
  input.lanes = stage.op == encOp::AllReduce ? static_cast<int>(cycle.dies.size()) : 1;
  input.maxChannels = static_cast<int>(paths.paths.size());
  input.slotBytes = slotBytes;
  if (stage.op == encOp::AllGather) input.usesPerHalf = 0;
  if (stage.op == encOp::ReduceScatter) input.usesPerHalf = hops * cycle.dies[0].size();
  if (stage.op == encOp::AllReduce) input.usesPerHalf = hops;
  return encChunk(input);
}

/// Passes may be repeated if all of their chunks are full, and lie at equal distances.
bool mayRepeat(const encStage& stage) {
  const bool full = !isParts(stage.op) ||
                    stage.messageBytes == stage.partBytes * static_cast<uint64_t>(stage.n());
  return stage.mayLoop && full && stage.input.places.empty() && stage.output.places.empty();
}

void composePasses(encBuilder& builder, const encStage& stage, encKangaringPath& path,
                   const encChunking& chunking) {
  const uint64_t iterations = mayRepeat(stage) ? chunking.fullPasses / chunking.unroll : 0;
  uint64_t done = 0;
  if (iterations > 1) {
    path.setStride(static_cast<int64_t>(chunking.unroll * chunking.passBytes()));
    builder.beginLoop(iterations);
    for (uint64_t i = 0; i < chunking.unroll; i++)
      path.pass(chunking.fullPass(i));
    builder.endLoop();
    path.setStride(0);
    done = iterations * chunking.unroll;
  }
  for (; done < chunking.fullPasses; done++)
    path.pass(chunking.fullPass(done));
  if (chunking.tailBytes > 0) path.pass(chunking.tail());
}

}  // namespace

void encStageKangaring(encBuilder& builder, const encStage& stage, const NeuronKangaring& paths) {
  if (stage.messageBytes == 0) return;
  NCCL_CHECK(isComposed(stage.op) && stage.maxChannels > 0);
  NCCL_CHECK(encCheckKangaring(paths, stage.n()).ok());
  const uint64_t slotBytes = builder.layout().pipe(encPipeKind::Kangaring, 0).slotBytes;
  const encChunking chunking = chunkingOf(stage, paths, slotBytes);
  std::vector<encKangaringPath> mine;
  for (int id = 0; id < chunking.channels; id++) {
    const auto queue = stage.channel + static_cast<uint32_t>(id % stage.maxChannels);
    mine.emplace_back(builder, stage, paths.paths[id], id, builder.mainQueue(queue));
  }
  // Paths that share a queue: whoever is secondary in one and primary in the next goes on at once.
  for (encKangaringPath& path : mine)
    path.open();
  for (encKangaringPath& path : mine) {
    if (path.isPrimary()) composePasses(builder, stage, path, chunking);
  }
  for (encKangaringPath& path : mine)
    path.close();
}

Status encCheckKangaring(const NeuronKangaring& paths, int members) {
  if (paths.paths.empty()) return fail(ncclInvalidArgument, "kangaring: there is no path");
  for (size_t id = 0; id < paths.paths.size(); id++) {
    std::set<int> seen;
    size_t primaries = 0;
    for (const KangaringRole& role : paths.paths[id].roles) {
      if (role.isPrimary) primaries++;
      if (role.rank < 0 || role.rank >= members || !seen.insert(role.rank).second) {
        return fail(ncclInvalidArgument,
                    "kangaring path %zu has rank %d twice or out of range: want each of %d", id,
                    role.rank, members);
      }
    }
    const encKangaringCycle cycle(paths.paths[id], 0);
    const bool equal = std::all_of(cycle.dies.begin(), cycle.dies.end(), [&](const auto& die) {
      return die.size() == cycle.dies[0].size();
    });
    if (seen.size() == static_cast<size_t>(members) && primaries >= 2 && equal) continue;
    return fail(ncclInvalidArgument,
                "kangaring path %zu has %zu ranks, %zu of them primaries%s: want %d, at least two "
                "primaries, each with as many secondaries",
                id, seen.size(), primaries, equal ? "" : " of dies that differ", members);
  }
  return Ok{};
}

Result<encProgram> encComposeKangaring(const enc_comm_info& info, const encTask& task) {
  TRY(encCheckComm(info));
  TRY(encCheckTask(info, task));
  if (!isComposed(task.op)) {
    return fail(ncclInvalidArgument, "kangaring: %s: want AllGather, ReduceScatter or AllReduce",
                encOpName(task.op));
  }
  if (info.situation.node_n != 1) {
    return fail(ncclInvalidArgument, "kangaring: a group of %d servers: want one",
                info.situation.node_n);
  }
  TRY(encCheckKangaring(info.kangaring, info.rank_n));
  encBuilder builder(info, task, "kangaring");
  encStageKangaring(builder, encFlatStage(info, task), info.kangaring);
  return std::move(builder).finish();
}

}  // namespace nccom
