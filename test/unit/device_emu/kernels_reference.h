#pragma once
// What the kernels compute, element by element, from the definitions of the formats: in double and
// in integers, with no code of the kernels.

#include <stdint.h>

#include <span>
#include <string>
#include <vector>

#include "include/nccl.h"
#include "plugins/device_emu/kernels.h"

namespace nccom::emu::reference {

/// A binary float. Without infinity the highest exponent is a number's too and only the highest
/// code is NaN.
struct FloatFormat {
  int expBits;
  int mantBits;
  bool hasInf;
  bool saturates;  // finite values out of range become the largest one

  int bias() const { return (1 << (expBits - 1)) - 1; }
  uint64_t infinity() const { return ((uint64_t{1} << expBits) - 1) << mantBits; }
  uint64_t nan() const;
  uint64_t signBit() const { return uint64_t{1} << (expBits + mantBits); }
};

bool isFloat(ncclDataType_t type);
FloatFormat formatOf(ncclDataType_t type);
int bitsOf(ncclDataType_t type);

/// Both exact, encode rounding to nearest even. NaN has one code.
double decode(const FloatFormat& format, uint64_t code);
uint64_t encode(const FloatFormat& format, double value);

struct Operation {
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;
  uint64_t scaledSources = 0;
  uint64_t scale = 0;
  bool scaleIsFloat = false;
  int64_t divisor = 1;
};

/// The bits of one result from the bits of its operands.
uint64_t reduce(const Operation& operation, std::span<const uint64_t> operands);

/// Elements <-> memory, little-endian.
uint64_t loadElement(const uint8_t* from, int bits);
void storeElement(uint8_t* to, int bits, uint64_t value);

std::string nameOf(const Operation& operation);

inline constexpr ncclDataType_t kTypes[] = {
    ncclInt8,    ncclUint8,   ncclInt32,   ncclUint32,   ncclInt64,      ncclUint64,
    ncclFloat16, ncclFloat32, ncclFloat64, ncclBfloat16, ncclFloat8e4m3, ncclFloat8e5m2};
inline constexpr ncclRedOp_t kOps[] = {ncclSum, ncclProd, ncclMax, ncclMin};

/// Runs `body(name)` with the kernels of each instruction set that this machine has.
class EveryTarget {
 public:
  EveryTarget();
  ~EveryTarget();
  EveryTarget(const EveryTarget&) = delete;
  EveryTarget& operator=(const EveryTarget&) = delete;

  size_t size() const { return targets_.size(); }
  /// Makes the kernels use target i; returns its name.
  const char* use(size_t i) const;

 private:
  std::vector<int64_t> targets_;
};

/// Operand bits: random ones, small integers and every special value of the type.
class Operands {
 public:
  Operands(ncclDataType_t type, uint64_t seed);
  uint64_t next();

 private:
  uint64_t random();
  ncclDataType_t type_;
  uint64_t state_;
  std::vector<uint64_t> special_;
};

}  // namespace nccom::emu::reference
