// Values: whole formats, NaN, zeros and rounding.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "plugins/device_emu/kernels.h"
#include "test/unit/device_emu/kernels_reference.h"

namespace nccom::emu {
namespace {

using reference::EveryTarget;
using reference::FloatFormat;
using reference::formatOf;
using reference::Operation;

constexpr ncclDataType_t kFloats[] = {ncclFloat16,  ncclFloat32,    ncclFloat64,
                                      ncclBfloat16, ncclFloat8e4m3, ncclFloat8e5m2};

using Codes = std::vector<uint64_t>;

/// Runs the kernel on operands given and returned as codes.
Codes run(const Operation& operation, const std::vector<Codes>& operands) {
  const int bits = reference::bitsOf(operation.type);
  const size_t size = static_cast<size_t>(bits) / 8;
  const size_t count = operands[0].size();
  std::vector<std::vector<uint8_t>> memory(operands.size() + 1, std::vector<uint8_t>(count * size));
  std::vector<const void*> sources;
  for (size_t k = 0; k < operands.size(); k++) {
    for (size_t i = 0; i < count; i++) {
      reference::storeElement(&memory[k][i * size], bits, operands[k][i]);
    }
    sources.push_back(memory[k].data());
  }
  void* destination = memory.back().data();
  reduceCopy({.sources = sources.data(),
              .nSources = static_cast<int>(sources.size()),
              .destinations = &destination,
              .count = count,
              .type = operation.type,
              .op = operation.op,
              .scaledSources = operation.scaledSources,
              .scale = operation.scale,
              .scaleIsFloat = operation.scaleIsFloat});
  Codes result(count);
  for (size_t i = 0; i < count; i++) {
    result[i] = reference::loadElement(memory.back().data() + i * size, bits);
  }
  return result;
}

void expectReference(const EveryTarget& targets, const Operation& operation,
                     const std::vector<Codes>& operands) {
  const size_t count = operands[0].size();
  Codes expected(count);
  Codes element(operands.size());
  for (size_t i = 0; i < count; i++) {
    for (size_t k = 0; k < operands.size(); k++)
      element[k] = operands[k][i];
    expected[i] = reference::reduce(operation, element);
  }
  for (size_t target = 0; target < targets.size(); target++) {
    const char* const name = targets.use(target);
    const Codes got = run(operation, operands);
    for (size_t i = 0; i < count; i++) {
      ASSERT_EQ(got[i], expected[i])
          << name << " " << reference::nameOf(operation) << " operand " << operands[0][i];
    }
  }
}

Codes allCodes(ncclDataType_t type) {
  Codes result(size_t{1} << reference::bitsOf(type));
  for (size_t i = 0; i < result.size(); i++)
    result[i] = i;
  return result;
}

TEST(KernelsFloat, TheReferenceKnowsTheFormats) {
  const FloatFormat e4m3 = formatOf(ncclFloat8e4m3);
  const FloatFormat e5m2 = formatOf(ncclFloat8e5m2);
  EXPECT_EQ(reference::decode(e4m3, 0x7e), 448);
  EXPECT_EQ(reference::decode(e4m3, 0x01), 0x1p-9);
  EXPECT_EQ(reference::decode(e4m3, 0xb8), -1);
  EXPECT_EQ(reference::decode(e5m2, 0x7b), 57344);
  EXPECT_EQ(reference::decode(e5m2, 0x01), 0x1p-16);
  EXPECT_EQ(reference::encode(e4m3, 1e9), 0x7e);
  EXPECT_EQ(reference::encode(e4m3, 464.1), 0x7e);
  EXPECT_EQ(reference::encode(e5m2, -1e9), 0xfb);
  EXPECT_EQ(reference::encode(e5m2, 1.125), 0x3c);  // half-way, to even
  EXPECT_EQ(reference::encode(e5m2, 1.375), 0x3e);
  EXPECT_EQ(reference::encode(formatOf(ncclFloat16), 65520), 0x7c00);
  EXPECT_EQ(reference::encode(formatOf(ncclFloat16), 65519), 0x7bff);
  EXPECT_EQ(reference::encode(formatOf(ncclBfloat16), 1 + 0x1p-8), 0x3f80);
  for (const ncclDataType_t type : {ncclFloat16, ncclBfloat16, ncclFloat8e4m3, ncclFloat8e5m2}) {
    for (const uint64_t code : allCodes(type)) {
      const double value = reference::decode(formatOf(type), code);
      if (std::isnan(value)) continue;
      ASSERT_EQ(reference::encode(formatOf(type), value), code);
    }
  }
}

TEST(KernelsFloat, EveryPairOfEightBitFloats) {
  const EveryTarget targets;
  Codes first(65536);
  Codes second(65536);
  for (size_t i = 0; i < first.size(); i++) {
    first[i] = i >> 8;
    second[i] = i & 255;
  }
  for (const ncclDataType_t type : {ncclFloat8e4m3, ncclFloat8e5m2}) {
    for (const ncclRedOp_t op : reference::kOps) {
      expectReference(targets, {.type = type, .op = op}, {first, second});
    }
    for (uint64_t scale = 0; scale < 256; scale++) {
      expectReference(targets, {.type = type, .scaledSources = 1, .scale = scale},
                      {allCodes(type)});
    }
  }
}

TEST(KernelsFloat, EverySixteenBitFloatIsReadAndWrittenRight) {
  const EveryTarget targets;
  for (const ncclDataType_t type : {ncclFloat16, ncclBfloat16}) {
    const FloatFormat format = formatOf(type);
    // Times one: through float and back. The others reach every rounding, overflow and denormal.
    for (const double scale : {1.0, -1.0, 0x1p-3, 0x1p-9, 0x1p5, 1.0 / 3, 3.0, 1.5, 0x1p-14, 0.0}) {
      const Operation operation = {
          .type = type, .scaledSources = 1, .scale = reference::encode(format, scale)};
      expectReference(targets, operation, {allCodes(type)});
    }
    for (const double scale : {1.0 / 3, 1 + 0x1p-12, 1 + 0x1p-11 + 0x1p-20, 0x1p-24, 1e-6}) {
      const Operation operation = {.type = type,
                                   .scaledSources = 1,
                                   .scale = reference::encode(formatOf(ncclFloat32), scale),
                                   .scaleIsFloat = true};
      expectReference(targets, operation, {allCodes(type)});
    }
    const Codes codes = allCodes(type);
    const Codes reversed(codes.rbegin(), codes.rend());
    Codes stirred = codes;
    for (uint64_t& code : stirred)
      code = code * 0x9e37 & 0xffff;
    for (const ncclRedOp_t op : reference::kOps) {
      expectReference(targets, {.type = type, .op = op}, {codes, reversed, stirred});
    }
  }
}

std::vector<uint64_t> nansOf(const FloatFormat& format) {
  if (!format.hasInf) return {format.nan(), format.nan() | format.signBit()};
  const uint64_t signalling = format.infinity() + 1;
  return {format.nan(), format.nan() | format.signBit(), signalling, signalling | format.signBit()};
}

/// One NaN among `other`, at each place of up to five operands, under each operator.
void expectNaN(ncclDataType_t type, uint64_t nan, uint64_t other) {
  const Codes expected(37, formatOf(type).nan());
  for (size_t nSources = 2; nSources <= 5; nSources++) {
    for (size_t place = 0; place < nSources; place++) {
      std::vector<Codes> operands(nSources, Codes(37, other));
      operands[place] = Codes(37, nan);
      for (const ncclRedOp_t op : reference::kOps) {
        ASSERT_EQ(run({.type = type, .op = op}, operands), expected)
            << reference::nameOf({.type = type, .op = op}) << " NaN " << nan << " is operand "
            << place << " of " << nSources;
      }
    }
  }
}

TEST(KernelsFloat, EveryNaNAndWhereverItStandsGivesTheOneNaN) {
  const EveryTarget targets;
  for (size_t target = 0; target < targets.size(); target++) {
    SCOPED_TRACE(targets.use(target));
    for (const ncclDataType_t type : kFloats) {
      const FloatFormat format = formatOf(type);
      const uint64_t one = static_cast<uint64_t>(format.bias()) << format.mantBits;
      for (const uint64_t nan : nansOf(format)) {
        expectNaN(type, nan, one);
        expectNaN(type, nan, one | format.signBit());
        expectNaN(type, nan, format.infinity());
        expectNaN(type, nan, 0);
      }
    }
  }
}

TEST(KernelsFloat, MinusZeroIsLessThanPlusZero) {
  const EveryTarget targets;
  for (size_t target = 0; target < targets.size(); target++) {
    const char* const name = targets.use(target);
    for (const ncclDataType_t type : kFloats) {
      const uint64_t minus = formatOf(type).signBit();
      for (unsigned signs = 0; signs < 16; signs++) {
        std::vector<Codes> operands;
        for (unsigned k = 0; k < 4; k++)
          operands.emplace_back(37, signs >> k & 1 ? minus : 0);
        const Codes most = run({.type = type, .op = ncclMax}, operands);
        const Codes least = run({.type = type, .op = ncclMin}, operands);
        ASSERT_EQ(most, Codes(37, signs == 15 ? minus : 0)) << name << " type " << type;
        ASSERT_EQ(least, Codes(37, signs == 0 ? 0 : minus)) << name << " type " << type;
      }
    }
  }
}

TEST(KernelsFloat, NarrowSumsAreRoundedOnce) {
  // 1 plus half an ulp is half-way and would become 1; the second half would be lost as well.
  for (const ncclDataType_t type : {ncclFloat16, ncclBfloat16, ncclFloat8e4m3, ncclFloat8e5m2}) {
    const FloatFormat format = formatOf(type);
    const auto code = [&](double value) { return reference::encode(format, value); };
    const double half = std::ldexp(1, -format.mantBits - 1);
    const Codes got = run({.type = type}, {{code(1)}, {code(half)}, {code(half)}});
    EXPECT_EQ(got[0], code(1 + 2 * half)) << "type " << type;
  }
}

TEST(KernelsFloat, OneUnscaledSourceKeepsItsBits) {
  for (const ncclDataType_t type : kFloats) {
    const uint64_t signalling = formatOf(type).infinity() | 1 | formatOf(type).signBit();
    EXPECT_EQ(run({.type = type}, {Codes(37, signalling)}), Codes(37, signalling));
  }
}

}  // namespace
}  // namespace nccom::emu
