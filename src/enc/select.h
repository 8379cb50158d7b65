// Which algorithm a task gets, and why; and its program.
#pragma once

#include <string>

#include "enc/comm_info.h"
#include "enc/program.h"
#include "enc/task.h"
#include "misc/result.h"

namespace nccom {

/// Values below 32 are the Neuron runtime's enc_alg_type; those from 32 are ours.
enum class encAlgorithm : uint8_t {
  Ring = 0,
  P2p = 32,   // pull within a host, staged messages between hosts
  Copy = 33,  // one rank
};
const char* encAlgorithmName(encAlgorithm algorithm);

struct encChoice {
  encAlgorithm algorithm = encAlgorithm::Ring;
  std::string why;
};

/// @error ncclInvalidArgument  info or task are wrong by themselves: see encCheckComm, encCheckTask
Result<encChoice> encSelect(const enc_comm_info& info, const encTask& task);

/// This rank's program by the algorithm that encSelect names. Pure: equal arguments give equal
/// programs, on any rank and in any process.
Result<encProgram> encCompose(const enc_comm_info& info, const encTask& task);

}  // namespace nccom
