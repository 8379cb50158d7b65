#include "enc/verify_jump.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "enc/buffers.h"

namespace nccom {
namespace {

/// What a descriptor touches of a buffer over all iterations of its block.
struct Sweep {
  int64_t offset = 0, bytes = 0, stride = 0;
  uint64_t repeat = 1;
  bool writes = false;
  int64_t end() const { return offset + stride * static_cast<int64_t>(repeat - 1) + bytes; }
};

using Buffer = std::tuple<int, encBuffer, uint16_t>;

/// Sweeps of all jumping blocks, by buffer. INPUT and OUTPUT are one buffer when they share memory.
class Sweeps {
 public:
  Sweeps(const encVerifyWorld& world, int operation) : world_(world), operation_(operation) {}

  bool collect() {
    for (const encProgram& program : world_.operations[operation_]) {
      for (const encQueue& queue : program.queues) {
        for (const encBlock& block : queue.blocks) {
          if (encJumps(block) && !add(block)) return false;
        }
      }
    }
    return true;
  }

  std::map<Buffer, std::vector<Sweep>>& buffers() { return buffers_; }

 private:
  bool add(const encBlock& block) {
    for (const encDesc& desc : block.descs) {
      if (desc.type == encDescType::Post || desc.net.stride != 0 || countsPasses(desc))
        return false;
      for (const encAddress& a : desc.sources) {
        if (!add(a, desc.bytes, block.repeat, false)) return false;
      }
      for (const encAddress& a : desc.destinations) {
        if (!add(a, desc.bytes, block.repeat, true)) return false;
      }
    }
    return true;
  }

  /// Increments of skipped iterations, made at once, would tear the passes apart.
  bool countsPasses(const encDesc& desc) const {
    if (desc.type != encDescType::Inc) return false;
    const auto& raisers =
        world_.semaphores[*world_.findSemaphore(desc.rank, desc.semaphore)].raisers;
    return std::any_of(raisers.begin(), raisers.end(),
                       [&](const encRaiser& raiser) { return raiser.party != raisers[0].party; });
  }

  bool add(const encAddress& a, uint64_t bytes, uint64_t repeat, bool writes) {
    if (a.buffer == encBuffer::Scratch) return a.stride == 0;
    if (a.buffer == encBuffer::Posted || a.stride <= 0) return false;
    int64_t shift = 0;
    const encTask& task = world_.program(operation_, a.rank).task;
    const bool shares = world_.options.inPlace && encInPlace(task, a.rank, &shift);
    const bool moved = shares && a.buffer == encBuffer::Output;
    if (!shares && a.buffer == encBuffer::Input)
      return !writes;  // only read: nothing to conflict with
    const Buffer buffer{a.rank, shares ? encBuffer::Input : a.buffer, a.index};
    buffers_[buffer].push_back(
        {a.offset + (moved ? shift : 0), static_cast<int64_t>(bytes), a.stride, repeat, writes});
    return true;
  }

  const encVerifyWorld& world_;
  const int operation_;
  std::map<Buffer, std::vector<Sweep>> buffers_;
};

}  // namespace

std::optional<std::vector<encTrustedBytes>> encPlanJumps(const encVerifyWorld& world,
                                                         int operation) {
  Sweeps sweeps(world, operation);
  if (!sweeps.collect()) return std::nullopt;
  std::vector<encTrustedBytes> trusted;
  for (auto& [buffer, list] : sweeps.buffers()) {
    std::sort(list.begin(), list.end(),
              [](const Sweep& a, const Sweep& b) { return a.offset < b.offset; });
    // Sweeps that overlap must go in step, side by side within one stride: then iterations i and j
    // touch the same bytes only if i == j.
    for (size_t i = 0; i < list.size();) {
      const Sweep& first = list[i];
      int64_t end = first.end(), window = first.offset;
      bool writes = false;
      for (; i < list.size() && list[i].offset < end; i++) {
        if (list[i].stride != first.stride || list[i].repeat != first.repeat) return std::nullopt;
        end = std::max(end, list[i].end());
        window = std::max(window, list[i].offset + list[i].bytes);
        writes = writes || list[i].writes;
      }
      if (window - first.offset > first.stride) return std::nullopt;
      if (!writes) continue;
      const auto head = static_cast<int64_t>(kHeadIterations);
      const auto tail = static_cast<int64_t>(first.repeat - kTailIterations);
      trusted.push_back({std::get<0>(buffer), std::get<1>(buffer), std::get<2>(buffer),
                         first.offset + head * first.stride, first.offset + tail * first.stride});
    }
  }
  return trusted;
}

}  // namespace nccom
