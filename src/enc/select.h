// Which algorithm a task gets, and why; and its program.
#pragma once

#include <optional>
#include <string>

#include "enc/alg_select.h"
#include "enc/comm_info.h"
#include "enc/program.h"
#include "enc/task.h"
#include "misc/result.h"

namespace nccom {

/// Values below 32 are the runtime's enc_alg_type; those from 32 are ours.
enum class encAlgorithm : uint8_t {
  P2p = 32,      // pull within a host, staged messages between hosts
  Copy = 33,     // one rank
  Permute = 34,  // pulled within a host, staged between hosts
  Direct = 35,   // all ranks share memory: each input read once, each output written once
  Staged = 36,   // the same, where ranks reach copies of buffers only
};
constexpr encAlgorithm encAlgorithmOf(enc_alg_type alg) {
  return static_cast<encAlgorithm>(alg);
}
/// The runtime's algorithm; Invalid: one of ours.
constexpr enc_alg_type encAlgTypeOf(encAlgorithm algorithm) {
  return algorithm < encAlgorithm::P2p ? static_cast<enc_alg_type>(algorithm)
                                       : enc_alg_type::Invalid;
}
const char* encAlgorithmName(encAlgorithm algorithm);

struct encChoice {
  encAlgorithm algorithm = encAlgorithmOf(enc_alg_type::Ring);
  std::string why;
  std::optional<encAlgSelection> selection;  // if the runtime's table was asked
};

/// On hosts without devices, ranks that share memory take the direct way (enc/direct.h), wherever
/// that may be, unless options name an algorithm; so they do on devices if options.shared says so.
///
/// Else AllGather, AllReduce, ReduceScatter and AlltoAll go by the runtime's table where the
/// machine is known (info.peers), and to info.options.forced if that names an algorithm; but
/// PreMulSum, whose scalar is each rank's own, is for rings, where ranks multiply their own inputs.
/// Broadcast and Reduce are chains on rings; everything else goes point to point, and so does
/// AlltoAll where no mesh is admitted.
///
/// @error ncclInvalidArgument  info or task are wrong by themselves: see encCheckComm,
/// encCheckTask;
///                             a forced algorithm that is not admitted, or that does not compose
///                             the operation, with the rule
Result<encChoice> encSelect(const enc_comm_info& info, const encTask& task);

/// This rank's program by the algorithm that encSelect names. Pure: equal arguments give equal
/// programs, on any rank and in any process.
Result<encProgram> encCompose(const enc_comm_info& info, const encTask& task);

}  // namespace nccom
