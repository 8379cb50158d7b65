// What a thread has looked up and need not look up again until something of its kind is gone.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace nccom::emu {

/// A number of its own in this process for each state of a table: a new one whenever an entry is
/// taken out. Tables that are at the same address one after the other have different ones.
class Epoch {
 public:
  uint64_t now() const { return number_.load(std::memory_order_acquire); }
  /// To be called when an entry is gone, before its memory or number may be used again.
  void next() { number_.store(unique(), std::memory_order_release); }

 private:
  static uint64_t unique() {
    static std::atomic<uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;  // relaxed: only has to differ
  }
  std::atomic<uint64_t> number_{unique()};
};

/// The last few entries that a thread has found. To be kept thread_local.
template <class Entry>
class Remembered {
 public:
  template <class Is>
  std::optional<Entry> find(const Epoch& epoch, const Is& is) const {
    const uint64_t now = epoch.now();
    for (const Slot& slot : slots_) {
      if (slot.epoch == now && is(slot.entry)) return slot.entry;
    }
    return std::nullopt;
  }
  /// @param epoch  read before the entry was found
  void keep(uint64_t epoch, const Entry& entry) {
    slots_[next_] = {epoch, entry};
    next_ = (next_ + 1) % kSlots;
  }

 private:
  static constexpr size_t kSlots = 4;
  struct Slot {
    uint64_t epoch = 0;  // 0: empty
    Entry entry{};
  };
  std::array<Slot, kSlots> slots_;
  size_t next_ = 0;
};

}  // namespace nccom::emu
