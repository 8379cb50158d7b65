// The control connection of two ends: a TCP connection beside the fabric.
//
// It carries the greeting that makes a connection (addresses of any size, without the fabric's
// help), then notes of few bytes. It stays open as long as both ends live: its end of file is the
// one sign of a peer's death that every provider has in common, also after kill -9.
#pragma once

#include <netinet/in.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "include/plugin/nccl_net.h"

namespace nccom::ofi {

/// A non-blocking stream with buffers for what does not go at once. Used by one thread at a time.
class Control {
 public:
  Control() = default;
  explicit Control(int fd) : fd_(fd) {}
  Control(Control&& other) noexcept;
  Control& operator=(Control&& other) noexcept;
  ~Control();

  /// Begins to connect; writing may start at once. @error  ncclRemoteError  refused
  static ncclResult_t startConnect(const sockaddr_in6& to, Control& out);

  /// Queues bytes and writes what goes; the rest goes with later calls.
  void send(const void* data, size_t bytes);
  /// Reads what is there; takes exactly `bytes` of it if so many have come.
  bool take(void* data, size_t bytes);

  /// Writes and reads what goes. False once the peer has closed, or the connection is lost; bytes
  /// read before can still be taken.
  bool progress();
  bool gone() const { return gone_; }
  /// How it was lost, for messages.
  const std::string& why() const { return why_; }

  /// Says that nothing more will be sent, as far as what is queued has gone.
  void finish();

 private:
  void lose(const char* why);

  int fd_ = -1;
  bool gone_ = false;
  std::string why_;
  std::vector<std::byte> out_;
  std::vector<std::byte> in_;
};

/// A listening socket for control connections.
class ControlListener {
 public:
  ControlListener() = default;
  ControlListener(const ControlListener&) = delete;
  ControlListener& operator=(const ControlListener&) = delete;
  ~ControlListener();

  /// Listens at `at`, any port.
  ncclResult_t open(const sockaddr_in6& at);
  /// The address with the port.
  const sockaddr_in6& address() const { return address_; }
  /// False: nobody has connected.
  bool accept(Control& out);

 private:
  int fd_ = -1;
  sockaddr_in6 address_{};
};

/// "192.0.2.2:5000", for messages.
std::string addressText(const sockaddr_in6& address);

}  // namespace nccom::ofi
