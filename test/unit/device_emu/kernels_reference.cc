#include "test/unit/device_emu/kernels_reference.h"

#include <hwy/highway.h>
#include <string.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "plugins/device_emu/kernels_targets.h"

namespace nccom::emu::reference {
namespace {

constexpr FloatFormat kFloat = {8, 23, true, false};

bool isSigned(ncclDataType_t type) {
  return type == ncclInt8 || type == ncclInt32 || type == ncclInt64;
}

uint64_t mask(int bits) {
  return bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
}

int64_t signExtend(uint64_t value, int bits) {
  return static_cast<int64_t>(value << (64 - bits)) >> (64 - bits);
}

uint64_t reduceIntegers(const Operation& operation, std::span<const uint64_t> operands) {
  const int bits = bitsOf(operation.type);
  const bool sign = isSigned(operation.type);
  const auto less = [&](uint64_t a, uint64_t b) {
    return sign ? signExtend(a, bits) < signExtend(b, bits) : a < b;
  };
  uint64_t result = 0;
  for (size_t k = 0; k < operands.size(); k++) {
    uint64_t x = operands[k];
    if (operation.scaledSources >> k & 1) x = x * operation.scale & mask(bits);
    if (k == 0) {
      result = x;
    } else if (operation.op == ncclSum) {
      result = (result + x) & mask(bits);
    } else if (operation.op == ncclProd) {
      result = (result * x) & mask(bits);
    } else if (operation.op == ncclMax) {
      result = less(result, x) ? x : result;
    } else {
      result = less(x, result) ? x : result;
    }
  }
  if (operation.divisor == 1) return result;
  if (sign) return static_cast<uint64_t>(signExtend(result, bits) / operation.divisor) & mask(bits);
  return result / static_cast<uint64_t>(operation.divisor);
}

double extreme(bool wantMax, double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (a == b) return std::signbit(a) == wantMax ? b : a;
  return (a < b) == wantMax ? b : a;
}

/// Sum and product of two floats in double, rounded to float, are those of float arithmetic: double
/// has more than twice as many bits. Double itself is the machine's.
double apply(ncclDataType_t type, ncclRedOp_t op, double a, double b) {
  if (op == ncclMax || op == ncclMin) return extreme(op == ncclMax, a, b);
  const volatile double exact = op == ncclSum ? a + b : a * b;  // volatile: never fused
  return type == ncclFloat64 ? exact : decode(kFloat, encode(kFloat, exact));
}

}  // namespace

uint64_t FloatFormat::nan() const {
  return hasInf ? infinity() | uint64_t{1} << (mantBits - 1) : signBit() - 1;
}

bool isFloat(ncclDataType_t type) {
  return type >= ncclFloat16;
}

FloatFormat formatOf(ncclDataType_t type) {
  if (type == ncclFloat16) return {5, 10, true, false};
  if (type == ncclBfloat16) return {8, 7, true, false};
  if (type == ncclFloat8e4m3) return {4, 3, false, true};
  if (type == ncclFloat8e5m2) return {5, 2, true, true};
  if (type == ncclFloat64) return {11, 52, true, false};
  return kFloat;
}

int bitsOf(ncclDataType_t type) {
  if (isFloat(type)) return 1 + formatOf(type).expBits + formatOf(type).mantBits;
  return type <= ncclUint8 ? 8 : type <= ncclUint32 ? 32 : 64;
}

double decode(const FloatFormat& format, uint64_t code) {
  if (format.mantBits == 52) return std::bit_cast<double>(code);
  const uint64_t magnitude = code & (format.signBit() - 1);
  const double sign = code & format.signBit() ? -1.0 : 1.0;
  if (magnitude > (format.hasInf ? format.infinity() : format.nan() - 1)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (format.hasInf && magnitude == format.infinity()) {
    return sign * std::numeric_limits<double>::infinity();
  }
  const int exponent = static_cast<int>(magnitude >> format.mantBits);
  const double mantissa =
      std::ldexp(static_cast<double>(magnitude & mask(format.mantBits)), -format.mantBits);
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - format.bias());
  return sign * std::ldexp(1 + mantissa, exponent - format.bias());
}

uint64_t encode(const FloatFormat& format, double value) {
  if (std::isnan(value)) return format.nan();
  if (format.mantBits == 52) return std::bit_cast<uint64_t>(value);
  const uint64_t sign = std::signbit(value) ? format.signBit() : 0;
  const uint64_t largest = format.hasInf ? format.infinity() - 1 : format.nan() - 1;
  const uint64_t over = format.saturates ? largest : format.infinity();
  if (std::isinf(value)) return sign | (format.hasInf ? format.infinity() : largest);
  if (value == 0) return sign;
  const int least = 1 - format.bias();
  int exponent = std::max(std::ilogb(value), least);
  double units = std::nearbyint(std::ldexp(std::fabs(value), format.mantBits - exponent));
  if (units == std::ldexp(1, format.mantBits + 1)) {
    units /= 2;
    exponent++;
  }
  if (std::ldexp(units, exponent - format.mantBits) > decode(format, largest)) return sign | over;
  const uint64_t whole = static_cast<uint64_t>(units);
  const uint64_t one = uint64_t{1} << format.mantBits;
  if (whole < one) return sign | whole;  // denormal
  return sign | (static_cast<uint64_t>(exponent + format.bias()) << format.mantBits) |
         (whole - one);
}

uint64_t reduce(const Operation& operation, std::span<const uint64_t> operands) {
  if (operands.size() == 1 && !(operation.scaledSources & 1) && operation.divisor == 1) {
    return operands[0];
  }
  if (!isFloat(operation.type)) return reduceIntegers(operation, operands);
  const FloatFormat format = formatOf(operation.type);
  const double scale = decode(operation.scaleIsFloat ? kFloat : format, operation.scale);
  double result = 0;
  for (size_t k = 0; k < operands.size(); k++) {
    double x = decode(format, operands[k]);
    if (operation.scaledSources >> k & 1) x = apply(operation.type, ncclProd, x, scale);
    result = k == 0 ? x : apply(operation.type, operation.op, result, x);
  }
  return encode(format, result);
}

uint64_t loadElement(const uint8_t* from, int bits) {
  uint64_t value = 0;
  memcpy(&value, from, static_cast<size_t>(bits) / 8);
  return value;
}

void storeElement(uint8_t* to, int bits, uint64_t value) {
  memcpy(to, &value, static_cast<size_t>(bits) / 8);
}

std::string nameOf(const Operation& operation) {
  static constexpr const char* kTypeNames[] = {"int8",  "uint8",  "int32",  "uint32",
                                               "int64", "uint64", "f16",    "f32",
                                               "f64",   "bf16",   "f8e4m3", "f8e5m2"};
  static constexpr const char* kOpNames[] = {"sum", "prod", "max", "min"};
  return std::string(kTypeNames[operation.type]) + " " + kOpNames[operation.op] + " scaled " +
         std::to_string(operation.scaledSources) + " scale " + std::to_string(operation.scale) +
         " divisor " + std::to_string(operation.divisor);
}

EveryTarget::EveryTarget() : targets_(hwy::SupportedAndGeneratedTargets()) {}

EveryTarget::~EveryTarget() {
  hwy::SetSupportedTargetsForTest(0);
}

const char* EveryTarget::use(size_t i) const {
  hwy::SetSupportedTargetsForTest(targets_[i]);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return hwy::TargetName(targets_[i]);
}

Operands::Operands(ncclDataType_t type, uint64_t seed) : type_(type), state_(seed) {
  if (isFloat(type)) {
    const FloatFormat format = formatOf(type);
    const uint64_t one = static_cast<uint64_t>(format.bias()) << format.mantBits;
    for (const uint64_t code : {uint64_t{0}, uint64_t{1}, (uint64_t{1} << format.mantBits) - 1,
                                uint64_t{1} << format.mantBits, one, one + 1, format.infinity() - 1,
                                format.infinity(), format.nan() - 1, format.nan()}) {
      special_.push_back(code);
      special_.push_back(code | format.signBit());
    }
  } else {
    const uint64_t top = uint64_t{1} << (bitsOf(type) - 1);
    special_ = {0, 1, 2, mask(bitsOf(type)), mask(bitsOf(type)) - 1, top, top - 1, top + 1};
  }
}

uint64_t Operands::random() {  // splitmix64
  uint64_t z = state_ += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

uint64_t Operands::next() {
  const uint64_t choice = random() % 16;
  const uint64_t bits = random();
  if (choice == 0) return special_[bits % special_.size()];
  if (choice < 6 || !isFloat(type_)) return bits & mask(bitsOf(type_));
  // Numbers about 1, of which sums and products stay in range and have to be rounded.
  const double about = std::ldexp(static_cast<double>(static_cast<int64_t>(bits)), -61);
  return encode(formatOf(type_), about);
}

}  // namespace nccom::emu::reference
