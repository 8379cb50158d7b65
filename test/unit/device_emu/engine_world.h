// Worlds for tests of the engine: ranks of one or several (emulated) processes driven through the
// plugin's C table, and programs built by hand.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "include/plugin/nccom_device.h"

extern "C" const nccomDevice_v1 nccomDevicePlugin_v1;

namespace nccom::emu {

inline const nccomDevice_v1& emu() {
  return nccomDevicePlugin_v1;
}

// Builds a nccomProgram_v1. Descriptors go into the last block of the last queue.
class ProgramBuilder {
 public:
  ProgramBuilder(int rank, int nRanks, ncclDataType_t type = ncclInt32, ncclRedOp_t op = ncclSum);

  ProgramBuilder& queue(uint32_t channel = 0);
  ProgramBuilder& block(uint64_t repeat);
  ProgramBuilder& transfer(std::vector<nccomAddress_v1> sources,
                           std::vector<nccomAddress_v1> destinations, uint64_t bytes,
                           uint64_t scaledSources = 0);
  ProgramBuilder& divided();
  /// Until `semaphore` >= value + stride * iteration; `from` raises it.
  ProgramBuilder& wait(int from, uint32_t semaphore, int64_t value, int64_t stride = 0);
  ProgramBuilder& inc(int rank, uint32_t semaphore, int64_t value = 1);
  ProgramBuilder& post(int rank, int64_t message, uint16_t input, uint64_t bytes,
                       bool byValue = false);
  ProgramBuilder& net(bool send, uint32_t connection);
  ProgramBuilder& total(uint32_t semaphore, uint64_t increments);
  ProgramBuilder& step(const std::string& name);
  ProgramBuilder& peersTouch(bool inputs, bool outputs);
  /// Peers read a copy of the first input.
  ProgramBuilder& givesValue();

  /// The block; lives as long as the builder, until the next call.
  const nccomProgram_v1* build();
  nccomProgram_v1& head() { return head_; }

 private:
  nccomDesc_v1& add(nccomDescType_t type);

  nccomProgram_v1 head_{};
  std::vector<nccomQueue_v1> queues_;
  std::vector<nccomBlock_v1> blocks_;
  std::vector<nccomDesc_v1> descs_;
  std::vector<nccomAddress_v1> addresses_;
  std::vector<nccomSemaphoreTotal_v1> totals_;
  std::vector<std::string> steps_{"Step"};
  std::vector<uint64_t> words_;
};

inline nccomAddress_v1 input(int rank, int64_t offset = 0, int64_t stride = 0, uint16_t index = 0) {
  return {rank, nccomBufferInput, index, offset, stride};
}
inline nccomAddress_v1 output(int rank, int64_t offset = 0, int64_t stride = 0,
                              uint16_t index = 0) {
  return {rank, nccomBufferOutput, index, offset, stride};
}
inline nccomAddress_v1 scratch(int rank, int64_t offset = 0, int64_t stride = 0) {
  return {rank, nccomBufferScratch, 0, offset, stride};
}
inline nccomAddress_v1 posted(int rank, uint16_t message, int64_t offset = 0) {
  return {rank, nccomBufferPosted, message, offset, 0};
}

/// All-reduce of `passes` * nRanks * `chunk` 32-bit elements along the ring 0, 1, ... It uses
/// semaphores 0 and 1 and ringScratch() bytes.
ProgramBuilder ringAllReduce(int rank, int nRanks, uint64_t chunk, uint64_t passes,
                             ncclDataType_t type = ncclInt32);
inline constexpr int kRingSlots = 2;
inline uint64_t ringScratch(uint64_t chunk) {
  return kRingSlots * chunk * 4;
}

struct WorldOptions {
  int nRanks = 1;
  int nProcesses = 1;  // ranks are dealt out in order, as evenly as possible
  int engineThreads = -1;
  int cma = -1;
  uint32_t nSemaphores = 8;
  uint64_t scratchBytes = 1 << 16;
  int64_t timeoutMs = 20'000;
  uint32_t nConnections = 0;
  bool connect = true;
  nccomHostCalls_v1 host{};
};

nccomDeviceConfig_v1 deviceConfig(const WorldOptions& options);
nccomDeviceCommConfig_v1 commConfig(const WorldOptions& options, int rank);

// All ranks of a communicator in this process; "processes" are contexts of the plugin, which take
// each other for processes of their own.
class World {
 public:
  explicit World(const WorldOptions& options);
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World();

  void* context(int rank) const { return contexts_[processOf(rank)]; }
  void* comm(int rank) const { return comms_[rank]; }
  void* stream(int rank) const { return streams_[rank]; }
  int nRanks() const { return options_.nRanks; }

  /// Ends one rank before the others.
  void destroy(int rank);
  void connect();
  void* load(int rank, ProgramBuilder program);
  /// Device memory of a rank's process, freed with the world.
  int32_t* alloc(int rank, size_t elements);

  /// What streamSynchronize returns and says; "" if all is well.
  std::string sync(int rank) const;
  std::string commError(int rank) const;
  std::string report(int rank) const;

 private:
  size_t processOf(int rank) const {
    return static_cast<size_t>(rank) * static_cast<size_t>(options_.nProcesses) /
           static_cast<size_t>(options_.nRanks);
  }

  WorldOptions options_;
  std::vector<void*> contexts_, comms_, streams_;
  std::vector<std::pair<void*, void*>> memory_;  // context, address
};

/// One launch.
struct Call {
  std::vector<nccomBufferBinding_v1> inputs, outputs;
  uint64_t opCount = 1;
  uint64_t collective = 1;
  std::string name = "Test count 1";
  nccomSignature_v1 signature{};
  uint64_t scale = 0;
  int64_t divisor = 1;
};
ncclResult_t launch(void* comm, void* program, const Call& call, void* stream);

template <class T>
nccomBufferBinding_v1 bind(std::vector<T>& buffer) {
  return {buffer.data(), buffer.size() * sizeof(T)};
}
inline nccomBufferBinding_v1 bind(void* address, uint64_t bytes) {
  return {address, bytes};
}

}  // namespace nccom::emu
