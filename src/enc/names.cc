#include <cinttypes>
#include <cstdio>
#include <iterator>

#include "enc/mesh_types.h"
#include "enc/program.h"
#include "enc/task.h"

namespace nccom {
namespace {

constexpr const char* kOpNames[] = {"AllGather",     "AllReduce", "Broadcast",    "Reduce",
                                    "ReduceScatter", "AlltoAll",  "Gather",       "Scatter",
                                    "SendRecv",      "Permute",   "PermuteReduce"};
constexpr const char* kStepNames[] = {"copy",
                                      "send",
                                      "recv_copy",
                                      "recv_copy_send",
                                      "recv_reduce_send",
                                      "recv_reduce_copy",
                                      "recv_reduce_copy_send",
                                      "post_send",
                                      "post_recv",
                                      "pull",
                                      "sync"};
constexpr const char* kBufferNames[] = {"INPUT", "OUTPUT", "SCRATCH", "POSTED"};

std::string signedTerm(int64_t stride) {
  return stride == 0 ? "" : (stride > 0 ? "+" : "") + std::to_string(stride) + "i";
}

std::string dump(const encAddress& address) {
  std::string text =
      std::to_string(address.rank) + ":" + kBufferNames[static_cast<size_t>(address.buffer)];
  if (address.index != 0) text += std::to_string(address.index);
  return text + "[" + std::to_string(address.offset) + signedTerm(address.stride) + "]";
}

std::string dumpTransfer(const encDesc& desc) {
  std::string text;
  for (size_t i = 0; i < desc.sources.size(); i++) {
    text += (i > 0 ? " + " : " ") + dump(desc.sources[i]);
    if ((desc.scaledSources >> i & 1) != 0) text += "*scale";
  }
  text += desc.divide ? " /n ->" : " ->";
  for (const encAddress& destination : desc.destinations)
    text += " " + dump(destination);
  return text + " " + std::to_string(desc.bytes);
}

}  // namespace

const char* encOpName(encOp op) {
  return kOpNames[static_cast<size_t>(op)];
}

const char* encStepName(encStep step) {
  const int number = static_cast<int>(step);
  if (number >= kFirstMeshStep) {
    return encMeshEventName(static_cast<enc_mesh_event_type>(number - kFirstMeshStep));
  }
  return number < static_cast<int>(std::size(kStepNames)) ? kStepNames[number] : "";
}

std::string encDump(const encDesc& desc) {
  std::string text = encStepName(desc.step);
  const std::string semaphore = "s" + std::to_string(desc.semaphore);
  switch (desc.type) {
    case encDescType::Transfer:
      return text + dumpTransfer(desc);
    case encDescType::Wait:
      text += " wait " + semaphore + " >= " + std::to_string(desc.value) + signedTerm(desc.stride);
      return text + (desc.rank < 0 ? " by proxy" : " by " + std::to_string(desc.rank));
    case encDescType::Inc:
      return text + " inc " + std::to_string(desc.rank) + ":" + semaphore + " " +
             std::to_string(desc.value);
    case encDescType::Post:
      return text + " post INPUT" + std::to_string(desc.index) + " to " +
             std::to_string(desc.rank) + " as " + std::to_string(desc.value) + " " +
             std::to_string(desc.bytes) + (desc.byValue ? " by value" : "");
    case encDescType::NetSend:
    case encDescType::NetRecv:
      return text + (desc.type == encDescType::NetSend ? " net_send c" : " net_recv c") +
             std::to_string(desc.connection) + " " + dump(desc.net) + " " +
             std::to_string(desc.bytes);
  }
  return text;
}

std::string encDump(const encProgram& program) {
  std::string text = "rank " + std::to_string(program.rank) + " of " +
                     std::to_string(program.nRanks) + ": " + encOpName(program.task.op) + ", " +
                     program.algorithm + ", scratch " + std::to_string(program.scratchBytes) + "\n";
  for (size_t i = 0; i < program.connections.size(); i++) {
    const encConnection& c = program.connections[i];
    text += "  c" + std::to_string(i) + (c.send ? " to " : " from ") + std::to_string(c.peer) +
            " channel " + std::to_string(c.channel) + " raises s" + std::to_string(c.semaphore) +
            "\n";
  }
  for (size_t q = 0; q < program.queues.size(); q++) {
    text += "  queue " + std::to_string(q) + " channel " +
            std::to_string(program.queues[q].channel) + "\n";
    for (const encBlock& block : program.queues[q].blocks) {
      text += "    block x" + std::to_string(block.repeat) + "\n";
      for (const encDesc& desc : block.descs)
        text += "      " + encDump(desc) + "\n";
    }
  }
  for (const auto& [semaphore, total] : program.totals) {
    text += "  s" + std::to_string(semaphore) + " += " + std::to_string(total) + "\n";
  }
  return text;
}

}  // namespace nccom
