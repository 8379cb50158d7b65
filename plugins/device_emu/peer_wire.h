// What processes say to each other over their sockets, and the sockets: one message a packet.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "plugins/device_emu/owned.h"
#include "plugins/device_emu/peers.h"
#include "plugins/device_emu/status.h"

namespace nccom::emu {

inline constexpr uint64_t kHeaderMagic = 0x5245444145484e43;  // "CNHEADER"
inline constexpr uint32_t kExportMagic = 0x31454e43;          // "CNE1": carries the version
inline constexpr uint32_t kPeerVersion = 1;

// The caller's first packet.
struct HelloMessage {
  static constexpr uint64_t kMagic = 0x004f4c4c45484e43;  // "CNHELLO"
  uint64_t magic = kMagic;
  uint32_t version = kPeerVersion;
  uint32_t reserved = 0;
  ProcessToken to;    // whom the caller means: a secret
  ProcessToken from;  // who it is
};

// The answer to a good Hello; the HBM's descriptor comes with it. A bad one gets none.
struct WelcomeMessage {
  static constexpr uint64_t kMagic = 0x4d4f434c45574e43;  // "CNWELCOM"
  uint64_t magic = kMagic;
  uint64_t hbmBytes = 0;
};

// Either side, before it closes in order. An end without it is a death.
struct GoodbyeMessage {
  static constexpr uint64_t kMagic = 0x004559424f4f474e;  // "NGOOBYE"
  uint64_t magic = kMagic;
};

static_assert(std::is_trivially_copyable_v<HelloMessage> && sizeof(HelloMessage) == 48);
static_assert(std::is_trivially_copyable_v<WelcomeMessage> && sizeof(WelcomeMessage) == 16);

using SocketName = std::array<uint8_t, 16>;

/// Fills `bytes` of random data from the kernel.
Status randomBytes(void* to, size_t bytes);

/// A listening socket with the abstract name "nccom-<hex of name>". Non-blocking.
Result<OwnedFd> listenAt(const SocketName& name);

struct Connected {
  OwnedFd fd;  // empty: `error` says why
  int error;   // errno; EAGAIN: no answer until the deadline
};
/// A socket connected to listenAt(name). Blocking, until `deadline` in each of its operations.
Connected connectTo(const SocketName& name, std::chrono::steady_clock::time_point deadline);

/// User and process at the other end. A pid of 0: not in our pid namespace.
Result<ucred> credentialsOf(int fd);

/// Lets operations on a blocking socket end at `deadline`, with EAGAIN; at once if it has passed.
void setSocketDeadline(int fd, std::chrono::steady_clock::time_point deadline);
void setNonBlocking(int fd);

/// Sends one packet, with a descriptor if `passed` >= 0. False: errno says why.
bool sendPacket(int fd, const void* data, size_t bytes, int passed = -1);

/// Receives one packet of at most `bytes`.
/// @param passed  receives a descriptor that came with it; nullptr: such a descriptor is dropped
/// @return its size, more than `bytes` if it was longer; 0 when the other side has closed; -1:
/// errno
ssize_t receivePacket(int fd, void* data, size_t bytes, OwnedFd* passed = nullptr);

}  // namespace nccom::emu
