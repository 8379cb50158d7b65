#include "tools/nccom/schedule_words.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <utility>

#include "misc/datatype.h"

namespace nccom {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 60;

struct OpRow {
  const char* name;
  std::optional<encOp> op;
  enc_op_type type;
};

constexpr std::array<OpRow, 16> kOps = {{
    {"all_gather", encOp::AllGather, enc_op_type::AllGather},
    {"all_reduce", encOp::AllReduce, enc_op_type::AllReduce},
    {"reduce_scatter", encOp::ReduceScatter, enc_op_type::ReduceScatter},
    {"alltoall", encOp::AlltoAll, enc_op_type::AlltoAll},
    {"broadcast", encOp::Broadcast, enc_op_type::Broadcast},
    {"reduce", encOp::Reduce, enc_op_type::Reduce},
    {"gather", encOp::Gather, enc_op_type::Invalid},
    {"scatter", encOp::Scatter, enc_op_type::Invalid},
    {"sendrecv", encOp::SendRecv, enc_op_type::Invalid},
    {"send", std::nullopt, enc_op_type::Send},
    {"recv", std::nullopt, enc_op_type::Recv},
    {"permute", encOp::Permute, enc_op_type::Permute},
    {"permute_reduce", std::nullopt, enc_op_type::PermuteReduce},
    {"permute_implicit", encOp::Permute, enc_op_type::PermuteImplicit},
    {"permute_reduce_implicit", encOp::PermuteReduce, enc_op_type::PermuteReduceImplicit},
    {"alltoallv", std::nullopt, enc_op_type::AlltoAllV},
}};

/// Names besides those that ncclTypeName() gives.
constexpr std::array<std::pair<const char*, ncclDataType_t>, 8> kTypeNames = {{
    {"float16", ncclFloat16},
    {"float32", ncclFloat32},
    {"float64", ncclFloat64},
    {"bf16", ncclBfloat16},
    {"fp16", ncclFloat16},
    {"fp32", ncclFloat32},
    {"f8e4m3", ncclFloat8e4m3},
    {"f8e5m2", ncclFloat8e5m2},
}};

std::string plain(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c != '_' && c != '-') result += static_cast<char>(tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

void addName(std::string& list, const std::string& name) {
  if (!list.empty()) list += ", ";
  list += name;
}

Error unknown(const char* what, const std::string& text, const std::string& known) {
  return fail(ncclInvalidArgument, "%s '%s' is unknown; known are %s", what, text.c_str(),
              known.c_str());
}

}  // namespace

bool ScheduleOp::reduces() const {
  return op == encOp::AllReduce || op == encOp::ReduceScatter || op == encOp::Reduce ||
         op == encOp::PermuteReduce;
}

bool ScheduleOp::hasRoot() const {
  return op == encOp::Broadcast || op == encOp::Reduce || op == encOp::Gather ||
         op == encOp::Scatter;
}

bool ScheduleOp::isParted() const {
  return op == encOp::AllGather || op == encOp::ReduceScatter || op == encOp::AlltoAll ||
         op == encOp::Gather || op == encOp::Scatter;
}

Result<ScheduleOp> parseScheduleOp(const std::string& text) {
  std::string known;
  for (const OpRow& row : kOps) {
    if (plain(row.name) == plain(text)) return ScheduleOp{row.name, row.op, row.type};
    addName(known, row.name);
  }
  return unknown("operation", text, known);
}

Result<ncclDataType_t> parseScheduleType(const std::string& text) {
  std::string known;
  for (int i = 0; i < ncclNumTypes; i++) {
    const auto type = static_cast<ncclDataType_t>(i);
    if (plain(ncclTypeName(type)) == plain(text)) return type;
    addName(known, ncclTypeName(type));
  }
  for (const auto& [name, type] : kTypeNames) {
    if (plain(text) == name) return type;
  }
  return unknown("type", text, known);
}

Result<ncclRedOp_t> parseScheduleRedOp(const std::string& text) {
  std::string known;
  for (int i = ncclSum; i <= static_cast<int>(kRedOpPreMulSum); i++) {
    const auto redOp = static_cast<ncclRedOp_t>(i);
    if (plain(text) == ncclOpName(redOp)) return redOp;
    addName(known, ncclOpName(redOp));
  }
  return unknown("operator", text, known);
}

Result<uint64_t> parseScheduleBytes(const std::string& text) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, bad] = std::from_chars(text.data(), end, value);
  std::string unit = plain(std::string(stop, end));
  if (unit.ends_with("b")) unit.pop_back();
  if (unit.size() == 2 && unit[1] == 'i') unit.pop_back();
  const size_t power = std::string(" kmg").find(unit.empty() ? " " : unit);
  if (bad != std::errc() || unit.size() > 1 || power == std::string::npos) {
    return fail(ncclInvalidArgument, "'%s' is no size: want such as 8, 64K, 56M or 1G",
                text.c_str());
  }
  if (value > kMostBytes >> (10 * power)) {
    return fail(ncclInvalidArgument, "'%s' is too large: want at most 2^60", text.c_str());
  }
  return value << (10 * power);
}

std::string bytesText(uint64_t bytes) {
  constexpr std::array<const char*, 4> kUnits = {"bytes", "KiB", "MiB", "GiB"};
  size_t unit = 0;
  while (unit + 1 < kUnits.size() && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    unit++;
  }
  if (unit == 0 && bytes == 1) return "1 byte";
  return std::to_string(bytes) + " " + kUnits[unit];
}

}  // namespace nccom
