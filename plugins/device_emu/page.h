// What a rank shows to the other ranks of its host: one page in the HBM of its process.
//
// An ABI between processes: fixed width, no pointers, a writer each field, a cache line for what is
// written often. `Place` tells where a buffer is in a way that means something in every process.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "include/plugin/nccom_device.h"
#include "plugins/device_emu/eventcount.h"

namespace nccom::emu {

inline constexpr uint64_t kPageMagic = 0x314547415055454eULL;  // "NEUPAGE1"
inline constexpr uint32_t kPageVersion = 5;
inline constexpr uint32_t kSlots = 32;  // how many collectives a rank may run ahead of another
inline constexpr uint32_t kMailEntries = NCCOM_POSTED, kMailValues = NCCOM_POSTED_VALUES;
inline constexpr size_t kNameBytes = 128;  // of an operation's name, with its NUL
inline constexpr size_t kErrorBytes = 2048;

/// A text of `kBytes` that one thread writes while others read it: a seqlock over atomic words.
template <size_t kBytes>
class SharedText {
 public:
  void store(std::string_view text) {
    char bytes[kBytes] = {};
    memcpy(bytes, text.data(), text.size() < kBytes - 1 ? text.size() : kBytes - 1);
    if (holds(bytes)) return;
    const uint32_t version = version_.load(std::memory_order_relaxed);
    // T1 seq_cst: odd before the words change, T2 release: even after; pair with T3 and T4
    version_.store(version + 1, std::memory_order_seq_cst);
    for (size_t i = 0; i < kWords; i++) {
      uint64_t word = 0;
      memcpy(&word, bytes + i * 8, 8);
      words_[i].store(word, std::memory_order_release);
    }
    version_.store(version + 2, std::memory_order_release);
  }

  /// The text, or "" if the writer is at it all the time.
  std::string load() const {
    for (int attempt = 0; attempt < 64; attempt++) {
      const uint32_t before = version_.load(std::memory_order_acquire);  // T3 pairs with T2
      char bytes[kBytes];
      for (size_t i = 0; i < kWords; i++) {
        // acquire: T4 cannot move before it; pairs with the words' release after T1
        const uint64_t word = words_[i].load(std::memory_order_acquire);
        memcpy(bytes + i * 8, &word, 8);
      }
      const uint32_t after = version_.load(std::memory_order_relaxed);  // T4
      if (before == after && before % 2 == 0) return std::string(bytes, strnlen(bytes, kBytes));
    }
    return "";
  }

 private:
  static constexpr size_t kWords = kBytes / 8;
  static_assert(kBytes % 8 == 0);

  /// relaxed: what the writer itself has stored
  bool holds(const char* bytes) const {
    for (size_t i = 0; i < kWords; i++) {
      uint64_t word = 0;
      memcpy(&word, bytes + i * 8, 8);
      if (words_[i].load(std::memory_order_relaxed) != word) return false;
    }
    return true;
  }

  std::atomic<uint32_t> version_;
  std::atomic<uint64_t> words_[kWords];
};

/// The last of the names that one thread at a time shows. Those before it are kept, so that names
/// that take turns need not be written again.
class SharedName {
 public:
  /// @param content  from 1; equal numbers have equal names
  void show(uint64_t content, std::string_view name) {
    const uint32_t place = content % kKept;
    if (contents_[place] != content) names_[place].store(name);
    contents_[place] = content;
    // release: the name; pairs with load()
    if (shown_.load(std::memory_order_relaxed) != place) {
      shown_.store(place, std::memory_order_release);
    }
  }
  std::string load() const { return names_[shown_.load(std::memory_order_acquire)].load(); }

 private:
  static constexpr uint32_t kKept = 4;
  std::atomic<uint32_t> shown_;
  uint64_t contents_[kKept];  // the writers' own
  SharedText<kNameBytes> names_[kKept];
};

/// Where a buffer is. `hbmOffset` kForeign: outside device memory; only `address`, in the owner's
/// process, tells. kValue: in OpSlot::value, or in Mailbox::values; kShortValue: in OpSlot::output,
/// or in MailEntry::value.
struct Place {
  static constexpr uint64_t kForeign = ~uint64_t{0}, kValue = kForeign - 1,
                            kShortValue = kForeign - 2;
  uint64_t address;
  uint64_t bytes;
  uint64_t hbmOffset;
};

/// A collective, as its rank has called it. Written before the operation runs; stable until every
/// rank of the host has started a later one.
///
/// Its first line has all that the others need: lines that they read move between cores. `check`
/// stands for the signature; that, and the name, are looked at when it differs.
struct alignas(64) OpSlot {
  std::atomic<uint64_t> sequence;  // number of the collective; 0: none yet
  uint64_t check;                  // checkOf(signature)
  Place input;
  Place output;  // or a short value: who gives one has no output that others write
  alignas(64) nccomSignature_v1 signature;
  uint64_t opCount;
  char name[kNameBytes];
  alignas(64) std::byte value[NCCOM_VALUE_BYTES];  // of the input, if the program gives it so

  /// The value that the input's place stands for; null: it is no value.
  std::byte* given() {
    if (input.hbmOffset == Place::kValue) return value;
    if (input.hbmOffset == Place::kShortValue) return reinterpret_cast<std::byte*>(&output);
    return nullptr;
  }
};

/// All that a signature says.
inline std::array<uint64_t, 4> wordsOf(const nccomSignature_v1& s) {
  return {uint64_t{s.kind} << 32 | s.dataType, uint64_t{s.redOp} << 32 | s.root,
          uint64_t{s.algorithm}, uint64_t{s.count}};
}

/// Equal for equal signatures; of others it is taken to differ: 64 bits, each of which hangs on all
/// fields.
inline uint64_t checkOf(const nccomSignature_v1& s) {
  uint64_t hash = 0;
  for (const uint64_t word : wordsOf(s)) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;  // 2^64 / golden ratio: spreads small numbers
    hash ^= hash >> 32;
  }
  return hash;
}

/// A message; all of a short one is in its line.
struct alignas(64) MailEntry {
  std::atomic<uint64_t> posted;  // number of the message, from 1, that the entry holds
  uint64_t index;                // the message's number in its launch
  Place buffer;                  // kShortValue: `value`
  std::byte value[24];
};

/// What one rank has posted to another; lives at the receiver. See mail.h.
struct Mailbox {
  MailEntry entries[kMailEntries];
  std::byte values[kMailValues][NCCOM_VALUE_BYTES];
  // The receiver's line: number of the last message that it has done with.
  alignas(64) std::atomic<uint64_t> taken;
  std::atomic<uint32_t> sender;  // 1: the sender waits for that to grow
  // 1: threads of the receiver sleep until a message comes. Who spins sets nothing, and costs us
  // nothing.
  alignas(64) std::atomic<uint32_t> receiver;
};

enum class RankState : uint32_t { kAlive = 1, kLeft = 2 };

/// What a queue can wait for.
enum class WaitKind : uint32_t {
  kNone,
  kSemaphore,
  kCollective,  // another rank to start this collective
  kMailFull,    // another rank to take earlier messages
  kMailboxes,   // another rank to connect
  kMessage,     // another rank to post a message
};

/// What a queue waits for, for the reports of others; refreshed by whoever polls.
struct alignas(64) QueueBoard {
  std::atomic<uint32_t> kind;  // WaitKind
  std::atomic<uint32_t> semaphore;
  std::atomic<uint64_t> found, awaited;
  std::atomic<int32_t> rank;  // who should do something about it; -1: the network
  SharedText<32> step;
};

struct Board {
  // numbers of operations (nccomLaunch_v1::opCount); relaxed: for reports only
  alignas(64) std::atomic<uint64_t> launched;
  std::atomic<uint64_t> started, ended;
  std::atomic<uint64_t> collective;  // number of the last collective launched
  SharedName launchedName, startedName;
  QueueBoard queues[NCCOM_MAX_QUEUES];
};

/// The first cause of a communicator's failure at this rank. Whoever moves `state` from 0 to 1
/// writes the rest and then sets 2.
struct SharedError {
  alignas(64) std::atomic<uint32_t> state;
  int32_t code;  // ncclResult_t
  char text[kErrorBytes];
};

/// A semaphore, and what the queue that is stopped at it waits for; 0: none is. Whoever raises it
/// and sees that value reached wakes the owner; else nobody needs to hear of it.
struct alignas(64) SemaphoreCell {
  std::atomic<uint64_t> value;
  std::atomic<uint64_t> awaited;

  /// @return whether the owner's queue may go on
  // S seq_cst: releases what was written before, pairs with the acquire of the wait; and ordered
  // before the look at `awaited`, whose writer looks at `value` afterwards
  bool raise(uint64_t by) {
    const uint64_t raised = value.fetch_add(by, std::memory_order_seq_cst) + by;
    const uint64_t wanted = awaited.load(std::memory_order_seq_cst);
    return wanted != 0 && raised >= wanted;
  }
};

struct alignas(64) LockCell {
  std::atomic<uint32_t> held;
};

/// Whether a rank of the host uses this page, and how it reaches memory outside the HBM.
enum class Attachment : uint8_t {
  kNone = 0,
  kSameProcess = 1,
  kCma = 2,    // reads and writes our memory by cross-memory attach
  kNoCma = 3,  // needs everything in the HBM
  kLeft = 4,
};

/// Followed by [nRanks] attachments and, aligned, [nSemaphores] semaphores: see PageLayout.
struct Page {
  // P1 release: set last; 0 when the page is given back. Pairs with the acquire of whoever attaches
  std::atomic<uint64_t> magic;
  uint32_t version;
  int32_t pid;  // in its own pid namespace
  int32_t rank, nRanks;
  uint64_t nonce;  // random; the handle has it too
  uint32_t nSemaphores, reserved;
  uint64_t scratchOffset, scratchBytes;  // in the HBM
  uint64_t doorbellOffset;
  // Mailboxes by local rank, in the HBM; 0 until connected. M1 release, pairs with posts' acquire
  std::atomic<uint64_t> mailboxes;

  alignas(64) std::atomic<uint32_t> state;  // RankState
  std::atomic<uint64_t> attached;           // ranks of this host that have connected to us
  // Number of the last collective that has started here: later ones of the peers reuse slots by it.
  alignas(64) std::atomic<uint64_t> collective;
  // Bit (local rank mod 64): the threads of that rank sleep until we start a collective. Who spins
  // sets none, and costs us nothing.
  alignas(64) std::atomic<uint64_t> startWaiters;
  SharedError error;
  Board board;
  OpSlot slots[kSlots];
  // A queue's lock: held while a thread executes it, that is, may touch any rank's memory.
  LockCell locks[NCCOM_MAX_QUEUES];
};

static_assert(std::is_standard_layout_v<Page>);
static_assert(std::atomic<uint64_t>::is_always_lock_free && sizeof(std::atomic<uint64_t>) == 8);
static_assert(sizeof(OpSlot) == 256 + NCCOM_VALUE_BYTES && offsetof(OpSlot, signature) == 64 &&
              sizeof(MailEntry) == 64 && sizeof(SemaphoreCell) == 64);

/// Sizes and places in a page's block.
struct PageLayout {
  uint64_t attachments, semaphores, bytes;

  static constexpr PageLayout of(uint64_t nRanks, uint64_t nSemaphores) {
    const uint64_t semaphores = (sizeof(Page) + nRanks + 63) / 64 * 64;
    return {sizeof(Page), semaphores, semaphores + nSemaphores * sizeof(SemaphoreCell)};
  }
};

inline std::atomic<Attachment>* attachmentsOf(Page* page) {
  return reinterpret_cast<std::atomic<Attachment>*>(reinterpret_cast<std::byte*>(page) +
                                                    sizeof(Page));
}
static_assert(sizeof(std::atomic<Attachment>) == 1);

inline SemaphoreCell* semaphoresOf(Page* page) {
  const PageLayout layout = PageLayout::of(static_cast<uint64_t>(page->nRanks), 0);
  return reinterpret_cast<SemaphoreCell*>(reinterpret_cast<std::byte*>(page) + layout.semaphores);
}

/// Where the threads of a process sleep; in its HBM.
///
/// Helpers (threads that synchronise) go before workers: while there is one, workers are not woken.
struct Doorbell {
  EventCount helperBell, workerBell;
  alignas(64) std::atomic<uint32_t> helpers;

  /// To be called after a change that may let a queue of this process run. The change is a
  /// sequentially consistent read-modify-write or store.
  ///
  /// Nobody is missed: a helper that arrives raises `helpers` (seq_cst) and then looks at all
  /// queues, so if D1 reads 0 it sees the change; one that leaves lowers it and then rings the
  /// workers if anything is left to do.
  void ring() {
    // D1 seq_cst, pairs with the engine's join and leave
    (helpers.load(std::memory_order_seq_cst) > 0 ? helperBell : workerBell).notify();
  }
};

}  // namespace nccom::emu
