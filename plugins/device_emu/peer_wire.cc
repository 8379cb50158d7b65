#include "plugins/device_emu/peer_wire.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace nccom::emu {
namespace {

constexpr int kBacklog = 256;

struct Address {
  sockaddr_un name{};
  socklen_t bytes = 0;
};

Address abstractAddress(const SocketName& name) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text = "nccom-";
  for (const uint8_t byte : name) {
    text += kHex[byte >> 4];
    text += kHex[byte & 15];
  }
  Address address;
  address.name.sun_family = AF_UNIX;
  // The leading NUL makes the name abstract: it is in no file system and ends with the socket.
  std::copy(text.begin(), text.end(), address.name.sun_path + 1);
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return address;
}

}  // namespace

Status randomBytes(void* to, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t got = getrandom(static_cast<char*>(to) + done, bytes - done, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(ncclSystemError, "getrandom: %s", strerror(errno));
    done += static_cast<size_t>(got);
  }
  return Ok{};
}

Result<OwnedFd> listenAt(const SocketName& name) {
  OwnedFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    return fail(ncclSystemError, "no unix socket to share device memory over: %s", strerror(errno));
  }
  const Address address = abstractAddress(name);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address.name), address.bytes) != 0 ||
      listen(fd.get(), kBacklog) != 0) {
    return fail(ncclSystemError, "abstract unix socket @%s: %s", address.name.sun_path + 1,
                strerror(errno));
  }
  return fd;
}

Connected connectTo(const SocketName& name, std::chrono::steady_clock::time_point deadline) {
  OwnedFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) return {{}, errno};
  const Address address = abstractAddress(name);
  while (true) {
    setSocketDeadline(fd.get(), deadline);  // connect() waits so long for room in the backlog
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.name), address.bytes) == 0) {
      return {std::move(fd), 0};
    }
    if (errno != EINTR) return {{}, errno};
  }
}

Result<ucred> credentialsOf(int fd) {
  ucred credentials{};
  socklen_t bytes = sizeof credentials;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) {
    return fail(ncclSystemError, "getsockopt(SO_PEERCRED): %s", strerror(errno));
  }
  return credentials;
}

void setSocketDeadline(int fd, std::chrono::steady_clock::time_point deadline) {
  using std::chrono::microseconds;
  const auto left =
      std::chrono::duration_cast<microseconds>(deadline - std::chrono::steady_clock::now());
  // 0 would mean for ever, and a far deadline would overflow the field.
  const int64_t micros = std::clamp<int64_t>(left.count(), 1, int64_t{86'400'000'000});
  timeval time{};
  time.tv_sec = micros / 1'000'000;
  time.tv_usec = micros % 1'000'000;
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
}

void setNonBlocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags >= 0) fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

bool sendPacket(int fd, const void* data, size_t bytes, int passed) {
  iovec part = {const_cast<void*>(data), bytes};  // sendmsg only reads it
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (passed >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &passed, sizeof passed);
  }
  ssize_t sent = -1;
  while ((sent = sendmsg(fd, &message, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
  }
  return sent == static_cast<ssize_t>(bytes);
}

ssize_t receivePacket(int fd, void* data, size_t bytes, OwnedFd* passed) {
  iovec part = {data, bytes};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  // Room for one descriptor: the kernel drops what a stranger may send beyond it.
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  ssize_t received = -1;
  // A peer that closes with a packet of ours unread resets the connection. The error comes once,
  // and before what the peer still said: ask again.
  for (int resets = 0; resets < 2;) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    received = recvmsg(fd, &message, MSG_TRUNC | MSG_CMSG_CLOEXEC);
    if (received >= 0) break;
    if (errno == ECONNRESET) {
      resets++;
    } else if (errno != EINTR) {
      return -1;
    }
  }
  if (received < 0) return -1;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    if (header->cmsg_len < CMSG_LEN(sizeof(int))) continue;
    int descriptor = -1;
    memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
    OwnedFd owned(descriptor);
    if (passed != nullptr) *passed = std::move(owned);
  }
  return received;
}

}  // namespace nccom::emu
