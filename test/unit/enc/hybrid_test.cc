#include "enc/hybrid.h"

#include <set>

#include "graph/fabric.h"
#include "test/unit/enc/ring_family.h"

namespace nccom {
namespace {

using test::World;

constexpr encSizes kTiny{256, 256, 1 << 16};
const std::vector<encOp> kOps{encOp::AllReduce, encOp::AllGather, encOp::ReduceScatter,
                              encOp::Broadcast, encOp::Reduce};

/// The ranks of one slot on all devices of a server.
World slotOf(int slot, encSizes sizes, const std::string& platform = "trn2.48xlarge") {
  std::vector<int> cores;
  for (int device = 0; device < 16; device++)
    cores.push_back(device * 4 + slot);
  return test::shaped(platform, 2, {cores}, sizes);
}

encOperation composed(const World& world, const encTask& task) {
  return test::composeAll(world, task, encComposeHybridRing);
}

std::vector<encRingOrder> ringsOf(const World& world) {
  return encHybridRings(*world.comm, encLayout::of(*world.comm)).value();
}

TEST(HybridRing, FourChannelsShareNoLink) {
  const NeuronFabric fabric = neuronFabric(kTrn2x48xlarge, 2).value();
  for (int slot = 0; slot < 4; slot++) {
    const World world = slotOf(slot, {});
    const std::vector<encRingOrder> rings = ringsOf(world);
    ASSERT_EQ(rings.size(), 4U);
    std::set<std::pair<int, int>> links;
    for (const encRingOrder& ring : rings) {
      ASSERT_EQ(ring.members.size(), 16U);
      for (size_t i = 0; i < 16; i++) {
        const int from = world.comm->peers[ring.members[i]].device;
        const int to = world.comm->peers[ring.members[(i + 1) % 16]].device;
        EXPECT_NE(fabric.link(from, to), nullptr) << from << " " << to;
        EXPECT_TRUE(links.insert({from, to}).second) << from << " " << to;
      }
    }
    EXPECT_EQ(links.size(), 64U);
  }
}

// A port is driven by some cores: the others of its device receive through them.
TEST(HybridRing, EveryPortHasItsOwnCoresAndIsAGatewayForTheOthers) {
  size_t direct = 0, gateways = 0;
  for (int slot = 0; slot < 4; slot++) {
    for (const encRingOrder& ring : ringsOf(slotOf(slot, {}))) {
      for (const bool gateway : ring.gateways)
        (gateway ? gateways : direct)++;
    }
  }
  const NeuronFabric fabric = neuronFabric(kTrn2x48xlarge, 2).value();
  size_t drivers = 0;
  for (const FabricLink& link : fabric.links)
    drivers += static_cast<size_t>(__builtin_popcount(link.toSengs));
  EXPECT_EQ(direct, drivers);
  EXPECT_EQ(direct + gateways, 4U * 64U);
  EXPECT_GT(gateways, 0U);
  EXPECT_GT(direct, 0U);
}

TEST(HybridRing, OnlyHopsWithoutGatewayWriteTheNeighboursOutput) {
  const World world = slotOf(1, {});
  const std::vector<encRingOrder> rings = ringsOf(world);
  const encOperation operation = composed(world, test::collective(encOp::AllGather, 1 << 20));
  for (size_t id = 0; id < rings.size(); id++) {
    for (size_t i = 0; i < 16; i++) {
      const int rank = rings[id].members[i], next = rings[id].members[(i + 1) % 16];
      size_t outputs = 0, slots = 0;
      for (const encQueue& queue : operation[rank].queues) {
        if (queue.channel != id) continue;
        for (const encBlock& block : queue.blocks) {
          for (const encDesc& desc : block.descs) {
            for (const encAddress& to : desc.destinations) {
              if (to.rank == rank) continue;
              EXPECT_EQ(to.rank, next);
              (to.buffer == encBuffer::Output ? outputs : slots)++;
            }
          }
        }
      }
      EXPECT_GT(outputs + slots, 0U);
      EXPECT_EQ(outputs == 0, rings[id].gateways[i]) << id << " " << rank;
      EXPECT_EQ(slots > 0, rings[id].gateways[i]) << id << " " << rank;
    }
  }
}

TEST(HybridRing, VerifiesForEverySizeAndSequence) {
  for (const int slot : {0, 3}) {
    const World world = slotOf(slot, kTiny);
    for (const bool inPlace : {false, true}) {
      std::vector<encOperation> sequence;
      for (const encOp op : kOps) {
        for (const uint64_t count : {0, 1, 17, 301, 3001}) {
          const encTask task = test::collective(op, count, ncclInt32, ncclAvg, 5);
          sequence.push_back(composed(world, task));
          ASSERT_EQ(test::verified(world, {sequence.back()}, inPlace), "")
              << test::label(world, task);
        }
      }
      EXPECT_EQ(test::verified(world, sequence, inPlace), "");
    }
  }
}

TEST(HybridRing, GivesTheRightValues) {
  uint64_t seed = 0;
  for (int slot = 0; slot < 4; slot++) {
    const World world = slotOf(slot, kTiny);
    for (const encOp op : kOps) {
      for (const uint64_t count : {1, 301, 2048}) {
        const encTask task = test::collective(op, count, ncclInt32, ncclAvg, 11);
        ASSERT_EQ(test::check(world, composed(world, task), ++seed, count == 301), "")
            << test::label(world, task) << " seed " << seed;
      }
    }
  }
}

TEST(HybridRing, IsTheRingOfSuchGroupsUnlessSwitchedOff) {
  World world = slotOf(2, {});
  const encTask task = test::collective(encOp::AllReduce, 1 << 20);
  EXPECT_EQ(test::composeAll(world, task, encComposeRing), composed(world, task));
  world.comm->options.hybridRing = false;
  EXPECT_NE(test::composeAll(world, task, encComposeRing), composed(world, task));
}

TEST(HybridRing, ShortMessagesUseAPartOfTheChannels) {
  const World world = slotOf(0, {});
  const auto channels = [&](uint64_t bytes) {
    std::set<uint32_t> used;
    const encOperation operation =
        composed(world, test::collective(encOp::AllGather, bytes, ncclInt8));
    for (const encQueue& queue : operation[3].queues)
      used.insert(queue.channel);
    return used.size();
  };
  EXPECT_EQ(channels(64), 1U);
  EXPECT_EQ(channels(128 << 10), 2U);
  EXPECT_EQ(channels(1 << 20), 4U);
}

TEST(HybridRing, SaysWhyItCannotBe) {
  const auto message = [](const World& world, encOp op) {
    const auto program = encComposeHybridRing(world.info(0), test::collective(op, 1));
    return program.ok() ? "" : program.error().message;
  };
  EXPECT_EQ(message(slotOf(0, {}), encOp::AlltoAll),
            "hybrid ring: AlltoAll is no operation of rings");
  EXPECT_NE(message(test::wholeDevices("trn2.48xlarge", 2, 4), encOp::AllReduce)
                .find("16 ranks: 1 node x 4 devices x 4 ranks: want 16 ranks of LNC 2 on one node"),
            std::string::npos);
  World broken = slotOf(0, {});
  broken.comm->mlaCycles.pop_back();
  EXPECT_EQ(message(broken, encOp::AllReduce), "hybrid ring: 1 cycles of the devices: want two");
  broken = slotOf(0, {});
  std::swap(broken.comm->mlaCycles[0][0], broken.comm->mlaCycles[0][5]);
  EXPECT_NE(message(broken, encOp::AllReduce).find(": want a link, and a rank on each"),
            std::string::npos);
}

}  // namespace
}  // namespace nccom
