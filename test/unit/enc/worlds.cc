#include "test/unit/enc/worlds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "enc/select.h"

namespace nccom::test {

const std::vector<encOp> kCollectives{encOp::AllGather, encOp::AllReduce,     encOp::Broadcast,
                                      encOp::Reduce,    encOp::ReduceScatter, encOp::AlltoAll,
                                      encOp::Gather,    encOp::Scatter};

int World::rank_n() const {
  return comm ? comm->rank_n : std::accumulate(nodes.begin(), nodes.end(), 0);
}

enc_comm_info World::info(int rank) const {
  enc_comm_info info;
  if (comm) info = *comm;
  info.rank = rank;
  if (comm) return info;
  info.rank_n = rank_n();
  info.sizes = sizes;
  std::vector<std::vector<int>> members;
  for (const int n : nodes) {
    members.emplace_back();
    for (int i = 0; i < n; i++) {
      members.back().push_back(static_cast<int>(info.node.size()));
      info.node.push_back(static_cast<int>(members.size()) - 1);
    }
  }
  for (int ring = 0; ring < rings && info.rank_n > 1; ring++) {
    std::vector<int> order;
    std::mt19937 random(static_cast<unsigned>(ring));
    for (std::vector<int> host : members) {
      if (ring > 1) std::shuffle(host.begin(), host.end(), random);
      order.insert(order.end(), host.begin(), host.end());
    }
    if (ring == 1) std::reverse(order.begin(), order.end());
    if (ring > 1 && scattered) std::shuffle(order.begin(), order.end(), random);
    info.rings.push_back(std::move(order));
  }
  return info;
}

std::string World::text() const {
  if (comm) {
    return encSituationText(comm->situation) + ", " + std::to_string(comm->rings.size()) +
           " rings, buffers " + std::to_string(comm->sizes.bufferBytes) + " " +
           std::to_string(comm->sizes.workBytes);
  }
  std::string text =
      std::to_string(rings) + (scattered ? " scattered" : "") + " rings over hosts of";
  for (const int n : nodes)
    text += " " + std::to_string(n);
  return text + " ranks, buffers " + std::to_string(sizes.bufferBytes) + " " +
         std::to_string(sizes.p2pBufferBytes);
}

encTask collective(encOp op, uint64_t count, ncclDataType_t type, ncclRedOp_t redOp, int root) {
  encTask task;
  task.op = op;
  task.count = count;
  task.type = type;
  task.redOp = redOp;
  task.root = root;
  return task;
}

std::vector<encProgram> composeAll(const World& world, const encTask& task) {
  return composeAll(world, std::vector<encTask>(world.rank_n(), task));
}

namespace {

std::vector<encProgram> composeEach(const World& world, const std::vector<encTask>& tasks,
                                    const Composer& composer) {
  std::vector<encProgram> programs;
  for (int rank = 0; rank < world.rank_n(); rank++) {
    auto program = composer(world.info(rank), tasks[rank]);
    if (!program.ok()) {
      ADD_FAILURE() << world.text() << " rank " << rank << ": " << program.error().message;
      return {};
    }
    programs.push_back(std::move(program).value());
  }
  return programs;
}

}  // namespace

std::vector<encProgram> composeAll(const World& world, const std::vector<encTask>& tasks) {
  return composeEach(world, tasks, encCompose);
}

std::vector<encProgram> composeAll(const World& world, const encTask& task,
                                   const Composer& composer) {
  return composeEach(world, std::vector<encTask>(world.rank_n(), task), composer);
}

}  // namespace nccom::test
