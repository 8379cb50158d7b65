#include "graph/neuron_search.h"

#include "graph/neuron_cores.h"
#include "graph/neuron_lanes.h"
#include "neuron_test_util.h"

namespace nccom {
namespace {

std::set<std::pair<int, int>> linksOf(const NeuronTour& tour) {
  std::set<std::pair<int, int>> links;
  const size_t n = tour.devices.size();
  for (size_t i = 0; i < n; i++) {
    if (i + 1 == n && !tour.closed) break;
    links.insert(std::minmax(tour.devices[i], tour.devices[(i + 1) % n]));
  }
  return links;
}

TEST(NeuronSearch, NodesListNeighboursFirstThenHowFarTheRestIs) {
  ASSERT_OK(fabric, neuronFabric(kTrn2x48xlarge, 2));
  const auto nodes = constructNodes(fabric, {0, 1, 5, 10});
  ASSERT_EQ(nodes.size(), 4U);
  ASSERT_EQ(nodes[0].edges.remote.size(), 1U);  // 0 - 1
  EXPECT_EQ(nodes[0].edges.remote[0].target, 1);
  EXPECT_EQ(nodes[0].edges.remote[0].outSengs, 0b0010);
  EXPECT_EQ(nodes[0].edges.remote[0].inSengs, 0b0001);
  ASSERT_EQ(nodes[0].edges.far.size(), 2U);
  EXPECT_EQ(nodes[0].edges.far[0].extraHops, 1);  // 0 - 5: over 1 or 4
  EXPECT_EQ(nodes[0].edges.far[1].extraHops, 3);  // 0 - 10: the far corner of the torus
}

TEST(NeuronSearch, TurnsCostWhereEngineGroupsLieApart) {
  const auto cost = [](TurnRule rule, int in, int out) {
    return turnCost(kTrn2x48xlarge, rule, static_cast<uint8_t>(1U << in),
                    static_cast<uint8_t>(1U << out));
  };
  for (int in = 0; in < 4; in++) {
    EXPECT_EQ(cost(TurnRule::Ring, in, in ^ 1), 0);
    EXPECT_EQ(cost(TurnRule::Ring, in, in ^ 2), 0);
    EXPECT_EQ(cost(TurnRule::Ring, in, in ^ 3), 1);
    EXPECT_EQ(cost(TurnRule::Kangaring, in, in ^ 2), 0);
    EXPECT_LT(cost(TurnRule::Kangaring, in, in ^ 3), cost(TurnRule::Kangaring, in, in ^ 1));
  }
  EXPECT_EQ(turnCost(kTrn2x48xlarge, TurnRule::Ring, 0, 1), 0);
  EXPECT_EQ(turnCost(kTrn1x32xlarge, TurnRule::Kangaring, 3, 3), 0);
}

TEST(NeuronSearch, UsePricesSendLaterToursOverOtherLinks) {
  ASSERT_OK(fabric, neuronFabric(kTrn2x48xlarge, 2));
  NeuronSearch search(fabric, firstDevices(16));
  EXPECT_EQ(search.maxDisjoint(), 2);
  std::set<std::pair<int, int>> used;
  // One call a tour: what an earlier call took is dear in a later one. The first choice may leave
  // none for the second.
  const auto first = search.findPaths({});
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(linksOf(first[0]).size(), 16U);
  for (const NeuronTour& tour : search.findPaths({})) {
    for (const auto& link : linksOf(tour))
      EXPECT_EQ(linksOf(first[0]).count(link), 0U);
  }
  // Shared once, there is a tour again.
  EXPECT_EQ(search.findPaths({.priceCeiling = 1}).size(), 1U);
}

TEST(NeuronSearch, FindsDisjointToursOfEveryTorusAtNoTurnCost) {
  for (const NeuronPlatform* platform :
       {&kTrn1x32xlarge, &kTrn2x48xlarge, &kTrn2ux48xlarge, &kTrn3px48xlarge}) {
    ASSERT_OK(fabric, neuronFabric(*platform, platform->defaultLnc));
    NeuronSearch search(fabric, firstDevices(16));
    const auto tours = search.findPaths({.maxTours = 2});
    ASSERT_EQ(tours.size(), 2U);
    std::set<std::pair<int, int>> all = linksOf(tours[0]);
    all.merge(linksOf(tours[1]));
    EXPECT_EQ(all.size(), 32U);
    EXPECT_EQ(tours[0].turnCost + tours[1].turnCost, 0);
  }
}

TEST(NeuronSearch, SpendsNoMoreStepsThanItMay) {
  ASSERT_OK(fabric, neuronFabric(kTrn2x48xlarge, 2));
  NeuronSearch search(fabric, firstDevices(16));
  EXPECT_TRUE(search.findPaths({.maxTours = 2, .steps = 10}).empty());
  const NeuronTour any = search.findCheapest({.steps = 1});
  const std::set<int> devices(any.devices.begin(), any.devices.end());
  EXPECT_EQ(devices.size(), 16U);
}

TEST(NeuronSearch, TheCheapestTourIsTheCheapestOfAllOrders) {
  ASSERT_OK(fabric, neuronFabric(kTrn2x48xlarge, 2));
  std::mt19937 random(3);
  for (int round = 0; round < 40; round++) {
    std::vector<int> devices = firstDevices(16);
    std::shuffle(devices.begin(), devices.end(), random);
    devices.resize(2 + random() % 6);
    std::sort(devices.begin(), devices.end());
    const auto extraHops = [&](int from, int to) {
      return static_cast<int>(shortestWay(fabric, from, to).size()) - 2;
    };
    for (const bool closed : {true, false}) {
      int fewest = 1 << 20;
      std::vector<int> order = devices;
      do {
        int hops = closed ? extraHops(order.back(), order.front()) : 0;
        for (size_t i = 1; i < order.size(); i++)
          hops += extraHops(order[i - 1], order[i]);
        fewest = std::min(fewest, hops);
      } while (std::next_permutation(order.begin(), order.end()));
      NeuronSearch search(fabric, devices);
      const NeuronTour tour = search.findCheapest({.closed = closed});
      EXPECT_EQ(tour.extraHops, fewest) << "round " << round << " closed " << closed;
      NeuronSearch links(fabric, devices);
      EXPECT_EQ(links.findPaths({.closed = closed}).empty(), fewest > 0);
    }
  }
}

TEST(NeuronSearch, FoldedToursTakeLinksOnly) {
  ASSERT_OK(fabric, neuronFabric(kInf2x24xlarge, 1));
  NeuronSearch search(fabric, firstDevices(6));
  EXPECT_TRUE(search.findPaths({}).empty());
  NeuronTour tour = search.findCheapest({});
  EXPECT_EQ(tour.extraHops, 4);
  NeuronTour cramped = tour;
  foldTour(fabric, cramped, std::vector<int>(6, 0));
  EXPECT_EQ(cramped, tour);  // no core to spare
  foldTour(fabric, tour, std::vector<int>(6, 1));
  EXPECT_EQ(tour.extraHops, 0);
  EXPECT_EQ(tour.devices.size(), 10U);
  for (size_t i = 0; i < tour.devices.size(); i++)
    EXPECT_NE(fabric.link(tour.devices[i], tour.devices[(i + 1) % 10]), nullptr);
}

TEST(NeuronSearch, FindsTheWayOfEveryPodWithinSeconds) {
  struct Case {
    const NeuronPlatform* platform;
    const char* pod;
    int minTours;
  };
  for (const Case& pod : {Case{&kTrn2ux48xlarge, "X4", 2}, Case{&kTrn3px48xlarge, "X4", 2}}) {
    ASSERT_OK(shape, findPodShape(*pod.platform, pod.pod));
    ASSERT_OK(fabric, neuronFabric(*pod.platform, shape, 2));
    NeuronSearch search(fabric, firstDevices(fabric.deviceCount()));
    EXPECT_EQ(search.maxDisjoint(), 3);
    const auto tours = search.findPaths({.maxTours = 3});
    EXPECT_GE(static_cast<int>(tours.size()), pod.minTours);
    std::set<std::pair<int, int>> all;
    for (const NeuronTour& tour : tours)
      all.merge(linksOf(tour));
    EXPECT_EQ(all.size(), tours.size() * fabric.devices.size());
  }
}

TEST(NeuronCores, EveryVisitGetsACoreAndEveryCoreAVisit) {
  for (const int lnc : {1, 2}) {
    ASSERT_OK(fabric, neuronFabric(kTrn2x48xlarge, lnc));
    const int perDevice = fabric.coresPerDevice;
    NeuronTour tour;
    tour.devices = {0, 1, 2, 1};  // there and back
    std::vector<int> cores(static_cast<size_t>(3 * perDevice));
    std::iota(cores.begin(), cores.end(), 0);
    NeuronStepPrices prices;
    const NeuronCorePath path = convertDevicePathToCorePath(fabric, tour, cores, prices);
    ASSERT_EQ(path.visits.size(), 4U);
    std::vector<int> sorted = path.cores;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, cores);
    for (size_t v = 0; v < 4; v++) {
      const size_t end = v + 1 < 4 ? path.visits[v + 1] : path.cores.size();
      EXPECT_LT(static_cast<size_t>(path.visits[v]), end);
      for (size_t i = path.visits[v]; i < end; i++)
        EXPECT_EQ(fabric.cores[path.cores[i]].device, tour.devices[v]);
    }
    EXPECT_EQ(reversed(reversed(path)), path);
    NeuronCorePath turned = rotatePath(path, 1);
    EXPECT_EQ(turned.cores.front(), path.cores[path.visits[1]]);
    EXPECT_EQ(rotatePath(turned, 3), path);
  }
}

TEST(NeuronCores, PathsShareStepsWithinADeviceEvenly) {
  ASSERT_OK(fabric, neuronFabric(kTrn2x48xlarge, 1));
  NeuronSearch search(fabric, firstDevices(16));
  NeuronStepPrices prices;
  std::vector<int> cores(fabric.cores.size());
  std::iota(cores.begin(), cores.end(), 0);
  for (const NeuronTour& tour : search.findPaths({.maxTours = 2}))
    convertDevicePathToCorePath(fabric, tour, cores, prices);
  for (const auto& [step, price] : prices) {
    const bool isRmtv = coreLocality(fabric, step.first, step.second) == EdgeLocality::Rmtv;
    EXPECT_LE(price, isRmtv ? 1 : 2);
  }
}

TEST(NeuronCores, LongLegsKeepOutOfTheWayOfOthers) {
  ASSERT_OK(fabric, neuronFabric(kTrn2x48xlarge, 2));
  // From device 0 to 5 over 1 or over 4; another channel takes 0 to 1, or 4 to 5.
  for (const std::vector<int>& other : {std::vector<int>{0 * 4, 1 * 4}, {4 * 4, 5 * 4}}) {
    const auto laid = layChannels(fabric, {{0, 5 * 4}, other}, false);
    ASSERT_EQ(laid[0][0].links.size(), 2U);
    EXPECT_EQ(laid[0][0].locality, EdgeLocality::RemoteMla);
    for (const int link : laid[0][0].links)
      EXPECT_NE(link, laid[1][0].links[0]);
    EXPECT_FLOAT_EQ(channelGBps(fabric, laid), kTrn2x48xlarge.deviceLinkGBps);
  }
}

TEST(NeuronLanes, CopiesEndAtEveryNicOnce) {
  // Eight visits of one core, a NIC each: four pairs end at all of them.
  NeuronBasePath base;
  NeuronNets nets;
  for (int core = 0; core < 8; core++) {
    base.path.cores.push_back(core);
    base.path.visits.push_back(core);
    nets.nearest.push_back({100 + core});
  }
  const auto channels = duplicatePaths({base}, nets, {.inter = true});
  ASSERT_EQ(channels.size(), 8U);
  std::set<int64_t> in, out;
  for (const NeuronChannel& channel : channels) {
    EXPECT_EQ(channel.nets[0], 100 + channel.cores.front());
    EXPECT_EQ(channel.nets[1], 100 + channel.cores.back());
    in.insert(channel.nets[0]);
    out.insert(channel.nets[1]);
  }
  EXPECT_EQ(in.size(), 8U);
  EXPECT_EQ(out.size(), 8U);
  // An open path has its ends where they are.
  base.closed = false;
  for (const NeuronChannel& channel : duplicatePaths({base}, nets, {.inter = true}))
    EXPECT_EQ(std::minmax(channel.cores.front(), channel.cores.back()), std::minmax(0, 7));
}

}  // namespace
}  // namespace nccom
