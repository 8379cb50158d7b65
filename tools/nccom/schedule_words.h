// How operations, types and sizes are written on the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "enc/alg_types.h"
#include "enc/task.h"
#include "misc/result.h"

namespace nccom {

/// An operation: one that programs are composed for, one that the runtime's table knows, or both.
struct ScheduleOp {
  std::string name;         // "all_reduce"
  std::optional<encOp> op;  // nothing: no function of NCCL's stands for it
  enc_op_type type = enc_op_type::Invalid;
  bool operator==(const ScheduleOp&) const = default;

  bool reduces() const;
  bool hasRoot() const;
  /// Each rank has a part of its own: sizes count all parts together.
  bool isParted() const;
  /// Pairs of the group say who gives to whom.
  bool isAlongPairs() const { return type == enc_op_type::Permute; }
};

/// "all_reduce", "AllReduce", "allreduce": case, '_' and '-' do not matter.
/// @error ncclInvalidArgument  unknown; the message lists the known ones
Result<ScheduleOp> parseScheduleOp(const std::string& text);

/// "float", "float32", "half", "bfloat16", "int8", ...
/// @error ncclInvalidArgument  unknown; the message lists the known ones
Result<ncclDataType_t> parseScheduleType(const std::string& text);

/// "sum", ... "avg", and "mulsum", the operator of ncclRedOpCreatePreMulSum.
/// @error ncclInvalidArgument  unknown; the message lists the known ones
Result<ncclRedOp_t> parseScheduleRedOp(const std::string& text);

/// A whole number, perhaps with K, M or G (powers of 1024; "KB" and "KiB" too).
/// @error ncclInvalidArgument  anything else, or more than 2^60
Result<uint64_t> parseScheduleBytes(const std::string& text);

/// "56 MiB" of whole units; else "1000 bytes".
std::string bytesText(uint64_t bytes);

}  // namespace nccom
