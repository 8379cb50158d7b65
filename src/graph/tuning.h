// What a collective over found channels should cost: latency and bandwidth of each algorithm and
// protocol, as values for tools. Nothing in the library chooses by them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "graph/platform.h"
#include "graph/search.h"
#include "graph/topo.h"

namespace nccom {

enum class TuningCollective : uint8_t { Broadcast, Reduce, AllGather, ReduceScatter, AllReduce };
constexpr int kTuningCollectives = 5;
const char* toText(TuningCollective collective);

// ---- NCCL's model ------------------------------------------------------------------------------

/// Pat: logarithmic, for one rank a host.
enum class NcclAlgorithm : uint8_t { Tree, Ring, Pat };
constexpr int kNcclAlgorithms = 3;
enum class NcclProtocol : uint8_t { Ll, Ll128, Simple };
constexpr int kNcclProtocols = 3;
const char* toText(NcclAlgorithm algorithm);
const char* toText(NcclProtocol protocol);

struct TuningInput {
  const ncclTopoGraph* ring = nullptr;  // merged over the hosts: the weakest values of all
  const ncclTopoGraph* tree = nullptr;
  int nRanks = 0;
  int nNodes = 0;
  int nChannels = 0;  // of the communicator, after joining the hosts
  int minSm = 0, maxSm = 0;
  CpuArch cpuArch = CpuArch::Unknown;
  CpuVendor cpuVendor = CpuVendor::Unknown;
  bool mixedCpuVendors = false;
  bool operator==(const TuningInput&) const = default;
};

/// Cost of one operation: latencyUs + bytes / (1000 bwGBps) microseconds.
struct TuningCost {
  float latencyUs = 0;
  float bwGBps = 0;  // of the operation's bytes, not of the links; 0: not available
  bool operator==(const TuningCost&) const = default;
};

class NcclTuning {
 public:
  /// @error ncclInvalidArgument  a graph is missing or without channels, or counts do not fit
  /// @source NCCL 2.30's model (ncclTopoTuneModel) and its tables of measured constants
  static Result<NcclTuning> model(const TuningInput& input);

  const TuningCost& cost(TuningCollective collective, NcclAlgorithm algorithm,
                         NcclProtocol protocol) const {
    return costs_[static_cast<int>(collective)][static_cast<int>(algorithm)]
                 [static_cast<int>(protocol)];
  }

  /// Microseconds of one operation, with NCCL's corrections for its size; nullopt: not available.
  /// @param bytes  of the operation: the larger of its send and receive buffers
  std::optional<double> timeUs(TuningCollective collective, NcclAlgorithm algorithm,
                               NcclProtocol protocol, uint64_t bytes) const;

 private:
  explicit NcclTuning(const TuningInput& input) : input_(input) {}

  std::array<std::array<std::array<TuningCost, kNcclProtocols>, kNcclAlgorithms>,
             kTuningCollectives>
      costs_ = {};
  TuningInput input_;
};

// ---- Trainium ----------------------------------------------------------------------------------

/// Kangaring: ranks of a device in pairs, of which one is on the ring.
enum class NeuronTuningAlgorithm : uint8_t { Ring, Kangaring };

struct NeuronTuningInput {
  const NeuronPlatform* platform = nullptr;
  const ncclTopoGraph* ring = nullptr;
  int lnc = 0;  // logical core size, 0: the platform's own
  int nRanks = 0;
  int nNodes = 0;
};

/// Cost of one collective over the ring's channels: so much a step, and the rate of the narrowest
/// of device links, network and memory.
/// @error ncclInvalidArgument  no platform or ring; counts or core size that do not fit
/// @source Neuron documentation: 1 to 2 us a step in a host; per two ranks and chunk a ring
///         touches memory 4 (gather) or 6 (reduce) times, a kangaring 3 or 4 times
Result<TuningCost> neuronCost(const NeuronTuningInput& input, TuningCollective collective,
                              NeuronTuningAlgorithm algorithm);

}  // namespace nccom
