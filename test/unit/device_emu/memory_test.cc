#include "plugins/device_emu/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "plugins/device_emu/ranges.h"
#include "test/unit/device_emu/forked.h"

namespace nccom::emu {
namespace {

using testing::HasSubstr;

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;

// ---- Ranges against a model
// -------------------------------------------------------------------------

// The taken ranges alone; everything else is derived, the slow and plain way.
class Model {
 public:
  explicit Model(Range space) : space_(space) {}

  std::vector<Range> holes() const {
    std::vector<Range> holes;
    uint64_t at = space_.offset;
    for (const auto& [offset, bytes] : taken) {
      if (offset > at) holes.push_back({at, offset - at});
      at = offset + bytes;
    }
    const uint64_t end = space_.offset + space_.bytes;
    if (end > at) holes.push_back({at, end - at});
    return holes;
  }
  bool canTake(uint64_t bytes, uint64_t alignment) const {
    const std::vector<Range> all = holes();
    return std::any_of(all.begin(), all.end(), [&](Range hole) {
      const uint64_t start = (hole.offset + alignment - 1) / alignment * alignment;
      return start + bytes <= hole.offset + hole.bytes;
    });
  }
  bool isFree(Range range) const {
    const std::vector<Range> all = holes();
    return std::any_of(all.begin(), all.end(), [&](Range hole) {
      return range.offset >= hole.offset && range.offset + range.bytes <= hole.offset + hole.bytes;
    });
  }
  std::map<uint64_t, uint64_t> taken;

 private:
  Range space_;
};

void expectSame(const Ranges& ranges, const Model& model) {
  uint64_t freeBytes = 0;
  uint64_t largest = 0;
  for (const Range hole : model.holes()) {
    freeBytes += hole.bytes;
    largest = std::max(largest, hole.bytes);
  }
  ASSERT_EQ(ranges.freeBytes(), freeBytes);
  ASSERT_EQ(ranges.largestFree(), largest);
  ASSERT_EQ(ranges.freeCount(), model.holes().size()) << "neighbours are not joined";
  ASSERT_EQ(ranges.takenCount(), model.taken.size());
}

void playRandomly(uint32_t seed, Range space, int steps) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  Ranges ranges(space);
  Model model(space);
  const auto below = [&random](uint64_t n) {
    return std::uniform_int_distribution<uint64_t>(0, n - 1)(random);
  };
  for (int i = 0; i < steps; i++) {
    if (model.taken.empty() || below(5) < 3) {
      const uint64_t bytes = 1 + below(uint64_t{1} << below(12));
      const uint64_t alignment = uint64_t{1} << below(9);
      const auto offset = ranges.take(bytes, alignment);
      ASSERT_EQ(offset.has_value(), model.canTake(bytes, alignment))
          << bytes << " at " << alignment;
      if (!offset) continue;
      ASSERT_EQ(*offset % alignment, 0u);
      ASSERT_TRUE(model.isFree({*offset, bytes}));
      model.taken[*offset] = bytes;
      ASSERT_EQ(ranges.find(*offset + below(bytes)), (Range{*offset, bytes}));
    } else {
      const auto it =
          std::next(model.taken.begin(), static_cast<ptrdiff_t>(below(model.taken.size())));
      const Range range = {it->first, it->second};
      ASSERT_EQ(ranges.release(range.offset), range);
      ASSERT_EQ(ranges.release(range.offset), std::nullopt) << "released twice";
      ASSERT_EQ(ranges.find(range.offset), std::nullopt);
      ranges.reuse(range);
      model.taken.erase(it);
    }
    ASSERT_NO_FATAL_FAILURE(expectSame(ranges, model));
  }
  for (const auto& [offset, bytes] : model.taken)
    ranges.reuse(*ranges.release(offset));
  ASSERT_EQ(ranges.freeCount(), 1u);
  ASSERT_EQ(ranges.largestFree(), space.bytes);
  ASSERT_EQ(ranges.takenBytes(), 0u);
}

TEST(Ranges, AgreesWithAPlainModel) {
  for (uint32_t seed = 0; seed < 40; seed++) {
    ASSERT_NO_FATAL_FAILURE(
        playRandomly(seed, {uint64_t{seed} * 37, 4000 + uint64_t{1000} * seed}, 400));
  }
}

TEST(Ranges, PrefersTheTightestFit) {
  Ranges ranges({0, 1000});
  const auto a = ranges.take(100, 1);
  const auto gap = ranges.take(10, 1);
  const auto b = ranges.take(50, 1);
  ASSERT_TRUE(a && gap && b && ranges.take(840, 1));
  ranges.reuse(*ranges.release(*a));
  ranges.reuse(*ranges.release(*b));
  EXPECT_EQ(ranges.take(40, 1), *b);
}

// ---- Hbm
// -----------------------------------------------------------------------------------------------

std::unique_ptr<Hbm> openHbm(const HbmOptions& options = {}) {
  auto hbm = Hbm::open(options);
  if (hbm.ok()) return std::move(hbm).value();
  ADD_FAILURE() << hbm.error().message;
  return nullptr;
}

std::string messageOf(const Status& status) {
  return status.ok() ? "" : status.error().message;
}

TEST(Hbm, OpensItsDefaultSizeWithoutTakingMemory) {
  const auto hbm = openHbm();
  ASSERT_TRUE(hbm);
  EXPECT_EQ(hbm->bytes(), kDefaultHbmBytes);
  EXPECT_EQ(hbm->notice(), "");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(hbm->base()) % (2 * kMiB), 0u);
  EXPECT_LT(hbm->usage().residentBytes, kMiB);
  // The far end is as good as the near one.
  std::byte* const last = hbm->base() + hbm->bytes() - 1;
  *last = std::byte{1};
  EXPECT_TRUE(hbm->contains(last, 1));
  EXPECT_FALSE(hbm->contains(last, 2));
  EXPECT_FALSE(hbm->contains(last, SIZE_MAX));
  EXPECT_FALSE(hbm->contains(hbm->base() - 1, 1));
  EXPECT_FALSE(hbm->contains(&hbm, 1));
}

TEST(Hbm, HasNoNameInAnyFileSystem) {
  const auto hbm = openHbm({.bytes = kMinHbmBytes});
  ASSERT_TRUE(hbm);
  std::array<char, 256> target{};
  const std::string link = "/proc/self/fd/" + std::to_string(hbm->fd());
  ASSERT_GT(readlink(link.c_str(), target.data(), target.size() - 1), 0);
  EXPECT_THAT(target.data(), testing::StartsWith("/memfd:"));
  EXPECT_NE(ftruncate(hbm->fd(), 4096), 0) << "a holder of the descriptor may shrink it under us";
}

TEST(Hbm, AlignsBlocksToTheirSize) {
  const auto hbm = openHbm();
  ASSERT_TRUE(hbm);
  for (const auto& [bytes, alignment] : std::map<size_t, uint64_t>{{0, 256},
                                                                   {1, 256},
                                                                   {257, 256},
                                                                   {4095, 256},
                                                                   {4096, 4096},
                                                                   {kMiB, 4096},
                                                                   {2 * kMiB, 2 * kMiB},
                                                                   {7 * kMiB + 3, 2 * kMiB}}) {
    for (int i = 0; i < 3; i++) {
      const auto block = hbm->alloc(bytes);
      ASSERT_TRUE(block.ok()) << block.error().message;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block.value()) % alignment, 0u) << bytes;
      EXPECT_GE(hbm->offsetOf(block.value()), kHbmHeaderBytes);
      EXPECT_EQ(hbm->at(hbm->offsetOf(block.value())), block.value());
      EXPECT_TRUE(hbm->contains(block.value(), std::max<size_t>(bytes, 1)));
    }
  }
}

TEST(Hbm, KeepsBlocksApart) {
  const auto hbm = openHbm({.bytes = 256 * kMiB});
  ASSERT_TRUE(hbm);
  std::mt19937 random(7);
  std::map<uint8_t*, std::pair<size_t, uint8_t>> blocks;
  const auto intact = [](const auto& block) {
    const auto [bytes, fill] = block.second;
    return std::all_of(block.first, block.first + bytes,
                       [fill = fill](uint8_t b) { return b == fill; });
  };
  for (int i = 0; i < 600; i++) {
    if (blocks.size() < 20 || random() % 2 == 0) {
      const size_t bytes = random() % (uint32_t{1} << (random() % 21));
      const auto got = hbm->alloc(bytes);
      ASSERT_TRUE(got.ok()) << got.error().message;
      const auto fill = static_cast<uint8_t>(random());
      memset(got.value(), fill, bytes);
      ASSERT_TRUE(
          blocks.emplace(static_cast<uint8_t*>(got.value()), std::pair(bytes, fill)).second);
    } else {
      const auto it = std::next(blocks.begin(), static_cast<ptrdiff_t>(random() % blocks.size()));
      ASSERT_TRUE(intact(*it));
      ASSERT_TRUE(hbm->free(it->first).ok());
      blocks.erase(it);
    }
  }
  for (const auto& block : blocks) {
    ASSERT_TRUE(intact(block));
    ASSERT_TRUE(hbm->free(block.first).ok());
  }
  EXPECT_EQ(hbm->usage().blocks, 0u);
  EXPECT_EQ(hbm->usage().allocatedBytes, 0u);
  EXPECT_EQ(hbm->usage().largestFreeBytes, hbm->bytes() - kHbmHeaderBytes);
}

TEST(Hbm, NamesWhatIsWrongWithAFree) {
  const auto hbm = openHbm({.bytes = kMinHbmBytes});
  ASSERT_TRUE(hbm);
  auto* const block = static_cast<std::byte*>(hbm->alloc(1000).value());
  std::vector<int> foreign(1);
  EXPECT_THAT(messageOf(hbm->free(foreign.data())), HasSubstr("not in"));
  EXPECT_THAT(messageOf(hbm->free(block + 8)), HasSubstr("within the block of 1024 bytes"));
  EXPECT_THAT(messageOf(hbm->free(hbm->base())), HasSubstr("not allocated"));
  EXPECT_TRUE(hbm->free(nullptr).ok());
  EXPECT_TRUE(hbm->free(block).ok());
  const Status again = hbm->free(block);
  EXPECT_THAT(messageOf(again), HasSubstr("freed before"));
  EXPECT_EQ(again.error().code, ncclInvalidArgument);
}

TEST(Hbm, SaysHowMuchIsWantedAndLeft) {
  const auto hbm = openHbm({.bytes = 64 * kMiB});
  ASSERT_TRUE(hbm);
  ASSERT_TRUE(hbm->alloc(40 * kMiB).ok());
  const auto refused = hbm->alloc(30 * kMiB);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr(std::to_string(30 * kMiB)));
  EXPECT_THAT(refused.error().message, HasSubstr(std::to_string(24 * kMiB - kHbmHeaderBytes)));
  EXPECT_FALSE(hbm->alloc(SIZE_MAX).ok());
  EXPECT_FALSE(hbm->alloc(SIZE_MAX - 255).ok());
  EXPECT_TRUE(hbm->alloc(20 * kMiB).ok());
}

TEST(Hbm, RefusesWhatTheMachineCannotBack) {
  uint64_t left = 100 * kMiB;
  const auto hbm = openHbm({.memoryLeft = [&left] { return left; }});
  ASSERT_TRUE(hbm);
  ASSERT_FALSE(hbm->alloc(101 * kMiB).ok());
  const auto first = hbm->alloc(60 * kMiB);
  ASSERT_TRUE(first.ok());
  // Nothing of the first block is touched yet: its memory is promised.
  const auto second = hbm->alloc(60 * kMiB);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message, HasSubstr(std::to_string(left)));
  EXPECT_THAT(second.error().message, HasSubstr(std::to_string(60 * kMiB)));
  EXPECT_EQ(hbm->usage().blocks, 1u) << "a refused block must not stay";
  // Once touched it is no longer missing from what is left.
  memset(first.value(), 1, 60 * kMiB);
  EXPECT_TRUE(hbm->alloc(60 * kMiB).ok());
}

TEST(Hbm, CountsManySmallBlocksToo) {
  const auto hbm = openHbm({.memoryLeft = [] { return 20 * kMiB; }});
  ASSERT_TRUE(hbm);
  uint64_t got = 0;
  while (got < kDefaultHbmBytes && hbm->alloc(64 * kKiB).ok())
    got += 64 * kKiB;
  EXPECT_LE(got, 20 * kMiB + 16 * kMiB);
}

TEST(Hbm, GivesThePagesOfLargeBlocksBack) {
  const auto hbm = openHbm();
  ASSERT_TRUE(hbm);
  const auto block = hbm->alloc(32 * kMiB);
  ASSERT_TRUE(block.ok());
  memset(block.value(), 1, 32 * kMiB);
  EXPECT_GE(hbm->usage().residentBytes, 32 * kMiB);
  ASSERT_TRUE(hbm->free(block.value()).ok());
  EXPECT_LT(hbm->usage().residentBytes, 2 * kMiB);
}

TEST(Hbm, BacksBlocksBeforehandWhenToldTo) {
  const auto hbm = openHbm({.preallocate = 1});
  ASSERT_TRUE(hbm);
  ASSERT_TRUE(hbm->alloc(8 * kMiB).ok());
  EXPECT_GE(hbm->usage().residentBytes, 8 * kMiB);
}

TEST(Hbm, RefusesSizesThatMakeNoSense) {
  EXPECT_FALSE(Hbm::open({.bytes = 0}).ok());
  EXPECT_FALSE(Hbm::open({.bytes = kMinHbmBytes - 1}).ok());
  EXPECT_FALSE(Hbm::open({.bytes = UINT64_MAX}).ok());
  EXPECT_EQ(openHbm({.bytes = kMinHbmBytes + 1})->bytes(), kMinHbmBytes + 2 * kMiB);
}

TEST(Hbm, TakesLessUnderALimitAndSaysSo) {
  Child child([] {
    const rlimit limit = {300 * kMiB, 300 * kMiB};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
    const auto hbm = Hbm::open({.bytes = kDefaultHbmBytes});
    return hbm.ok() && hbm.value()->bytes() == 256 * kMiB &&
           hbm.value()->notice().find(std::to_string(256 * kMiB)) != std::string::npos &&
           hbm.value()->notice().find("ulimit -f") != std::string::npos &&
           hbm.value()->alloc(100 * kMiB).ok();
  });
  EXPECT_TRUE(child.succeeded());
}

TEST(Hbm, FailsUnderALimitThatLeavesNothing) {
  Child child([] {
    const rlimit limit = {kMiB, kMiB};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
    const auto hbm = Hbm::open({.bytes = kDefaultHbmBytes});
    return !hbm.ok() && hbm.error().message.find("smallest") != std::string::npos;
  });
  EXPECT_TRUE(child.succeeded());
}

TEST(Hbm, IsNotForAForkedChild) {
  const auto hbm = openHbm({.bytes = kMinHbmBytes});
  ASSERT_TRUE(hbm);
  void* const block = hbm->alloc(4096).value();
  Child child([&] {
    const auto got = hbm->alloc(256);
    const Status freed = hbm->free(block);
    return !got.ok() && got.error().code == ncclInvalidUsage && !freed.ok() &&
           freed.error().message.find("forked") != std::string::npos;
  });
  EXPECT_TRUE(child.succeeded());
  EXPECT_TRUE(hbm->free(block).ok());
}

// Allocates, marks and frees blocks. The number of things that went wrong.
int allocateAndFree(Hbm& hbm, uint8_t mark) {
  std::mt19937 random(mark);
  std::vector<std::pair<uint8_t*, size_t>> mine;
  int wrong = 0;
  const auto end = [&](const auto& block) {
    const auto [address, bytes] = block;
    const bool intact = address[0] == mark && address[bytes - 1] == mark;
    wrong += intact && hbm.free(address).ok() ? 0 : 1;
  };
  for (int i = 0; i < 300; i++) {
    const size_t bytes = 1 + random() % (i % 50 == 0 ? 3 * kMiB : 8 * kKiB);
    const auto got = hbm.alloc(bytes);
    if (!got.ok()) return wrong + 1;
    mine.emplace_back(static_cast<uint8_t*>(got.value()), bytes);
    mine.back().first[0] = mark;
    mine.back().first[bytes - 1] = mark;
    if (random() % 2 == 0) continue;
    end(mine.front());
    mine.erase(mine.begin());
  }
  for (const auto& block : mine)
    end(block);
  return wrong;
}

TEST(Hbm, ServesThreadsAtOnce) {
  const auto hbm = openHbm();
  ASSERT_TRUE(hbm);
  std::array<int, 4> wrong{};
  std::vector<std::thread> threads;
  threads.reserve(wrong.size());
  for (size_t t = 0; t < wrong.size(); t++) {
    threads.emplace_back([&, t] { wrong[t] = allocateAndFree(*hbm, static_cast<uint8_t>(t + 1)); });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(wrong, (std::array<int, 4>{}));
  EXPECT_EQ(hbm->usage().blocks, 0u);
}

}  // namespace
}  // namespace nccom::emu
