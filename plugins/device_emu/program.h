// A program as loaded: checked once, so that nothing in it needs checking when it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "include/plugin/nccom_device.h"
#include "plugins/device_emu/status.h"

namespace nccom::emu {

/// What a program may name of a rank.
struct RankLimits {
  bool reachable = false;  // of this host, and connected
  uint64_t scratchBytes = 0;
  uint32_t nSemaphores = 0;
};

struct ProgramLimits {
  int32_t rank = 0;
  uint32_t nConnections = 0;
  std::vector<RankLimits> ranks;  // [nRanks]
};

/// A message that a program receives: `uses` transfers read the first `bytes` of it.
struct PostedUse {
  int32_t rank;
  uint16_t index;
  uint64_t uses;
  uint64_t bytes;
};

// A copy of the caller's block. Immutable once loaded.
class LoadedProgram {
 public:
  /// @error ncclInvalidArgument  anything in it is out of range; the text says what
  static Result<std::unique_ptr<LoadedProgram>> load(const nccomProgram_v1& block,
                                                     const ProgramLimits& limits);

  const nccomProgram_v1& head() const { return *at<nccomProgram_v1>(0); }
  std::span<const nccomQueue_v1> queues() const {
    return table<nccomQueue_v1>(head().queues, head().nQueues);
  }
  std::span<const nccomBlock_v1> blocks() const {
    return table<nccomBlock_v1>(head().blocks, head().nBlocks);
  }
  std::span<const nccomDesc_v1> descs() const {
    return table<nccomDesc_v1>(head().descs, head().nDescs);
  }
  std::span<const nccomAddress_v1> addresses() const {
    return table<nccomAddress_v1>(head().addresses, head().nAddresses);
  }
  std::span<const nccomSemaphoreTotal_v1> totals() const {
    return table<nccomSemaphoreTotal_v1>(head().totals, head().nTotals);
  }
  std::string stepName(uint16_t step) const;

  /// Bytes that the program touches of the own inputs[i], outputs[i].
  const std::vector<uint64_t>& inputBytes() const { return inputBytes_; }
  const std::vector<uint64_t>& outputBytes() const { return outputBytes_; }
  /// Messages received, by rank and index; every rank's indices are 0, 1, ...
  const std::vector<PostedUse>& posted() const { return posted_; }
  /// The entry of posted() for a message.
  size_t postedAt(int32_t rank, uint16_t index) const;
  /// (rank, messages posted to it), by rank.
  const std::vector<std::pair<int32_t, uint64_t>>& posts() const { return posts_; }
  /// Whether peers read a copy of the first input.
  bool givesValue() const { return head().peerInputs == 2; }
  /// Whether it does nothing but make own OUTPUTs of values that the ranks give: see exchange.h.
  bool exchanges() const { return exchanges_; }
  /// Its descriptors of a type, in the order of its queues, if it does.
  const std::vector<const nccomDesc_v1*>& exchanged(nccomDescType_t type) const {
    return type == nccomDescPost ? exchangePosts_ : exchangeTransfers_;
  }
  /// Whether it does so with a value of every rank.
  bool hearsOfAll() const { return hearsOfAll_; }
  /// Whether elements are interpreted, and buffers have to be aligned to them.
  bool computes() const { return computes_; }
  /// Whether it touches INPUT or OUTPUT of other ranks.
  bool namesPeers() const { return namesPeers_; }
  /// Bytes that all its transfers write: a measure of how long it takes.
  uint64_t volume() const { return volume_; }
  uint64_t elementBytes() const { return elementBytes_; }

  /// What runs in its place where ranks give buffers that others cannot map; null: itself does.
  const LoadedProgram* staged() const { return staged_.get(); }
  /// @error ncclInvalidArgument  it uses buffers of others, too
  Status setStaged(std::unique_ptr<const LoadedProgram> staged);

 private:
  class Checker;
  LoadedProgram() = default;
  void listExchange();

  template <class T>
  const T* at(uint32_t offset) const {
    return reinterpret_cast<const T*>(reinterpret_cast<const std::byte*>(words_.data()) + offset);
  }
  template <class T>
  std::span<const T> table(uint32_t offset, uint32_t n) const {
    return {at<T>(offset), n};
  }

  std::vector<uint64_t> words_;
  std::vector<uint64_t> inputBytes_, outputBytes_;
  std::vector<PostedUse> posted_;
  std::vector<std::pair<int32_t, uint64_t>> posts_;
  std::vector<const nccomDesc_v1*> exchangeTransfers_, exchangePosts_;
  bool exchanges_ = false;
  bool hearsOfAll_ = false;
  bool computes_ = false;
  bool namesPeers_ = false;
  uint64_t volume_ = 0;
  uint64_t elementBytes_ = 1;
  std::unique_ptr<const LoadedProgram> staged_;
};

}  // namespace nccom::emu
