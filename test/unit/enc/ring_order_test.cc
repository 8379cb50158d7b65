#include "enc/ring_order.h"

#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "enc/hybrid.h"
#include "test/unit/enc/ring_family.h"

namespace nccom {
namespace {

using test::World;

/// What must be given back before what can be taken, by any chunk of any group.
using Dependencies = std::map<encWayPart, std::set<encWayPart>>;

bool hasCircle(const Dependencies& dependencies) {
  std::map<encWayPart, int> state;  // 1: on the path, 2: done
  std::function<bool(const encWayPart&)> visit = [&](const encWayPart& part) {
    int& mark = state[part];
    if (mark != 0) return mark == 1;
    mark = 1;
    if (const auto found = dependencies.find(part); found != dependencies.end()) {
      for (const encWayPart& next : found->second) {
        if (visit(next)) return true;
      }
    }
    state[part] = 2;
    return false;
  };
  return std::any_of(dependencies.begin(), dependencies.end(),
                     [&](const auto& entry) { return visit(entry.first); });
}

std::vector<int> sortedRanks(const enc_comm_info& info) {
  return encSortedRanks(info).value();
}

void addWays(const enc_comm_info& info, const std::vector<int>& ring, Dependencies& dependencies) {
  const encDeviceOrder order = encDeviceOrderOf(info).value();
  for (size_t start = 0; start < ring.size(); start++) {
    for (const encWaySegment& segment : encChunkWay(info, order, ring, start)) {
      for (size_t i = 0; i + 1 < segment.size(); i++)
        dependencies[segment[i]].insert(segment[i + 1]);
    }
  }
}

/// Groups over some cores of some servers, ranks in any order; only where they are counts here.
enc_comm_info randomGroup(const NeuronPlatform& platform, int lnc, std::mt19937& random) {
  const NeuronFabric fabric = neuronFabric(platform, lnc).value();
  std::vector<int> cores(fabric.cores.size());
  std::iota(cores.begin(), cores.end(), 0);
  enc_comm_info info;
  info.platform = &platform;
  info.lnc = lnc;
  const int servers = random() % 3 == 0 ? 2 : 1;
  for (int server = 0; server < servers; server++) {
    std::shuffle(cores.begin(), cores.end(), random);
    const size_t count = 1 + random() % std::min<size_t>(cores.size(), 20);
    for (size_t i = 0; i < count; i++) {
      const NeuronCore& core = fabric.cores[cores[i]];
      info.peers.push_back({server, core.device, cores[i], core.slot});
    }
  }
  info.rank_n = static_cast<int>(info.peers.size());
  return info;
}

TEST(RingOrder, NoGroupsOnAMachineCanWaitForEachOtherInACircle) {
  std::mt19937 random(1);
  size_t bad = 0, machines = 0;
  for (const NeuronPlatform* platform : neuronPlatforms()) {
    if (platform->deviceCount() < 3) continue;
    Dependencies sorted, unsorted;
    for (int group = 0; group < 12; group++) {
      const enc_comm_info info = randomGroup(*platform, platform->defaultLnc, random);
      addWays(info, sortedRanks(info), sorted);
      std::vector<int> any(info.rank_n);
      std::iota(any.begin(), any.end(), 0);
      addWays(info, any, unsorted);
    }
    EXPECT_FALSE(hasCircle(sorted)) << platform->name;
    EXPECT_GT(sorted.size(), 2U);
    machines++;
    bad += hasCircle(unsorted) ? 1 : 0;
  }
  EXPECT_EQ(bad, machines) << "the order of ranks makes no difference";
}

TEST(RingOrder, EveryChunkTakesWhatGroupsShareByRisingNumbers) {
  std::mt19937 random(2);
  for (const NeuronPlatform* platform : neuronPlatforms()) {
    for (int group = 0; group < 4; group++) {
      const enc_comm_info info = randomGroup(*platform, platform->defaultLnc, random);
      const std::vector<int> ring = sortedRanks(info);
      const encDeviceOrder order = encDeviceOrderOf(info).value();
      for (size_t start = 0; start < ring.size(); start++) {
        for (const encWaySegment& segment : encChunkWay(info, order, ring, start)) {
          EXPECT_EQ(std::adjacent_find(segment.begin(), segment.end(), std::greater_equal<>()),
                    segment.end())
              << platform->name;
        }
      }
    }
  }
}

TEST(RingOrder, GroupsPassTheDevicesInOneCyclicOrder) {
  const NeuronFabric fabric = neuronFabric(kTrn2x48xlarge, 2).value();
  const encDeviceOrder order = encOrderDevices(fabric);
  EXPECT_TRUE(order.isCycle);
  EXPECT_EQ(order.devices.front(), 0);
  for (size_t place = 0; place < 16; place++) {
    EXPECT_NE(fabric.link(order.devices[place], order.devices[(place + 1) % 16]), nullptr);
    EXPECT_EQ(order.places[order.devices[place]], static_cast<int>(place));
  }
  std::mt19937 random(3);
  for (int group = 0; group < 50; group++) {
    const enc_comm_info info = randomGroup(kTrn2x48xlarge, 2, random);
    int last = -1, server = 0;
    for (const int rank : sortedRanks(info)) {
      const int place = order.places[info.peers[rank].device];
      EXPECT_TRUE(place >= last || info.peers[rank].server > server);
      last = place;
      server = info.peers[rank].server;
    }
  }
}

TEST(RingOrder, HybridRingsOfAllSlotsGoTheSameWay) {
  std::vector<std::vector<int>> ways;  // of slot 0
  for (int slot = 0; slot < 4; slot++) {
    std::vector<int> cores;
    for (int device = 0; device < 16; device++)
      cores.push_back(device * 4 + slot);
    const World world = test::shaped("trn2.48xlarge", 2, {cores});
    const auto rings = encHybridRings(*world.comm, encLayout::of(*world.comm)).value();
    for (size_t id = 0; id < rings.size(); id++) {
      std::vector<int> devices;
      for (const int rank : rings[id].members)
        devices.push_back(world.comm->peers[rank].device);
      if (slot == 0) ways.push_back(devices);
      EXPECT_EQ(devices, ways[id]) << "slot " << slot;
    }
  }
}

// A line: 0 to 3. The ring closes over the way back, once.
TEST(RingOrder, ALineIsClosedByTheWayBack) {
  enc_comm_info info;
  info.rank_n = 3;
  info.peers = {{0, 3, 3, 0}, {0, 0, 0, 0}, {0, 2, 2, 0}};
  const std::vector<int> ring = sortedRanks(info);
  EXPECT_EQ(ring, (std::vector<int>{1, 2, 0}));
  using Lap = encWayPart::Lap;
  const std::vector<encWaySegment> way = encChunkWay(info, encDeviceOrderOf(info).value(), ring, 1);
  const encWaySegment wanted{
      {0, Lap::Early, 2}, {0, Lap::Back, 0}, {0, Lap::Back, 1}, {0, Lap::Back, 2}};
  ASSERT_EQ(way.size(), 1U);
  EXPECT_EQ(way[0], wanted);
}

/// As rings of the other direction see the devices.
encDeviceOrder mirrored(encDeviceOrder order) {
  std::reverse(order.devices.begin(), order.devices.end());
  for (int& place : order.places)
    place = static_cast<int>(order.devices.size()) - 1 - place;
  return order;
}

/// What chunks of all channels of one direction depend on.
void addRings(const enc_comm_info& info, size_t direction, Dependencies& dependencies) {
  encDeviceOrder order = encDeviceOrderOf(info).value();
  if (direction == 1) order = mirrored(std::move(order));
  for (size_t channel = direction; channel < info.rings.size(); channel += 2) {
    const std::vector<int>& ring = info.rings[channel];
    for (size_t start = 0; start < ring.size(); start++) {
      for (const encWaySegment& segment : encChunkWay(info, order, ring, start)) {
        for (size_t i = 0; i + 1 < segment.size(); i++)
          dependencies[segment[i]].insert(segment[i + 1]);
      }
    }
  }
}

TEST(RingOrder, RingsOfGroupsThatShareServersCannotWaitForEachOther) {
  std::mt19937 random(4);
  size_t bad = 0, machines = 0;
  for (const NeuronPlatform* platform : neuronPlatforms()) {
    if (platform->deviceCount() < 3) continue;
    std::array<Dependencies, 2> ordered, found;
    for (int group = 0; group < 12; group++) {
      enc_comm_info info = randomGroup(*platform, platform->defaultLnc, random);
      std::vector<int> ring(info.rank_n);
      std::iota(ring.begin(), ring.end(), 0);
      // Each server by itself, as any ring passes it.
      const auto server = [&](int rank) { return info.peers[rank].server; };
      for (int channel = 0; channel < 4; channel++) {
        std::shuffle(ring.begin(), ring.end(), random);
        std::stable_sort(ring.begin(), ring.end(),
                         [&](int a, int b) { return server(a) < server(b); });
        info.rings.push_back(ring);
        std::rotate(info.rings.back().begin(),
                    info.rings.back().begin() + static_cast<int>(random() % ring.size()),
                    info.rings.back().end());
      }
      for (const size_t direction : {0, 1})
        addRings(info, direction, found[direction]);
      const std::vector<std::vector<int>> before = info.rings;
      ASSERT_TRUE(encOrderRings(info).ok());
      for (size_t channel = 0; channel < 4; channel++)
        EXPECT_TRUE(std::is_permutation(before[channel].begin(), before[channel].end(),
                                        info.rings[channel].begin(), info.rings[channel].end()));
      for (const size_t direction : {0, 1})
        addRings(info, direction, ordered[direction]);
    }
    for (const size_t direction : {0, 1}) {
      EXPECT_FALSE(hasCircle(ordered[direction])) << platform->name << " " << direction;
      bad += hasCircle(found[direction]) ? 1 : 0;
      machines++;
    }
  }
  EXPECT_EQ(bad, machines) << "the order of ranks makes no difference";
}

// Groups as communicators are made of them, side by side on two servers; the search alone would
// not have them so.
TEST(RingOrder, GroupsOfCommunicatorsAreInIt) {
  const int cores = neuronFabric(kTrn2x48xlarge, 2).value().coreCount();
  const encMachine machine{&kTrn2x48xlarge, 2, kNoPod, 0};
  std::mt19937 random(5);
  std::vector<int> shuffled(cores);
  std::iota(shuffled.begin(), shuffled.end(), 0);
  std::shuffle(shuffled.begin(), shuffled.end(), random);
  std::array<Dependencies, 2> ways, found;
  for (int begin = 0; begin < cores; begin += 16) {
    std::vector<int> group(shuffled.begin() + begin, shuffled.begin() + begin + 16);
    std::sort(group.begin(), group.end());
    enc_comm_info info = encShapeComm(machine, {group, group}).value();
    for (const size_t direction : {0, 1})
      addRings(info, direction, ways[direction]);
    info.rings = encShapeRings(machine, {group, group}).value();
    for (const size_t direction : {0, 1})
      addRings(info, direction, found[direction]);
  }
  for (const size_t direction : {0, 1})
    EXPECT_FALSE(hasCircle(ways[direction])) << direction;
  EXPECT_TRUE(hasCircle(found[0]) || hasCircle(found[1]));
}

TEST(RingOrder, RingsOfWholeServersAndOfUnknownOnesAreKept) {
  World whole = test::wholeDevices("trn2.48xlarge", 2, 16);
  World host = test::shaped("host", 1, {{0, 2, 1}, {3, 1, 2}});
  host.comm->rings = {{2, 0, 1, 5, 4, 3}};
  for (World* world : {&whole, &host}) {
    const enc_comm_info before = *world->comm;
    ASSERT_TRUE(encOrderRings(*world->comm).ok());
    EXPECT_EQ(*world->comm, before);
  }
}

// NICs are near the ranks at which rings come to servers.
TEST(RingOrder, RingsComeToServersWhereTheyDid) {
  World world = test::shaped("trn1.32xlarge", 1, {{0, 4, 9, 12}, {0, 4, 9, 12}});
  enc_comm_info& info = *world.comm;
  info.rings = {{2, 1, 7, 5, 6, 4, 0, 3}, {1, 0, 6, 5, 7, 4, 3, 2}};
  ASSERT_TRUE(encOrderRings(info).ok());
  for (const auto& [channel, entries] :
       {std::pair(size_t{0}, std::vector<int>{7, 0}), {size_t{1}, {6, 3}}}) {
    std::vector<int> found;
    const std::vector<int>& ring = info.rings[channel];
    for (size_t i = 0; i < 8; i++) {
      if (info.peers[ring[i]].server != info.peers[ring[(i + 7) % 8]].server)
        found.push_back(ring[i]);
    }
    EXPECT_EQ(found, entries);
  }
}

TEST(RingOrder, WantsToKnowWhereRanksAre) {
  enc_comm_info info;
  info.rank_n = 2;
  EXPECT_EQ(encSortedRanks(info).error().message, "places of 0 ranks are known: want 2");
}

}  // namespace
}  // namespace nccom
