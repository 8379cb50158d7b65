// Communicators on known machines, and what to ask of programs of the ring family.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "enc/comm_shape.h"
#include "enc/program.h"
#include "enc/verify.h"
#include "misc/datatype.h"
#include "test/unit/enc/reference.h"

namespace nccom::test {

/// A communicator over whole servers' logical cores `cores`; see encShapeComm.
inline World shaped(const std::string& platform, int lnc,
                    const std::vector<std::vector<int>>& coresOf, encSizes sizes = {}) {
  encMachine machine;
  if (platform != "host") machine.platform = findPlatform(platform).value();
  machine.hostDevices = 64;
  machine.lnc = lnc;
  auto info = encShapeComm(machine, coresOf);
  EXPECT_TRUE(info.ok()) << info.error().message;
  World world;
  world.comm = std::move(info).value();
  world.comm->sizes = sizes;
  return world;
}

/// The first devices of one server, all their cores.
inline World wholeDevices(const std::string& platform, int lnc, int devices, encSizes sizes = {}) {
  const int perDevice = findPlatform(platform).value()->logicalPerDevice(lnc);
  std::vector<int> cores;
  for (int core = 0; core < devices * perDevice; core++)
    cores.push_back(core);
  return shaped(platform, lnc, {cores}, sizes);
}

inline std::string label(const World& world, const encTask& task) {
  return std::string(encOpName(task.op)) + " " + std::to_string(task.count) + " " +
         ncclTypeName(task.type) + " " + ncclOpName(task.redOp) + ", " + world.text();
}

/// What the verifier says of a sequence of operations; empty: nothing.
inline std::string verified(const World& world, const std::vector<encOperation>& operations,
                            bool inPlace = false) {
  const enc_comm_info info = world.info(0);
  const Status status = encVerify(info, operations, {.inPlace = inPlace});
  return status.ok() ? "" : status.error().message;
}

/// Bytes read and written by all ranks.
inline uint64_t memoryAccesses(const encOperation& operation) {
  uint64_t bytes = 0;
  for (const encProgram& program : operation) {
    for (const encQueue& queue : program.queues) {
      for (const encBlock& block : queue.blocks) {
        for (const encDesc& desc : block.descs) {
          if (desc.type != encDescType::Transfer) continue;
          bytes += block.repeat * desc.bytes * (desc.sources.size() + desc.destinations.size());
        }
      }
    }
  }
  return bytes;
}

inline size_t descriptors(const encProgram& program) {
  size_t count = 0;
  for (const encQueue& queue : program.queues) {
    for (const encBlock& block : queue.blocks)
      count += block.descs.size();
  }
  return count;
}

}  // namespace nccom::test
