#include "enc/hier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "enc/alg_stages.h"
#include "enc/comm_shape.h"
#include "enc/layout.h"
#include "enc/levels.h"
#include "enc/select.h"
#include "enc/verify.h"
#include "graph/platform.h"
#include "test/unit/enc/reference.h"
#include "test/unit/enc/worlds.h"

namespace nccom {
namespace {

using test::World;

const std::vector<encOp> kOps{encOp::AllReduce, encOp::ReduceScatter, encOp::AllGather};

World onMachine(const std::string& name, int nodes, int ranks,
                encSizes sizes = {4096, 4096, 16384}) {
  encMachine machine;
  machine.hostDevices = 64;
  if (name != "host") {
    machine.platform = findPlatform(name).value();
    machine.lnc = machine.platform->defaultLnc;
  }
  World world;
  world.comm = encShapeComm(machine, encDealtCores(machine, nodes, ranks).value()).value();
  world.comm->sizes = sizes;
  return world;
}

/// Stages that are rings, whatever else there is.
World withRings(World world) {
  uint64_t allowed = 0;
  for (const enc_comm_type scope : {enc_comm_type::Intra, enc_comm_type::Inter}) {
    for (const enc_alg_type alg : {enc_alg_type::Ring, enc_alg_type::Hier})
      allowed |= uint64_t{1} << algBit(alg, scope);
  }
  world.comm->options.allowed = allowed;
  return world;
}

TEST(Hier, ComputesWhatNcclDoes) {
  for (const auto& [nodes, ranks] : {std::pair(2, 4), {2, 6}, {3, 6}, {4, 16}, {8, 16}}) {
    const World world = withRings(onMachine("host", nodes, ranks));
    for (const encOp op : kOps) {
      for (const uint64_t count : {1, 7, 64, 1000, 5000}) {
        for (const bool inPlace : {false, true}) {
          const encTask task = test::collective(op, count, ncclInt32, ncclAvg);
          const auto programs = test::composeAll(world, task, encComposeHier);
          EXPECT_EQ(test::check(world, programs, count, inPlace), "")
              << world.text() << " " << encOpName(op) << " " << count;
        }
      }
    }
  }
}

TEST(Hier, IsVerifiedInSequences) {
  for (const int slices : {0, 2, 5}) {
    for (const auto& [nodes, ranks] : {std::pair(2, 4), {3, 9}, {4, 8}, {8, 32}}) {
      World world = withRings(onMachine("host", nodes, ranks));
      world.comm->options.hierPipelineSlices = slices;
      std::vector<encOperation> operations;
      for (const encOp op : kOps) {
        for (const uint64_t count : {3, 3000}) {
          operations.push_back(
              test::composeAll(world, test::collective(op, count), encComposeHier));
        }
      }
      for (const bool inPlace : {false, true}) {
        const Status status =
            encVerify(world.info(0), operations, {.inPlace = inPlace, .jump = true});
        EXPECT_TRUE(status.ok()) << world.text() << ": " << status.error().message;
      }
    }
  }
}

TEST(Hier, PipelinedComputesTheSame) {
  World world = withRings(onMachine("host", 3, 6));
  world.comm->options.hierPipelineSlices = 4;
  for (const encOp op : kOps) {
    for (const uint64_t count : {1, 40, 3000, 20000}) {
      for (uint64_t seed = 0; seed < 5; seed++) {
        const auto programs =
            test::composeAll(world, test::collective(op, count, ncclInt32), encComposeHier);
        EXPECT_EQ(test::check(world, programs, seed), "") << encOpName(op) << " " << count;
      }
    }
  }
}

TEST(Hier, IsChosenWhereServersHaveSeveralRanks) {
  const World world = onMachine("trn1.32xlarge", 2, 64);
  const encChoice choice =
      encSelect(world.info(0), test::collective(encOp::AllReduce, 1 << 20)).value();
  EXPECT_EQ(encAlgTypeOf(choice.algorithm), enc_alg_type::Hier) << choice.why;
}

uint64_t sentOverNetwork(const encProgram& program) {
  uint64_t sent = 0;
  for (const encQueue& queue : program.queues) {
    for (const encBlock& block : queue.blocks) {
      for (const encDesc& desc : block.descs) {
        if (desc.type == encDescType::NetSend) sent += desc.bytes * block.repeat;
      }
    }
  }
  return sent;
}

TEST(Hier, CrossesServersOnceForEachByte) {
  const World world = withRings(onMachine("host", 4, 16));
  for (const encOp op : kOps) {
    const uint64_t count = op == encOp::AllReduce ? 4 * 4096 : 4096;
    uint64_t all = 0;
    for (const encProgram& program :
         test::composeAll(world, test::collective(op, count, ncclInt8), encComposeHier)) {
      const uint64_t sent = sentOverNetwork(program);
      // Of AllReduce ranks send equally much only on average.
      EXPECT_TRUE(op == encOp::AllReduce || sent == 3u * 4096) << encOpName(op) << " " << sent;
      all += sent;
    }
    EXPECT_EQ(all, op == encOp::AllReduce ? 2 * 3 * count : 16u * 3 * 4096) << encOpName(op);
  }
}

/// Places in a program at which ranks of other servers, and of the own one, are met first and last.
struct Meetings {
  size_t firstOther = SIZE_MAX, lastOther = 0, firstOwn = SIZE_MAX, lastOwn = 0;
};

Meetings meetingsOf(const World& world, const encProgram& program) {
  Meetings found;
  size_t at = 0;
  const std::vector<enc_peer_info>& peers = world.comm->peers;
  const auto meet = [&](bool own) {
    (own ? found.firstOwn : found.firstOther) =
        std::min(own ? found.firstOwn : found.firstOther, at);
    (own ? found.lastOwn : found.lastOther) = at;
  };
  for (const encBlock& block : program.queues.at(0).blocks) {
    for (const encDesc& desc : block.descs) {
      at++;
      if (desc.type == encDescType::NetSend) meet(false);
      if (desc.type != encDescType::Transfer) continue;
      for (const auto& addresses : {desc.sources, desc.destinations}) {
        for (const encAddress& address : addresses) {
          if (address.rank == program.rank) continue;
          meet(peers[address.rank].server == peers[program.rank].server);
        }
      }
    }
  }
  return found;
}

// AllGather: between servers, then within. ReduceScatter: the other way round. AllReduce: within,
// between, within. (What fits into one window.)
TEST(Hier, RunsItsStagesInOrder) {
  const World world = withRings(onMachine("host", 4, 16));
  for (const encOp op : kOps) {
    const uint64_t count = op == encOp::AllReduce ? 4096 : 512;
    for (const encProgram& program :
         test::composeAll(world, test::collective(op, count, ncclInt8), encComposeHier)) {
      const Meetings met = meetingsOf(world, program);
      EXPECT_EQ(met.lastOther < met.firstOwn, op == encOp::AllGather) << encOpName(op);
      EXPECT_EQ(met.lastOwn < met.firstOther, op == encOp::ReduceScatter) << encOpName(op);
      if (op != encOp::AllReduce) continue;
      EXPECT_LT(met.firstOwn, met.firstOther);
      EXPECT_LT(met.lastOther, met.lastOwn);
    }
  }
}

// Partial sums come from scratch: an INPUT has been read when the first message leaves.
TEST(Hier, ReadsNoInputOnceItHasReduced) {
  const World world = withRings(onMachine("host", 2, 8));
  for (const encOp op : {encOp::AllReduce, encOp::ReduceScatter}) {
    for (const encProgram& program :
         test::composeAll(world, test::collective(op, 4096, ncclInt8), encComposeHier)) {
      bool isBetween = false;
      for (const encBlock& block : program.queues.at(0).blocks) {
        for (const encDesc& desc : block.descs) {
          isBetween |= desc.type == encDescType::NetSend;
          for (const encAddress& source : desc.sources)
            EXPECT_FALSE(isBetween && source.buffer == encBuffer::Input) << encOpName(op);
        }
      }
      EXPECT_TRUE(isBetween);
    }
  }
}

/// The most scratch that partial results take.
uint64_t scratchOf(const World& world, const encProgram& program) {
  const encLayout layout = encLayout::of(*world.comm);
  uint64_t most = 0;
  for (const encQueue& queue : program.queues) {
    for (const encBlock& block : queue.blocks) {
      for (const encDesc& desc : block.descs) {
        for (const encAddress& address : desc.destinations) {
          if (address.buffer != encBuffer::Scratch || !layout.isWork(address.offset)) continue;
          const auto offset = static_cast<uint64_t>(address.offset) - layout.workBegin();
          if (offset < layout.workBytes / 2) most = std::max(most, offset + desc.bytes);
        }
      }
    }
  }
  return most;
}

TEST(Hier, SharesAsMuchScratchAsTheRuntime) {
  for (const auto& [name, bytes] :
       {std::pair("trn1.32xlarge", 32 * kMiB), {"trn2.48xlarge", 128 * kMiB}}) {
    World world = withRings(onMachine(name, 2, 4, {64 * kMiB, 4096, 1024 * kMiB}));
    EXPECT_EQ(encHierScratchBytes(world.comm->situation), bytes) << name;
    for (const encOp op : {encOp::AllReduce, encOp::ReduceScatter}) {
      for (const int slices : {1, 2}) {
        world.comm->options.hierPipelineSlices = slices;
        const encProgram program =
            encComposeHier(world.info(0), test::collective(op, 1024 * kMiB, ncclInt8)).value();
        EXPECT_LE(scratchOf(world, program), bytes) << name << " " << encOpName(op);
        EXPECT_GT(scratchOf(world, program), bytes * 9 / 10) << name << " " << encOpName(op);
      }
    }
    // Less, if the work area has not so much.
    world.comm->sizes.workBytes = 8 * kMiB;
    const encProgram program =
        encComposeHier(world.info(0), test::collective(encOp::AllReduce, 64 * kMiB, ncclInt8))
            .value();
    EXPECT_LE(scratchOf(world, program), 4 * kMiB) << name;
  }
}

TEST(Hier, IsPipelinedInOneStreamOnly) {
  World world = withRings(onMachine("host", 2, 4));
  const encTask task = test::collective(encOp::AllReduce, 3000);
  const encProgram plain = encComposeHier(world.info(0), task).value();
  world.comm->options.hierPipelineSlices = 4;
  EXPECT_GT(encComposeHier(world.info(0), task).value().queues.size(), plain.queues.size());
  world.comm->situation.streams = 2;
  EXPECT_EQ(encComposeHier(world.info(0), task).value(), plain);
}

TEST(Hier, TriesTheCandidatesOfEachSlotInTheRuntimesOrder) {
  using Alg = enc_alg_type;
  using Slot = encHierSlot;
  const std::vector<Alg> within{Alg::IntraRdh, Alg::Mesh, Alg::Kangaring};
  const std::vector<Alg> reduce{Alg::Mesh, Alg::InterRdh, Alg::SingleCycleRing};
  const std::vector<Alg> between{Alg::Mesh, Alg::InterRdh};
  EXPECT_EQ(encHierCandidates(Slot::IntraAllGather), within);
  EXPECT_EQ(encHierCandidates(Slot::IntraReduceScatter), within);
  EXPECT_EQ(encHierCandidates(Slot::InterAllReduce), reduce);
  EXPECT_EQ(encHierCandidates(Slot::InterAllGather), between);
  EXPECT_EQ(encHierCandidates(Slot::InterReduceScatter), between);
  const std::vector<Slot> reduceAll{Slot::IntraReduceScatter, Slot::InterAllReduce,
                                    Slot::IntraAllGather};
  const std::vector<Slot> scatter{Slot::IntraReduceScatter, Slot::InterReduceScatter};
  const std::vector<Slot> gather{Slot::InterAllGather, Slot::IntraAllGather};
  EXPECT_EQ(encHierStages(enc_op_type::AllReduce), reduceAll);
  EXPECT_EQ(encHierStages(enc_op_type::ReduceScatter), scatter);
  EXPECT_EQ(encHierStages(enc_op_type::AllGather), gather);
}

// Also of pods, whose servers share memory: a level within each server, one across them.
TEST(Hier, SplitsGroupsByServersAndByPlaces) {
  const NeuronPlatform* ultra = findPlatform("trn2u.48xlarge").value();
  const encMachine pods{ultra, 2, findPodShape(*ultra, "X4").value(), 0};
  const encMachine host{nullptr, 1, kNoPod, 6};
  for (const auto& [machine, nodes, ranks] :
       {std::tuple(pods, 4, 64), {pods, 8, 512}, {host, 3, 18}}) {
    enc_comm_info info =
        encShapeComm(machine, encDealtCores(machine, nodes, ranks).value()).value();
    for (info.rank = 0; info.rank < ranks; info.rank++) {
      const encLevels levels = encLevelsOf(info);
      const enc_peer_info& self = info.peers[info.rank];
      ASSERT_EQ(levels.serverCount(), info.situation.node_n);
      ASSERT_EQ(levels.placeCount(), info.situation.local_rank_n);
      ASSERT_EQ(levels.intra().size(), static_cast<size_t>(info.situation.local_rank_n));
      ASSERT_EQ(levels.inter().size(), static_cast<size_t>(info.situation.node_n));
      EXPECT_EQ(levels.intra()[levels.place], info.rank);
      EXPECT_EQ(levels.inter()[levels.server], info.rank);
      for (const int rank : levels.intra())
        EXPECT_EQ(info.peers[rank].server, self.server);
      std::set<int> servers;
      for (const int rank : levels.inter()) {
        EXPECT_EQ(info.peers[rank].core, self.core);
        servers.insert(info.peers[rank].server);
      }
      EXPECT_EQ(servers.size(), static_cast<size_t>(nodes));
    }
  }
}

TEST(Hier, IsVerifiedOverPods) {
  const NeuronPlatform* ultra = findPlatform("trn2u.48xlarge").value();
  const encMachine pods{ultra, 2, findPodShape(*ultra, "X4").value(), 0};
  for (const auto& [nodes, ranks] : {std::pair(4, 8), {8, 16}}) {
    World world;
    world.comm = encShapeComm(pods, encDealtCores(pods, nodes, ranks).value()).value();
    world.comm->sizes = {4096, 4096, 16384};
    std::vector<encOperation> operations;
    for (const encOp op : kOps) {
      const encTask task = test::collective(op, 700, ncclInt32, ncclAvg);
      operations.push_back(test::composeAll(world, task, encComposeHier));
      EXPECT_EQ(test::check(world, operations.back(), 1), "") << encOpName(op);
    }
    const Status status = encVerify(world.info(0), operations);
    EXPECT_TRUE(status.ok()) << world.text() << ": " << status.error().message;
  }
}

TEST(Hier, SaysWhyItIsNotAdmitted) {
  const World world = onMachine("host", 2, 2);
  const auto program = encComposeHier(world.info(0), test::collective(encOp::AllReduce, 4));
  ASSERT_FALSE(program.ok());
  EXPECT_THAT(program.error().message, testing::HasSubstr("each node has several ranks"));
}

}  // namespace
}  // namespace nccom
