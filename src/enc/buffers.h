// Sizes of a task's buffers, from the rules of NCCL's functions.
#pragma once

#include <cstdint>

#include "enc/program.h"
#include "enc/task.h"

namespace nccom {

/// Bytes of a rank's inputs[index] (Input) or outputs[index] (Output); 0 for buffers that the
/// operation does not use on that rank, and for other kinds of buffer.
uint64_t encBufferBytes(const encTask& task, int rank, int nRanks, encBuffer buffer,
                        uint16_t index);

/// For operations in place: where OUTPUT starts within INPUT (negative: INPUT lies within OUTPUT).
/// AlltoAll and SendRecv have no form in place.
bool encInPlace(const encTask& task, int rank, int64_t* outputInInput);

}  // namespace nccom
