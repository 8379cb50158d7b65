// What bootstrap peers say to each other, and what a unique id holds.
//
// All of it is fixed-width, of one byte order (peers are of one architecture) and checked by the
// receiver: first a magic number, so that a stranger is known by his first eight bytes, then the
// secret of the id.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "include/nccl.h"
#include "misc/address.h"
#include "misc/result.h"

namespace nccom {

inline constexpr uint64_t kBootstrapMagic = 0x3162736d6f63636eULL;  // "nccomsb1" in memory
inline constexpr uint32_t kBootstrapVersion = 1;

/// The content of an ncclUniqueId.
struct BootstrapId {
  uint64_t secret = 0;      // who knows it belongs to the communicator
  SocketAddress root;       // where the ranks check in
  bool fromCommId = false;  // the address is NCCL_COMM_ID's: rank 0 serves it when it initialises

  bool operator==(const BootstrapId&) const = default;
};

ncclUniqueId packUniqueId(const BootstrapId& id);

/// @error  ncclInvalidArgument  all zero, damaged, or not made by this library
Result<BootstrapId> unpackUniqueId(const ncclUniqueId& id);

/// The id that every rank derives from NCCL_COMM_ID by itself.
///
/// @error  ncclInvalidArgument  `commId` is no address; the text names the variable
Result<BootstrapId> idFromCommId(const std::string& commId, int family);

/// 64 random bits.
Result<uint64_t> randomBits();

/// Who a process is, for messages.
struct ProcessName {
  char host[60] = {};  // NUL-terminated, cut if longer
  int32_t pid = 0;
};

/// This process.
ProcessName ownName();

/// "host h1, pid 12". Names from the wire may hold anything; only printable text comes out.
std::string describeProcess(const ProcessName& name);
/// "rank 3 (host h1, pid 12)".
std::string describeRank(int rank, const ProcessName& name);

/// Client to root.
struct CheckIn {
  uint64_t magic = kBootstrapMagic;
  uint64_t secret = 0;
  uint32_t version = kBootstrapVersion;
  int32_t rank = 0;
  int32_t nRanks = 0;
  SocketAddress listen;
  ProcessName name;
};
static_assert(sizeof(CheckIn) == 120 && std::is_trivially_copyable_v<CheckIn>);

/// Root to client, followed by textBytes of text if code is not ncclSuccess.
struct Verdict {
  uint64_t magic = kBootstrapMagic;
  uint64_t clusterId = 0;
  uint64_t epoch = 0;  // seconds since 1970
  int32_t code = ncclSuccess;
  uint32_t textBytes = 0;
  SocketAddress next;  // of the rank after the receiver
  uint32_t reserved = 0;
  ProcessName nextName;
};
static_assert(sizeof(Verdict) == 128 && std::is_trivially_copyable_v<Verdict>);
inline constexpr uint32_t kMaxVerdictText = 65536;  // bytes

enum class HelloKind : uint32_t { Ring = 1, Control = 2, Messages = 3 };

/// First words on a connection between two ranks.
struct Hello {
  uint64_t magic = kBootstrapMagic;
  uint64_t secret = 0;
  uint32_t version = kBootstrapVersion;
  HelloKind kind = HelloKind::Ring;
  int32_t from = 0;
  int32_t to = 0;
  ProcessName name;
};
static_assert(sizeof(Hello) == 96 && std::is_trivially_copyable_v<Hello>);

/// Before the parts of an all-gather, so that a rank which gathers something else is found out.
struct GatherHeader {
  uint64_t sequence = 0;  // of the all-gathers of the communicator
  uint64_t bytes = 0;     // of a part
  char stage[48] = {};
};
static_assert(sizeof(GatherHeader) == 64);

/// Before each message from rank to rank.
struct MessageHeader {
  uint32_t tag = 0;
  uint32_t reserved = 0;
  uint64_t bytes = 0;
};
static_assert(sizeof(MessageHeader) == 16);
inline constexpr uint64_t kMaxMessageBytes = 1ULL << 30;

}  // namespace nccom
