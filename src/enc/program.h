// encProgram: one rank's part of one collective, as data.
//
// A program is a set of queues that run independently; a queue is a list of blocks, each repeated a
// number of times; a block is a list of descriptors in order. Addresses are symbolic and in bytes;
// sizes follow from the op's chunking, so the number of descriptors does not grow with the message.
// The same value is verified (verify.h), simulated, and lowered to the device's layout (encd.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "enc/task.h"

namespace nccom {

enum class encBuffer : uint8_t {
  Input,    // inputs[index] of a rank's launch
  Output,   // outputs[index] of a rank's launch
  Scratch,  // a rank's scratch: lives with its communicator
  Posted,   // message `index` from `rank` in this launch: read whole, once, in order of the numbers
};

struct encAddress {
  int rank = 0;
  encBuffer buffer = encBuffer::Input;
  uint16_t index = 0;
  int64_t offset = 0;  // bytes, in iteration 0 of its block
  int64_t stride = 0;  // bytes added with each iteration
  bool operator==(const encAddress&) const = default;
};

enum class encDescType : uint8_t { Transfer, Wait, Inc, Post, NetSend, NetRecv };

/// The composer's step that a descriptor came from: the field's words, for traces and reports.
enum class encStep : uint8_t {
  Copy,
  Send,
  RecvCopy,
  RecvCopySend,
  RecvReduceSend,
  RecvReduceCopy,
  RecvReduceCopySend,
  PostSend,
  PostRecv,
  Pull,
  Sync,
};
/// Steps from here on are events of meshes (mesh_types.h).
inline constexpr int kFirstMeshStep = 64;
/// Numbers below are steps; those without a meaning have empty names.
inline constexpr uint32_t kStepNumbers = 64 + 53;
const char* encStepName(encStep step);

/// One descriptor. Fields that its type does not use keep their defaults.
struct encDesc {
  encDescType type = encDescType::Transfer;
  encStep step = encStep::Copy;
  // Transfer: destinations[j] = post(fold of sources), each `bytes` long.
  std::vector<encAddress> sources, destinations;
  uint64_t bytes = 0;          // Transfer, Post, NetSend, NetRecv
  uint64_t scaledSources = 0;  // Transfer: bit k: source k is multiplied by the launch's scale
  bool divide = false;         // Transfer: the result is divided by the launch's divisor
  // Wait: own `semaphore` >= base at launch + value (+ stride each iteration), compared as signed:
  // a repeated wait may start below the base; `rank` raises it, -1: the proxy. Inc: `semaphore` of
  // `rank` += value. Post: tells `rank` where inputs[index] is, as message `value` from us in this
  // launch. Messages between two ranks match in order over all launches: the message's number
  // overall is the posts of earlier launches + value. Reading it, as POSTED, waits for its post,
  // and knows what the post knew. Message n waits until the receiver has read message n -
  // kMaxPosted, or n - kMaxPostedValues if it goes by value, and knows what that reading knew.
  int rank = -1;
  uint32_t semaphore = 0;
  int64_t value = 0;
  int64_t stride = 0;
  uint16_t index = 0;
  /// Post: a copy of the buffer is made there and then, and this rank need not wait for its reader.
  /// At most kMaxValueBytes.
  bool byValue = false;
  // NetSend, NetRecv: `connection` indexes encProgram::connections; the buffer is `net`, own
  // SCRATCH.
  uint32_t connection = 0;
  encAddress net;
  bool operator==(const encDesc&) const = default;
};

struct encBlock {
  uint64_t repeat = 1;
  std::vector<encDesc> descs;
  bool operator==(const encBlock&) const = default;
};

struct encQueue {
  uint32_t channel = 0;
  std::vector<encBlock> blocks;
  bool operator==(const encQueue&) const = default;
};

/// A network connection that a program uses. Ring connections carry their channel; point-to-point
/// ones have channel kP2pChannel.
inline constexpr int kP2pChannel = -1;
struct encConnection {
  int peer = -1;
  int channel = 0;
  bool send = false;
  uint32_t semaphore = 0;  // own semaphore that the proxy raises by one for each completed entry
  bool operator==(const encConnection&) const = default;
};

/// Of an INPUT that is given by value, and of a message.
inline constexpr uint64_t kMaxValueBytes = 512;

/// A program without queues has nothing to do: it is complete as soon as it is launched.
struct encProgram {
  int rank = 0;
  int nRanks = 1;
  encTask task;
  std::string algorithm;         // "ring", "p2p", "copy"
  std::vector<encQueue> queues;  // no queue and no block is empty
  std::vector<encConnection> connections;
  std::vector<std::pair<uint32_t, uint64_t>>
      totals;                 // (own semaphore, increments in one launch), sorted
  uint64_t scratchBytes = 0;  // highest scratch byte of this rank used by anybody + 1
  bool peerInputs = false;    // other ranks read this rank's INPUT, or what it posts by reference
  bool peerOutputs = false;   // other ranks write this rank's OUTPUT
  /// They read a copy of INPUT, which is made when the program is launched and stays as long as
  /// anybody may read it: this rank need not wait for them. At most kMaxValueBytes.
  bool inputByValue = false;
  bool operator==(const encProgram&) const = default;
};

/// One line a descriptor, for logs, golden files and failed tests.
std::string encDump(const encProgram& program);
std::string encDump(const encDesc& desc);

}  // namespace nccom
