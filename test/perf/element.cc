#include "test/perf/element.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace nccom::perf {
namespace {

constexpr std::array<TypeName, ncclNumTypes> kTypes{{{ncclInt8, "int8", 1},
                                                     {ncclUint8, "uint8", 1},
                                                     {ncclInt32, "int32", 4},
                                                     {ncclUint32, "uint32", 4},
                                                     {ncclInt64, "int64", 8},
                                                     {ncclUint64, "uint64", 8},
                                                     {ncclFloat16, "half", 2},
                                                     {ncclFloat32, "float", 4},
                                                     {ncclFloat64, "double", 8},
                                                     {ncclBfloat16, "bfloat16", 2},
                                                     {ncclFloat8e4m3, "f8e4m3", 1},
                                                     {ncclFloat8e5m2, "f8e5m2", 1}}};

constexpr std::array<OperatorName, 6> kOperators{{{Operator::Sum, "sum"},
                                                  {Operator::Prod, "prod"},
                                                  {Operator::Max, "max"},
                                                  {Operator::Min, "min"},
                                                  {Operator::Avg, "avg"},
                                                  {Operator::MulSum, "mulsum"}}};

constexpr FloatFormat kHalf{5, 10, true};
constexpr FloatFormat kSingle{8, 23, true};
constexpr FloatFormat kDouble{11, 52, true};
constexpr FloatFormat kBrain{8, 7, true};
constexpr FloatFormat kE4m3{4, 3, false};
constexpr FloatFormat kE5m2{5, 2, true};

template <class Entry>
Result<Entry> named(std::span<const Entry> entries, std::string_view name, const char* what) {
  std::string known;
  for (const Entry& entry : entries) {
    if (name == entry.name) return entry;
    known += std::string(" ") + entry.name;
  }
  return fail(ncclInvalidArgument, "'%s' is not %s: expected one of%s, or all",
              std::string(name).c_str(), what, known.c_str());
}

// The exponent of the unit of `magnitude`'s significand, no lower than that of the subnormals.
int unitExponent(const FloatFormat& format, double magnitude) {
  const int lowest = 1 - format.bias();
  const int exponent = magnitude == 0 ? lowest : std::ilogb(magnitude);
  return std::max(exponent, lowest) - format.fractionBits;
}

uint64_t largestFinite(const FloatFormat& format) {
  const uint64_t top = uint64_t{1} << (format.exponentBits + format.fractionBits);
  return format.hasInfinity ? top - (uint64_t{1} << format.fractionBits) - 1 : top - 2;
}

}  // namespace

std::span<const TypeName> allTypes() {
  return kTypes;
}
std::span<const OperatorName> allOperators() {
  return kOperators;
}

Result<TypeName> typeNamed(std::string_view name) {
  return named<TypeName>(kTypes, name, "a data type");
}

Result<OperatorName> operatorNamed(std::string_view name) {
  return named<OperatorName>(kOperators, name, "a reduction");
}

const FloatFormat* formatOf(ncclDataType_t type) {
  switch (type) {
    case ncclFloat16:
      return &kHalf;
    case ncclFloat32:
      return &kSingle;
    case ncclFloat64:
      return &kDouble;
    case ncclBfloat16:
      return &kBrain;
    case ncclFloat8e4m3:
      return &kE4m3;
    case ncclFloat8e5m2:
      return &kE5m2;
    case ncclInt8:
    case ncclUint8:
    case ncclInt32:
    case ncclUint32:
    case ncclInt64:
    case ncclUint64:
    case ncclNumTypes:
      break;
  }
  return nullptr;
}

uint64_t encodeFloat(const FloatFormat& format, double value) {
  constexpr int kFraction = 52;  // of a double
  const auto doubleBits = std::bit_cast<uint64_t>(value);
  if (format.fractionBits == kFraction) return doubleBits;
  const uint64_t sign = (doubleBits >> 63) << (format.exponentBits + format.fractionBits);
  const int exponent = static_cast<int>(doubleBits >> kFraction & 0x7ff) - 1023;
  const int lowest = 1 - format.bias();
  // Bits of the double's significand that have no place; more below the format's normal numbers.
  const int excess = kFraction - format.fractionBits + std::max(lowest - exponent, 0);
  if (excess > kFraction + 1) return sign;
  const uint64_t significand = (doubleBits & ((uint64_t{1} << kFraction) - 1)) | uint64_t{1}
                                                                                     << kFraction;
  uint64_t kept = significand >> excess;
  const uint64_t rest = significand - (kept << excess);
  const uint64_t half = uint64_t{1} << (excess - 1);
  if (rest > half || (rest == half && (kept & 1) != 0)) kept++;
  // The leading 1 of a normal number's significand adds 1 to the exponent field below, which is why
  // the field counts from the subnormals' exponent; so does a carry out of rounding.
  const auto field = static_cast<uint64_t>(std::max(exponent, lowest) - lowest);
  return sign | std::min((field << format.fractionBits) + kept, largestFinite(format));
}

double decodeFloat(const FloatFormat& format, uint64_t bits) {
  const uint64_t signBit = uint64_t{1} << (format.exponentBits + format.fractionBits);
  const double sign = (bits & signBit) != 0 ? -1 : 1;
  const uint64_t magnitude = bits & (signBit - 1);
  if (magnitude > largestFinite(format)) {
    const bool infinite = format.hasInfinity && magnitude == largestFinite(format) + 1;
    return infinite ? sign * std::numeric_limits<double>::infinity()
                    : std::numeric_limits<double>::quiet_NaN();
  }
  const auto field = static_cast<int>(magnitude >> format.fractionBits);
  uint64_t significand = magnitude & ((uint64_t{1} << format.fractionBits) - 1);
  if (field > 0) significand |= uint64_t{1} << format.fractionBits;
  const int exponent = std::max(field, 1) - format.bias() - format.fractionBits;
  return sign * std::ldexp(static_cast<double>(significand), exponent);
}

double spacingAt(const FloatFormat& format, double value) {
  return std::ldexp(1.0, unitExponent(format, std::fabs(value)));
}

}  // namespace nccom::perf
