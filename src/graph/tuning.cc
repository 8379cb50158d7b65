#include "graph/tuning.h"

#include <algorithm>
#include <bit>

namespace nccom {
namespace {

using Collective = TuningCollective;
using Algorithm = NcclAlgorithm;
using Protocol = NcclProtocol;

using PerProtocol = std::array<float, kNcclProtocols>;          // [LL, LL128, Simple]
using PerAlgorithm = std::array<PerProtocol, kNcclAlgorithms>;  // [tree, ring, PAT]
using PerHosts = std::array<float, 3>;                          // [1 host, 2 hosts, more]

// ---- @source NCCL 2.30, its default tuner constants ---------------------------------------------

// Microseconds before the first step.
constexpr PerAlgorithm kBaseUs = {{{6.8F, 14.0F, 8.4F}, {6.6F, 14.0F, 8.4F}, {8.0F, 8.0F, 8.0F}}};

// Microseconds of a step over a fabric, PCI or network.
constexpr PerAlgorithm kFabricUs = {{{0.6F, 1.25F, 4.0F}, {0.6F, 1.9F, 3.4F}, {0, 0, 4.0F}}};
constexpr PerAlgorithm kPciUs = {{{1.0F, 1.9F, 4.0F}, {1.0F, 2.5F, 5.7F}, {0, 0, 4.0F}}};
constexpr PerAlgorithm kNetUs = {{{5.0F, 8.5F, 14.0F}, {2.7F, 4.0F, 14.0F}, {0, 0, 14.0F}}};

// GB/s, by generation: up to 79, 80s, 90s, 100 and later.
using PerGeneration = std::array<PerHosts, 4>;
// For several hosts the first row is that of Intel, the second of AMD processors.
constexpr PerGeneration kMaxLlGBps = {
    {{39.0F, 39.0F, 20.4F}, {87.7F, 22.5F, 19.0F}, {141.0F, 45.0F, 35.0F}, {282.0F, 90.0F, 70.0F}}};
// GB/s of a channel.
constexpr PerGeneration kMaxRingLl128GBps = {
    {{20.0F, 20.0F, 20.0F}, {20.0F, 20.0F, 20.0F}, {36.7F, 36.7F, 36.7F}, {40.0F, 40.0F, 40.0F}}};
constexpr PerGeneration kMaxTreeLl128GBps = {
    {{20.0F, 20.0F, 20.0F}, {20.0F, 20.0F, 20.0F}, {36.7F, 36.7F, 29.0F}, {55.6F, 31.67F, 20.0F}}};
constexpr PerGeneration kMaxTreeGBps = {
    {{26.5F, 18.5F, 10.0F}, {24.0F, 23.6F, 17.8F}, {38.7F, 41.4F, 36.0F}, {70.0F, 42.8F, 24.0F}}};

// What a tree keeps of its bandwidth at 64 bytes, 128, ... 256 MiB.
constexpr std::array<std::array<float, 24>, kNcclProtocols> kTreeBySize = {
    {{1.0F, 1.0F, 1.0F, 1.0F, .9F, .8F, .7F, .7F,  .7F,  .7F,  .6F,  .5F,
      .4F,  .4F,  .5F,  .6F,  .7F, .8F, .9F, 1.0F, 1.0F, 1.0F, 1.0F, 1.0F},
     {1.0F, 1.0F, 1.0F, 1.0F, 1.0F, .9F, .8F, .8F, .8F, .7F,  .6F,  .6F,
      .6F,  .6F,  .6F,  .6F,  .8F,  .9F, .9F, .9F, .9F, 1.0F, 1.0F, 1.0F},
     {.9F, .9F, .9F, .9F, .9F, .9F, .9F, .8F, .7F, .6F, .6F, .5F,
      .5F, .5F, .5F, .6F, .7F, .8F, .7F, .7F, .8F, .9F, .9F, .9F}}};
constexpr int kSizesOfTree = 23;  // the last entry is not used

// -------------------------------------------------------------------------------------------------

int indexOf(Algorithm algorithm) {
  return static_cast<int>(algorithm);
}
int indexOf(Protocol protocol) {
  return static_cast<int>(protocol);
}

int generationOf(int sm) {
  if (sm >= 100) return 3;
  if (sm >= 90) return 2;
  return sm >= 80 ? 1 : 0;
}

int log2Of(uint64_t value) {
  return static_cast<int>(std::bit_width(value)) - 1;
}

/// Steps of the ring algorithm.
int ringSteps(Collective collective, int nRanks) {
  if (collective == Collective::AllReduce) return 2 * (nRanks - 1);
  const bool isRooted = collective == Collective::Broadcast || collective == Collective::Reduce;
  return isRooted ? nRanks : nRanks - 1;
}

bool isGather(Collective collective) {
  return collective == Collective::AllGather || collective == Collective::ReduceScatter;
}

/// The model for one set of graphs.
class Model {
 public:
  explicit Model(const TuningInput& input)
      : input_(input),
        generation_(generationOf(input.minSm)),
        hosts_(std::min(input.nNodes, 3) - 1) {}

  bool isOffered(Collective collective, Algorithm algorithm, Protocol protocol) const {
    switch (algorithm) {
      case Algorithm::Tree:
        if (collective != Collective::AllReduce) return false;
        break;
      case Algorithm::Ring:
        break;
      case Algorithm::Pat:
        if (!isGather(collective) || protocol != Protocol::Simple) return false;
        if (input_.nNodes != input_.nRanks || input_.minSm < 60) return false;
        break;
    }
    return protocol != Protocol::Ll128 || allowsLl128(graphOf(algorithm));
  }

  float bandwidth(Collective collective, Algorithm algorithm, Protocol protocol) const {
    const ncclTopoGraph& graph = graphOf(algorithm);
    const auto nChannels = static_cast<float>(graph.nChannels);
    const float all = nChannels * (input_.nNodes <= 2 ? graph.bwIntra : graph.bwInter);
    switch (algorithm) {
      case Algorithm::Ring:
        return ringBandwidth(all, nChannels, protocol) * static_cast<float>(input_.nRanks) /
               static_cast<float>(ringSteps(collective, input_.nRanks));
      case Algorithm::Tree:
        return treeBandwidth(all, nChannels, protocol) / 2;
      case Algorithm::Pat:
        return all * 0.75F;
    }
    return 0;
  }

  float latency(Collective collective, Algorithm algorithm, Protocol protocol) const {
    const float base = kBaseUs[indexOf(algorithm)][indexOf(protocol)];
    switch (algorithm) {
      case Algorithm::Ring:
        return base + ringLatency(collective, protocol);
      case Algorithm::Tree: {
        const int perHost = input_.nRanks / input_.nNodes;
        const auto chain = static_cast<float>(perHost - 1);
        const auto depth = static_cast<float>(log2Of(static_cast<uint64_t>(input_.nNodes)));
        return base +
               2 * (chain * inHost(algorithm, protocol) + depth * between(algorithm, protocol));
      }
      case Algorithm::Pat: {
        const auto depth = static_cast<float>(log2Of(static_cast<uint64_t>(input_.nNodes)));
        return base + depth * between(algorithm, protocol) / 3.5F +
               2.8F * static_cast<float>(input_.nRanks);
      }
    }
    return base;
  }

 private:
  const ncclTopoGraph& graphOf(Algorithm algorithm) const {
    return algorithm == Algorithm::Ring ? *input_.ring : *input_.tree;
  }

  /// The 128-byte protocol needs links that keep the order of stores.
  bool allowsLl128(const ncclTopoGraph& graph) const {
    const ncclTopoPathType farthest =
        input_.minSm >= 90 ? ncclTopoPathType::Pxn : ncclTopoPathType::Pxb;
    const bool isOneKind = input_.minSm == input_.maxSm || input_.minSm >= 90;
    return graph.typeInter <= farthest && graph.typeIntra <= ncclTopoPathType::Nvb && isOneKind &&
           input_.minSm >= 70;
  }

  float maxLl() const {
    if (input_.nNodes == 1) return kMaxLlGBps[generation_][hosts_];
    const bool isAmd = input_.cpuVendor == CpuVendor::Amd || input_.mixedCpuVendors;
    return kMaxLlGBps[isAmd ? 1 : 0][hosts_];
  }

  float ringBandwidth(float all, float nChannels, Protocol protocol) const {
    switch (protocol) {
      case Protocol::Ll:
        return std::min(maxLl(), all / 2);
      case Protocol::Ll128:
        return std::min(all * 0.92F, nChannels * kMaxRingLl128GBps[generation_][hosts_]);
      case Protocol::Simple:
        break;
    }
    return all;
  }

  float treeBandwidth(float all, float nChannels, Protocol protocol) const {
    float bw = std::min(all * 0.92F, nChannels * kMaxTreeGBps[generation_][hosts_]);
    if (protocol == Protocol::Ll) bw = std::min(bw / 3.8F, maxLl());
    if (protocol == Protocol::Ll128) {
      const float kept = input_.nNodes == 1 ? 7.0F / 9.0F : 120.0F / 128.0F;
      bw = std::min(bw * kept, nChannels * kMaxTreeLl128GBps[generation_][hosts_]);
    }
    return input_.tree->pattern == ncclTopoPattern::Tree ? bw * 0.85F : bw;
  }

  /// Of a step between devices of a host.
  float inHost(Algorithm algorithm, Protocol protocol) const {
    if (graphOf(algorithm).typeIntra == ncclTopoPathType::Nvl)
      return kFabricUs[indexOf(algorithm)][indexOf(protocol)];
    // Power systems favour trees.
    const bool isPower = input_.cpuArch == CpuArch::Power && protocol == Protocol::Simple;
    if (algorithm == Algorithm::Tree && isPower) algorithm = Algorithm::Ring;
    return kPciUs[indexOf(algorithm)][indexOf(protocol)];
  }

  /// Of a step between hosts. One rank a host: nothing hides it, as in a tree.
  float between(Algorithm algorithm, Protocol protocol) const {
    const Algorithm shown = input_.nRanks == input_.nNodes ? Algorithm::Tree : algorithm;
    const float added = graphOf(algorithm).latencyInter;
    // The simple protocol also waits for a flush.
    const float flush = protocol == Protocol::Simple ? added : 0;
    return kNetUs[indexOf(shown)][indexOf(protocol)] + added + flush;
  }

  float ringLatency(Collective collective, Protocol protocol) const {
    const int nSteps = ringSteps(collective, input_.nRanks);
    if (collective == Collective::Broadcast || collective == Collective::Reduce) {
      const bool isSimpleChain = !input_.ring->sameChannels && protocol == Protocol::Simple;
      const int row = indexOf(isSimpleChain ? Algorithm::Tree : Algorithm::Ring);
      const bool isFabric = input_.ring->typeIntra == ncclTopoPathType::Nvl;
      const PerAlgorithm& table = input_.nNodes > 1 ? kNetUs : isFabric ? kFabricUs : kPciUs;
      const float step = table[row][indexOf(protocol)];
      return input_.ring->sameChannels ? step : static_cast<float>(nSteps) * step;
    }
    float step = inHost(Algorithm::Ring, protocol);
    if (input_.nNodes > 1) {
      const bool isAmd = input_.cpuArch == CpuArch::X86 && input_.cpuVendor == CpuVendor::Amd;
      const float postUs = isAmd ? 2.0F : 1.0F;
      step = std::max(step, protocol == Protocol::Simple ? 3 * postUs : postUs);
    }
    const int nPasses = collective == Collective::AllReduce ? 2 : 1;
    const int nBetween = input_.nNodes == 1 ? 0 : nPasses * (input_.nNodes - 1);
    return static_cast<float>(nSteps - nBetween) * step +
           static_cast<float>(nBetween) * between(Algorithm::Ring, protocol);
  }

  const TuningInput& input_;
  int generation_;
  int hosts_;  // index into PerHosts
};

}  // namespace

const char* toText(TuningCollective collective) {
  static constexpr std::array kNames = {"Broadcast", "Reduce", "AllGather", "ReduceScatter",
                                        "AllReduce"};
  return kNames[static_cast<size_t>(collective)];
}

const char* toText(NcclAlgorithm algorithm) {
  static constexpr std::array kNames = {"Tree", "Ring", "PAT"};
  return kNames[static_cast<size_t>(algorithm)];
}

const char* toText(NcclProtocol protocol) {
  static constexpr std::array kNames = {"LL", "LL128", "Simple"};
  return kNames[static_cast<size_t>(protocol)];
}

Result<NcclTuning> NcclTuning::model(const TuningInput& input) {
  for (const ncclTopoGraph* graph : {input.ring, input.tree}) {
    if (graph == nullptr || graph->nChannels < 1)
      return fail(ncclInvalidArgument, "a cost needs a ring and a tree graph with channels");
  }
  if (input.nRanks < 1 || input.nNodes < 1 || input.nNodes > input.nRanks || input.nChannels < 1) {
    return fail(ncclInvalidArgument, "%d ranks on %d hosts with %d channels", input.nRanks,
                input.nNodes, input.nChannels);
  }
  NcclTuning tuning(input);
  if (input.nRanks == 1) return tuning;  // nothing to send
  const Model model(tuning.input_);
  for (int c = 0; c < kTuningCollectives; c++) {
    for (int a = 0; a < kNcclAlgorithms; a++) {
      for (int p = 0; p < kNcclProtocols; p++) {
        const auto collective = static_cast<Collective>(c);
        const auto algorithm = static_cast<Algorithm>(a);
        const auto protocol = static_cast<Protocol>(p);
        if (!model.isOffered(collective, algorithm, protocol)) continue;
        tuning.costs_[c][a][p] = {model.latency(collective, algorithm, protocol),
                                  model.bandwidth(collective, algorithm, protocol)};
      }
    }
  }
  tuning.input_.ring = tuning.input_.tree = nullptr;  // they may end before the costs
  return tuning;
}

std::optional<double> NcclTuning::timeUs(TuningCollective collective, NcclAlgorithm algorithm,
                                         NcclProtocol protocol, uint64_t bytes) const {
  const TuningCost& plain = cost(collective, algorithm, protocol);
  if (plain.bwGBps <= 0) return std::nullopt;
  double bw = static_cast<double>(plain.bwGBps);
  double latencyUs = static_cast<double>(plain.latencyUs);
  const int size = log2Of(bytes >> 6);
  if (algorithm == Algorithm::Tree && size >= 0 && size < kSizesOfTree)
    bw *= static_cast<double>(kTreeBySize[indexOf(protocol)][size]);
  const auto nParts =
      static_cast<uint64_t>(input_.nChannels) * static_cast<uint64_t>(input_.nRanks);
  const bool isPlateau = algorithm == Algorithm::Ring && protocol == Protocol::Simple &&
                         input_.nNodes > 1 && collective == Collective::AllReduce &&
                         bytes / nParts >= 64;
  if (isPlateau) latencyUs *= input_.minSm < 80 ? 1.9 : 1.4;
  return latencyUs + static_cast<double>(bytes) / (1000 * bw);
}

Result<TuningCost> neuronCost(const NeuronTuningInput& input, TuningCollective collective,
                              NeuronTuningAlgorithm algorithm) {
  if (input.platform == nullptr || input.ring == nullptr || input.ring->nChannels < 1)
    return fail(ncclInvalidArgument, "a cost needs a platform and a ring with channels");
  if (input.nNodes < 1 || input.nRanks < input.nNodes) {
    return fail(ncclInvalidArgument, "%d ranks on %d hosts", input.nRanks, input.nNodes);
  }
  const int lnc = TRY(checkLnc(*input.platform, input.lnc));
  if (input.nRanks == 1) return TuningCost{};
  const NeuronPlatform& platform = *input.platform;
  constexpr float kStepUs = 1.5F;  // the middle of the published 1 to 2
  const bool isPaired = algorithm == NeuronTuningAlgorithm::Kangaring;
  const int nSteps = ringSteps(collective, input.nRanks);
  const int nPasses = collective == Collective::AllReduce ? 2 : 1;
  const int nBetween = input.nNodes == 1 ? 0 : nPasses * (input.nNodes - 1);
  const int nInHost = (nSteps - nBetween + (isPaired ? 1 : 0)) / (isPaired ? 2 : 1);
  TuningCost cost;
  cost.latencyUs =
      static_cast<float>(nInHost) * kStepUs + static_cast<float>(nBetween) * platform.netLatencyUs;

  const auto nChannels = static_cast<float>(input.ring->nChannels);
  float bus = nChannels * input.ring->bwIntra;
  if (input.nNodes > 1 && input.ring->bwInter > 0)
    bus = std::min(bus, nChannels * input.ring->bwInter);
  const bool isReduction =
      collective != Collective::Broadcast && collective != Collective::AllGather;
  const float touches = isReduction ? (isPaired ? 2.0F : 3.0F) : (isPaired ? 1.5F : 2.0F);
  const float memory = platform.hbmGBps / static_cast<float>(platform.logicalPerDevice(lnc));
  bus = std::min(bus, memory / touches);
  cost.bwGBps = bus * static_cast<float>(input.nRanks) / static_cast<float>(nSteps);
  return cost;
}

}  // namespace nccom
