#include "test/perf/pattern.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace nccom::perf {
namespace {

// Mixes all bits of x into all bits of the result (finalizer of splitmix64).
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// The random bits of an element of a rank; and, with kShared, of an element over all ranks.
constexpr uint64_t kShared = 0xffffffffU;
uint64_t randomBits(uint64_t round, uint64_t rank, uint64_t element) {
  return mix(mix(round << 32 | rank) ^ element);
}

// The factors of MulSum, powers of two so that they cost no precision. Unsigned types get none
// below zero, integers of any size hold them.
int scalarOf(int rank, bool isSigned) {
  const int magnitude = 1 + rank % 2;
  return isSigned && rank % 3 == 1 ? -magnitude : magnitude;
}
constexpr int kMaxScalar = 2;

// How the ranks share an element of a reduction: at most `contributors` of them contribute anything
// but the neutral element, each at most `largest` in magnitude.
struct Share {
  int contributors;
  int64_t largest;
};

// So that all contributions add up to at most `budget` in magnitude.
Share shareOf(int64_t budget, int nRanks) {
  const int64_t largest = std::clamp<int64_t>(budget / nRanks, 1, 1 << 20);
  return {static_cast<int>(std::clamp<int64_t>(budget / largest, 1, nRanks)), largest};
}

// Which ranks contribute to which elements: so many in a row, beginning with a random one.
class Contributors {
 public:
  Contributors(const PatternKey& key, int contributors, size_t elements)
      : nRanks_(static_cast<uint64_t>(key.nRanks)),
        contributors_(static_cast<uint64_t>(contributors)) {
    if (contributors_ >= nRanks_) return;
    for (size_t element = 0; element < elements; element++) {
      first_.push_back(randomBits(key.round, kShared, element) % nRanks_);
    }
  }

  bool include(int rank, size_t element) const {
    if (first_.empty()) return true;
    const auto mine = static_cast<uint64_t>(rank);
    const uint64_t first = first_[element];
    return (mine >= first ? mine - first : mine + nRanks_ - first) < contributors_;
  }

 private:
  const uint64_t nRanks_;
  const uint64_t contributors_;
  std::vector<uint64_t> first_;  // [element]; empty: all contribute
};

// A number from -largest to largest without 0; positive if not `isSigned`.
int64_t signedValue(uint64_t bits, int64_t largest, bool isSigned) {
  const auto magnitude = static_cast<int64_t>(1 + (bits >> 1) % static_cast<uint64_t>(largest));
  return isSigned && (bits & 1) != 0 ? -magnitude : magnitude;
}

// ---- integers -----------------------------------------------------------------------------------

// Sums and products wrap around, averages must not: whether a sum wraps before it is divided is
// nobody's promise.
template <class T>
Share integerShare(const PatternKey& key) {
  if (key.op != Operator::Avg) return {key.nRanks, 0};
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<T>::max());
  return shareOf(static_cast<int64_t>(std::min(kMost, uint64_t{1} << 40)), key.nRanks);
}

template <class T>
T integerInput(Operator op, const Share& share, uint64_t bits, bool contributes) {
  switch (op) {
    case Operator::Sum:
    case Operator::Max:
    case Operator::Min:
    case Operator::MulSum:
      return static_cast<T>(bits);
    case Operator::Prod:
      return static_cast<T>(bits | 1);  // a product of odd numbers never gets 0
    case Operator::Avg:
      break;
  }
  return contributes ? static_cast<T>(signedValue(bits, share.largest, std::is_signed_v<T>)) : T{0};
}

// ---- floating point -----------------------------------------------------------------------------

// Up to this magnitude every integer is a number of the format.
int64_t exactIntegers(const FloatFormat& format) {
  return int64_t{1} << format.precision();
}

Share floatShare(const PatternKey& key, const FloatFormat& format) {
  switch (key.op) {
    case Operator::Max:
    case Operator::Min:
      return {key.nRanks, std::min<int64_t>(exactIntegers(format), 1 << 20)};
    case Operator::Prod:  // of twos, which must stay below the largest number
      return {std::min(format.bias(), 14) - 1, 2};
    case Operator::MulSum:
      return shareOf(exactIntegers(format) / kMaxScalar, key.nRanks);
    case Operator::Sum:
    case Operator::Avg:
      break;
  }
  return shareOf(exactIntegers(format), key.nRanks);
}

double floatInput(Operator op, const Share& share, uint64_t bits, bool contributes) {
  if (op == Operator::Prod) return ((bits & 1) != 0 ? -1 : 1) * (contributes ? 2.0 : 1.0);
  return contributes ? static_cast<double>(signedValue(bits, share.largest, true)) : 0.0;
}

// ---- reduction ----------------------------------------------------------------------------------

// Integers modulo 2^64, of which the low bits are those of every narrower type.
template <class V>
V combine(Operator op, V a, V b) {
  switch (op) {
    case Operator::Prod:
      if constexpr (std::is_integral_v<V>) {
        return static_cast<V>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
      } else {
        return a * b;
      }
    case Operator::Max:
      return std::max(a, b);
    case Operator::Min:
      return std::min(a, b);
    case Operator::Sum:
    case Operator::Avg:
    case Operator::MulSum:
      break;
  }
  if constexpr (std::is_integral_v<V>) {
    return static_cast<V>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}

template <class V>
V contribution(Operator op, V value, int rank) {
  if (op != Operator::MulSum) return value;
  const auto scalar = static_cast<V>(scalarOf(rank, std::is_signed_v<V>));
  return combine(Operator::Prod, value, scalar);
}

// Integers towards zero.
template <class V>
V quotient(V sum, int nRanks) {
  if constexpr (std::is_integral_v<V>) {
    return static_cast<V>(static_cast<int64_t>(sum) / nRanks);
  } else {
    return sum / nRanks;
  }
}

// ---- tiles --------------------------------------------------------------------------------------

// The tile of elements encode(0), encode(1), ... of type T.
template <class T, class Encode>
Tile tileOf(size_t elements, Encode encode) {
  Tile tile{.typeBytes = sizeof(T), .bytes = std::vector<std::byte>(elements * sizeof(T))};
  for (size_t element = 0; element < elements; element++) {
    const T value = encode(element);
    std::memcpy(tile.bytes.data() + element * sizeof(T), &value, sizeof(T));
  }
  return tile;
}

// Inputs and their reduction, as values of type V that encode() turns into elements of type T.
template <class T, class V, class Input, class Encode>
void fillReduction(Pattern& pattern, size_t elements, Input input, Encode encode) {
  const PatternKey& key = pattern.key;
  std::vector<V> values(elements);
  std::vector<V> reduced(elements);
  for (int rank = 0; rank < key.nRanks; rank++) {
    for (size_t element = 0; element < elements; element++) {
      const V value = input(rank, element);
      const V part = contribution(key.op, value, rank);
      values[element] = value;
      reduced[element] = rank == 0 ? part : combine(key.op, reduced[element], part);
    }
    pattern.inputs.push_back(tileOf<T>(elements, [&](size_t at) { return encode(values[at]); }));
  }
  if (key.op == Operator::Avg) {
    for (V& value : reduced)
      value = quotient(value, key.nRanks);
  }
  pattern.reduced = tileOf<T>(elements, [&](size_t at) { return encode(reduced[at]); });
}

template <class T>
void fillIntegers(Pattern& pattern, size_t elements) {
  const PatternKey& key = pattern.key;
  const Share share = integerShare<T>(key);
  const Contributors contributors(key, share.contributors, elements);
  const auto input = [&](int rank, size_t at) {
    const uint64_t bits = randomBits(key.round, static_cast<uint64_t>(rank), at);
    return integerInput<T>(key.op, share, bits, contributors.include(rank, at));
  };
  fillReduction<T, T>(pattern, elements, input, [](T value) { return value; });
}

// T is the unsigned integer as wide as the format.
template <class T>
void fillFloats(Pattern& pattern, size_t elements) {
  const PatternKey& key = pattern.key;
  const FloatFormat& format = *formatOf(key.type);
  const Share share = floatShare(key, format);
  const Contributors contributors(key, share.contributors, elements);
  const auto input = [&](int rank, size_t at) {
    const uint64_t bits = randomBits(key.round, static_cast<uint64_t>(rank), at);
    return floatInput(key.op, share, bits, contributors.include(rank, at));
  };
  fillReduction<T, double>(pattern, elements, input, [&](double value) {
    return static_cast<T>(encodeFloat(format, value));
  });
}

// Arbitrary bits: what is only moved must arrive bit by bit.
template <class T>
void fillBits(Pattern& pattern, size_t elements) {
  for (int rank = 0; rank < pattern.key.nRanks; rank++) {
    pattern.inputs.push_back(tileOf<T>(elements, [&](size_t at) {
      return static_cast<T>(randomBits(pattern.key.round, static_cast<uint64_t>(rank), at));
    }));
  }
}

size_t bytesOf(ncclDataType_t type) {
  for (const TypeName& entry : allTypes()) {
    if (entry.type == type) return entry.bytes;
  }
  return 1;
}

}  // namespace

Pattern makePattern(const PatternKey& key) {
  Pattern pattern{.key = key, .inputs = {}, .reduced = {}};
  pattern.inputs.reserve(static_cast<size_t>(key.nRanks));
  const size_t elements = std::min(key.elements, kPeriod);
  if (!key.reduces) {
    switch (bytesOf(key.type)) {
      case 1:
        fillBits<uint8_t>(pattern, elements);
        break;
      case 2:
        fillBits<uint16_t>(pattern, elements);
        break;
      case 4:
        fillBits<uint32_t>(pattern, elements);
        break;
      default:
        fillBits<uint64_t>(pattern, elements);
        break;
    }
    return pattern;
  }
  switch (key.type) {
    case ncclInt8:
      fillIntegers<int8_t>(pattern, elements);
      break;
    case ncclUint8:
      fillIntegers<uint8_t>(pattern, elements);
      break;
    case ncclInt32:
      fillIntegers<int32_t>(pattern, elements);
      break;
    case ncclUint32:
      fillIntegers<uint32_t>(pattern, elements);
      break;
    case ncclInt64:
      fillIntegers<int64_t>(pattern, elements);
      break;
    case ncclUint64:
      fillIntegers<uint64_t>(pattern, elements);
      break;
    case ncclFloat16:
    case ncclBfloat16:
      fillFloats<uint16_t>(pattern, elements);
      break;
    case ncclFloat32:
      fillFloats<uint32_t>(pattern, elements);
      break;
    case ncclFloat64:
      fillFloats<uint64_t>(pattern, elements);
      break;
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      fillFloats<uint8_t>(pattern, elements);
      break;
    case ncclNumTypes:
      break;
  }
  return pattern;
}

uint64_t mulSumScalar(ncclDataType_t type, int rank) {
  const FloatFormat* format = formatOf(type);
  if (format != nullptr) return encodeFloat(*format, scalarOf(rank, true));
  const bool isSigned = type == ncclInt8 || type == ncclInt32 || type == ncclInt64;
  return static_cast<uint64_t>(int64_t{scalarOf(rank, isSigned)});  // little endian: any width
}

double toleranceOf(const PatternKey& key) {
  const bool rounds = key.reduces && key.op == Operator::Avg && formatOf(key.type) != nullptr;
  return rounds ? 2 : 0;
}

std::shared_ptr<const Pattern> PatternCache::get(const PatternKey& key) {
  const std::lock_guard lock(mutex_);
  if (last_ == nullptr || last_->key != key) {
    last_ = std::make_shared<const Pattern>(makePattern(key));
  }
  return last_;
}

}  // namespace nccom::perf
