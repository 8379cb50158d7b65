// What an API call asks of a communicator, as values.
#pragma once

#include <cstddef>

#include "enc/task.h"
#include "include/nccl.h"

namespace nccom {

/// A collective call. `stream` is the device plugin's handle.
struct CollectiveCall {
  const char* function = "";  // "ncclAllReduce": for messages
  encOp op = encOp::AllReduce;
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;  // elements, as in the call
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t redOp = ncclSum;
  int root = 0;
  ncclComm_t comm = nullptr;
  void* stream = nullptr;
};

/// An ncclSend or ncclRecv.
struct MessageCall {
  bool send = false;
  void* buffer = nullptr;
  size_t count = 0;
  ncclDataType_t type = ncclInt8;
  int peer = 0;
  ncclComm_t comm = nullptr;
  void* stream = nullptr;
};

}  // namespace nccom
