// Element types and reduction operators as the programs name them, and the number formats that C++
// has no type for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "include/nccl.h"
#include "misc/result.h"

namespace nccom::perf {

/// An operator of -o: NCCL's built-in ones, and the one made by ncclRedOpCreatePreMulSum.
enum class Operator : uint8_t { Sum, Prod, Max, Min, Avg, MulSum };

struct TypeName {
  ncclDataType_t type;
  const char* name;  // as nccl-tests spell it
  size_t bytes;
};
struct OperatorName {
  Operator op;
  const char* name;
};

/// All types, in NCCL's order; all operators, in nccl-tests' order.
std::span<const TypeName> allTypes();
std::span<const OperatorName> allOperators();

/// @error ncclInvalidArgument  an unknown name; the text lists the known ones
Result<TypeName> typeNamed(std::string_view name);
Result<OperatorName> operatorNamed(std::string_view name);

/// A binary floating-point format with a sign bit.
struct FloatFormat {
  int exponentBits;
  int fractionBits;
  bool hasInfinity;  // else the topmost exponent holds numbers and one NaN (e4m3)

  int bias() const { return (1 << (exponentBits - 1)) - 1; }
  int precision() const { return fractionBits + 1; }  // bits of a significand
};

/// @return  the format of a floating-point type; nullptr for an integer type
const FloatFormat* formatOf(ncclDataType_t type);

/// The number nearest to `value`, ties to even; beyond the largest finite number, that number.
/// @param value  finite
uint64_t encodeFloat(const FloatFormat& format, double value);
double decodeFloat(const FloatFormat& format, uint64_t bits);

/// The distance between neighbouring numbers of the format at `value`.
double spacingAt(const FloatFormat& format, double value);

}  // namespace nccom::perf
