// Shapes: every type, operator, number of sources and destinations, count and alignment.
#include <gtest/gtest.h>
#include <string.h>

#include <algorithm>
#include <vector>

#include "plugins/device_emu/kernels.h"
#include "test/unit/device_emu/kernels_reference.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace nccom::emu {
namespace {

using reference::EveryTarget;
using reference::Operands;
using reference::Operation;

constexpr uint8_t kUntouched = 0xa5;
constexpr size_t kMargin = 128;  // bytes on either side of a destination that must stay as they are

using Bytes = std::vector<uint8_t>;

/// The sources of a transfer and the results to expect.
struct Case {
  Operation operation;
  size_t count;
  std::vector<Bytes> sources;
  Bytes expected;
};

Case makeCase(const Operation& operation, size_t nSources, size_t count) {
  const int bits = reference::bitsOf(operation.type);
  const size_t size = static_cast<size_t>(bits) / 8;
  Operands operands(operation.type, nSources * 1000 + static_cast<size_t>(operation.op));
  Case result = {operation, count, std::vector<Bytes>(nSources, Bytes(count * size)),
                 Bytes(count * size)};
  std::vector<uint64_t> values(nSources);
  for (size_t i = 0; i < count; i++) {
    for (size_t k = 0; k < nSources; k++) {
      values[k] = operands.next();
      reference::storeElement(&result.sources[k][i * size], bits, values[k]);
    }
    reference::storeElement(&result.expected[i * size], bits, reference::reduce(operation, values));
  }
  return result;
}

ReduceArgs argsOf(const Operation& operation) {
  return {.type = operation.type,
          .op = operation.op,
          .scaledSources = operation.scaledSources,
          .scale = operation.scale,
          .scaleIsFloat = operation.scaleIsFloat,
          .divisor = operation.divisor};
}

/// Runs the first `count` elements of the case and compares; operand k lies `skew` + 3k elements
/// after a multiple of 64 bytes.
class Runner {
 public:
  Runner(const Case& work, size_t nDestinations)
      : work_(work),
        size_(elementBytes(work.operation.type)),
        room_(work.count * size_ + 2 * kMargin + 64 * size_ + 64),
        sources_(work.sources.size(), Bytes(room_)),
        destinations_(nDestinations, Bytes(room_)) {}

  void run(size_t count, size_t skew, bool streaming) {
    const size_t bytes = count * size_;
    std::vector<const void*> from;
    std::vector<void*> to;
    for (size_t k = 0; k < sources_.size(); k++) {
      uint8_t* const place = placeIn(sources_[k], skew + 3 * k);
      if (bytes > 0) memcpy(place, work_.sources[k].data(), bytes);
      from.push_back(place);
    }
    for (size_t j = 0; j < destinations_.size(); j++) {
      uint8_t* const place = placeIn(destinations_[j], 2 * skew + j);
      memset(place - kMargin, kUntouched, bytes + 2 * kMargin);
      to.push_back(place);
    }
    ReduceArgs args = argsOf(work_.operation);
    args.sources = from.data();
    args.nSources = static_cast<int>(from.size());
    args.destinations = to.data();
    args.nDestinations = static_cast<int>(to.size());
    args.count = count;
    args.streaming = streaming;
    reduceCopy(args);
    for (void* const place : to)
      check(static_cast<uint8_t*>(place), bytes);
  }

 private:
  uint8_t* placeIn(Bytes& buffer, size_t elements) const {
    const size_t toLine = -reinterpret_cast<uintptr_t>(buffer.data()) % 64;
    return buffer.data() + toLine + kMargin + elements % 64 * size_;
  }

  void check(const uint8_t* got, size_t bytes) const {
    if (bytes > 0 && memcmp(got, work_.expected.data(), bytes) != 0) {
      const auto at =
          static_cast<size_t>(std::mismatch(got, got + bytes, work_.expected.begin()).first - got);
      ADD_FAILURE() << "element " << at / size_ << " is wrong, byte " << at << ": got "
                    << int{got[at]} << ", expected " << int{work_.expected[at]};
    }
    const auto untouched = [](uint8_t byte) { return byte == kUntouched; };
    EXPECT_TRUE(std::all_of(got - kMargin, got, untouched)) << "written before the destination";
    EXPECT_TRUE(std::all_of(got + bytes, got + bytes + kMargin, untouched))
        << "written behind the destination";
  }

  const Case& work_;
  size_t size_;
  size_t room_;
  std::vector<Bytes> sources_;
  std::vector<Bytes> destinations_;
};

/// Every operator; sums with some sources scaled; and for integers, divided sums.
std::vector<Operation> operationsOf(ncclDataType_t type) {
  std::vector<Operation> result;
  for (const ncclRedOp_t op : reference::kOps)
    result.push_back({.type = type, .op = op});
  Operands operands(type, 7);
  uint64_t scale = operands.next();
  if (reference::isFloat(type)) scale = reference::encode(reference::formatOf(type), 0.3);
  result.push_back({.type = type, .scaledSources = ~uint64_t{0}, .scale = scale});
  result.push_back({.type = type, .op = ncclProd, .scaledSources = 0x5a, .scale = scale});
  if (!reference::isFloat(type)) {
    result.push_back({.type = type, .divisor = 3});
    result.push_back({.type = type, .divisor = int64_t{1} << 40});
  }
  return result;
}

std::vector<Operation> allOperations() {
  std::vector<Operation> result;
  for (const ncclDataType_t type : reference::kTypes) {
    const std::vector<Operation> some = operationsOf(type);
    result.insert(result.end(), some.begin(), some.end());
  }
  return result;
}

/// Runs the case by the kernels of each instruction set, to 1, 2 and 3 destinations, by
/// `body(runner)`.
template <class Body>
void onEveryTarget(const Case& work, Body body) {
  const EveryTarget targets;
  for (size_t target = 0; target < targets.size(); target++) {
    SCOPED_TRACE(std::string(targets.use(target)) + " " + reference::nameOf(work.operation) +
                 " sources " + std::to_string(work.sources.size()));
    for (size_t nDestinations = 1; nDestinations <= 3; nDestinations++) {
      Runner runner(work, nDestinations);
      body(runner);
    }
  }
}

TEST(KernelsReduce, EveryTypeOperatorShapeAndCountGivesWhatTheDefinitionSays) {
  for (const Operation& operation : allOperations()) {
    for (size_t nSources = 1; nSources <= 9; nSources++) {
      onEveryTarget(makeCase(operation, nSources, 300), [](Runner& runner) {
        for (size_t count = 0; count <= 67; count++)
          runner.run(count, count, false);
        for (const size_t count : {128, 129, 255, 300})
          runner.run(count, count, true);
      });
      if (HasFailure()) return;
    }
  }
}

TEST(KernelsReduce, LargeAndStreamedTransfersAreTheSame) {
  for (const Operation& operation : allOperations()) {
    if (operation.op != ncclSum || operation.scaledSources != 0) continue;
    const size_t count = (80 << 10) / elementBytes(operation.type) + 5;
    for (const size_t nSources : {1, 3}) {
      onEveryTarget(makeCase(operation, nSources, count), [&](Runner& runner) {
        for (const size_t skew : {0, 1}) {
          runner.run(count, skew, false);
          runner.run(count, skew, true);
        }
      });
      if (HasFailure()) return;
    }
  }
}

TEST(KernelsReduce, SixtyFourSourcesAndDestinationsAreOnePass) {
  for (const ncclDataType_t type : {ncclInt8, ncclFloat32, ncclBfloat16, ncclFloat8e5m2}) {
    const Case work = makeCase({.type = type, .op = ncclSum}, kMaxSources, 300);
    Runner(work, kMaxDestinations).run(300, 1, false);
  }
}

/// Element `at` and those after it of the case.
Bytes compute(const Case& work, size_t at, size_t count) {
  const size_t size = elementBytes(work.operation.type);
  Bytes result(count * size);
  void* const destination = result.data();
  std::vector<const void*> sources(work.sources.size());
  std::transform(work.sources.begin(), work.sources.end(), sources.begin(),
                 [&](const Bytes& source) { return source.data() + at * size; });
  ReduceArgs args = argsOf(work.operation);
  args.sources = sources.data();
  args.nSources = static_cast<int>(sources.size());
  args.destinations = &destination;
  args.count = count;
  reduceCopy(args);
  return result;
}

TEST(KernelsReduce, AValueDoesNotDependOnItsPlace) {
  for (const Operation& operation : allOperations()) {
    const Case work = makeCase(operation, 3, 300);
    const Bytes together = compute(work, 0, 300);
    Bytes alone;
    for (size_t i = 0; i < 300; i++) {
      const Bytes one = compute(work, i, 1);
      alone.insert(alone.end(), one.begin(), one.end());
    }
    EXPECT_EQ(alone, together) << reference::nameOf(operation);
  }
}

/// The case to two destinations, one of which is source `shared`.
void runInPlace(const Case& work, size_t shared) {
  std::vector<Bytes> buffers = work.sources;
  Bytes other(work.expected.size());
  std::vector<const void*> sources(buffers.size());
  std::transform(buffers.begin(), buffers.end(), sources.begin(),
                 [](const Bytes& buffer) { return buffer.data(); });
  void* const destinations[] = {other.data(), buffers[shared].data()};
  ReduceArgs args = argsOf(work.operation);
  args.sources = sources.data();
  args.nSources = static_cast<int>(sources.size());
  args.destinations = destinations;
  args.nDestinations = 2;
  args.count = work.count;
  args.streaming = shared == 0;
  reduceCopy(args);
  EXPECT_EQ(buffers[shared], work.expected) << reference::nameOf(work.operation);
  EXPECT_EQ(other, work.expected) << reference::nameOf(work.operation);
}

TEST(KernelsReduce, ADestinationMayBeAnySource) {
  for (const Operation& operation : allOperations()) {
    const size_t large = (80 << 10) / elementBytes(operation.type) + 3;
    for (size_t nSources = 1; nSources <= 4; nSources++) {
      const Case work = makeCase(operation, nSources, nSources == 2 ? large : 301);
      for (size_t shared = 0; shared < nSources; shared++)
        runInPlace(work, shared);
    }
    if (HasFailure()) return;
  }
}

TEST(KernelsReduce, IntegersAreDividedTowardsZero) {
  for (const ncclDataType_t type : reference::kTypes) {
    if (reference::isFloat(type)) continue;
    for (const int64_t divisor :
         {int64_t{2}, int64_t{3}, int64_t{7}, int64_t{8}, int64_t{64}, int64_t{127}, int64_t{128},
          int64_t{255}, int64_t{256}, int64_t{65535}, int64_t{0x7fffffff}, int64_t{0xffffffff},
          int64_t{1} << 62}) {
      onEveryTarget(makeCase({.type = type, .divisor = divisor}, 1, 4096),
                    [](Runner& runner) { runner.run(4096, 1, false); });
      if (HasFailure()) return;
    }
  }
}

#if defined(__x86_64__)
TEST(KernelsReduce, TheCallersFloatingPointModeHasNoInfluenceAndIsKept) {
  constexpr unsigned kFlushAndRoundDown = 0x8040 | 0x2000 | 0x1f80;
  for (const Operation& operation : allOperations()) {
    const Case work = makeCase(operation, 3, 300);
    Runner runner(work, 1);
    const unsigned before = _mm_getcsr();
    _mm_setcsr(kFlushAndRoundDown);
    runner.run(300, 0, false);
    const unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    EXPECT_EQ(after & 0xffc0, kFlushAndRoundDown & 0xffc0);
  }
}
#endif

TEST(KernelsReduceDeathTest, ArgumentsOutOfRangeStopTheProgram) {
  float value = 0;
  const void* const sources[] = {&value, &value};
  void* const destinations[] = {&value};
  ReduceArgs args = {.sources = sources, .nSources = 2, .destinations = destinations, .count = 1};
  args.nSources = kMaxSources + 1;
  EXPECT_DEATH(reduceCopy(args), "nSources");
  args.nSources = 2;
  args.divisor = 2;  // a float is scaled instead
  EXPECT_DEATH(reduceCopy(args), "divisor");
  args.divisor = 1;
  args.op = ncclAvg;
  EXPECT_DEATH(reduceCopy(args), "op");
  args.op = ncclMax;
  args.scaledSources = 1;
  EXPECT_DEATH(reduceCopy(args), "unscaled");
  args.op = ncclSum;
  args.scaleIsFloat = true;  // a float's own scale is one already
  EXPECT_DEATH(reduceCopy(args), "scaleIsFloat");
}

TEST(KernelsCopy, EveryByteAndNoOtherIsCopied) {
  Bytes from(600 << 10);
  for (size_t i = 0; i < from.size(); i++)
    from[i] = static_cast<uint8_t>(i * 7 + i / 255);
  for (const bool streaming : {false, true}) {
    for (const size_t bytes : {0, 1, 63, 64, 65, 4096, 70001, 600 << 10}) {
      for (const size_t skew : {0, 1, 33}) {
        const size_t length = bytes > skew ? bytes - skew : 0;
        Bytes to(length + 2 * kMargin, kUntouched);
        copyBytes(to.data() + kMargin, from.data() + skew, length, streaming);
        Bytes expected(length + 2 * kMargin, kUntouched);
        if (length > 0) memcpy(expected.data() + kMargin, from.data() + skew, length);
        ASSERT_EQ(to, expected) << "bytes " << length << " skew " << skew;
      }
    }
  }
}

}  // namespace
}  // namespace nccom::emu
