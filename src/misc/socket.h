// TCP streams and listeners: exact transfers with deadlines, and steps that never block.
//
// All sockets are non-blocking and close-on-exec inside; the calls that take a Deadline wait in
// poll(). A dead peer is an Error, never SIGPIPE. An object is used by one thread at a time.
// Errors of all calls: ncclRemoteError when the peer is gone, refused, or silent until the
// deadline; ncclInternalError when the deadline's flag was raised; ncclSystemError for the rest.
// The text names the operation, the peer and the system's words.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "misc/address.h"
#include "misc/deadline.h"
#include "misc/fd.h"
#include "misc/result.h"

namespace nccom {

/// One TCP connection, with TCP_NODELAY and keep-alive: a host that is gone is noticed in a minute.
class Socket {
 public:
  Socket() = default;

  /// Connects and waits. A refused or unanswered attempt is repeated until the deadline: the peer
  /// may not listen yet.
  static Result<Socket> connect(const SocketAddress& to, const Deadline& deadline);

  /// Starts to connect; progress with connected(). Does not block.
  static Result<Socket> startConnect(const SocketAddress& to);

  /// Whether the connection that startConnect() began is established. One attempt: a refusal is an
  /// Error.
  Result<bool> connected();

  /// Sends or receives exactly `bytes`.
  Status send(const void* data, size_t bytes, const Deadline& deadline);
  Status recv(void* data, size_t bytes, const Deadline& deadline);

  /// Sends or receives what goes without blocking; returns how many bytes went, 0: none now. A peer
  /// that closed the connection is an Error of tryRecv.
  Result<size_t> trySend(const void* data, size_t bytes);
  Result<size_t> tryRecv(void* data, size_t bytes);
  /// trySend of several pieces, one after the other; at most IOV_MAX.
  Result<size_t> trySend(std::span<const iovec> pieces);

  /// The other end, as connected to or accepted from.
  const SocketAddress& peer() const { return peer_; }
  /// This end, as the system chose it.
  Result<SocketAddress> local() const;

  int fd() const { return fd_.get(); }  // borrowed, for poll()
  explicit operator bool() const { return static_cast<bool>(fd_); }
  void close() { fd_.reset(); }

 private:
  friend class ListenSocket;
  Socket(UniqueFd fd, const SocketAddress& peer) : fd_(std::move(fd)), peer_(peer) {}

  Status waitFor(short events, const char* what, const Deadline& deadline) const;

  UniqueFd fd_;
  SocketAddress peer_;
};

/// A listening TCP socket.
class ListenSocket {
 public:
  ListenSocket() = default;

  /// Listens at `at`; port 0: any free one, see address().
  static Result<ListenSocket> open(const SocketAddress& at);

  /// The next connection. Whoever connects is accepted: the caller authenticates.
  Result<Socket> accept(const Deadline& deadline);
  /// The same without waiting; an empty Socket (false) when nobody has connected.
  Result<Socket> tryAccept();

  /// Where it listens, with the port in use.
  const SocketAddress& address() const { return address_; }

  int fd() const { return fd_.get(); }  // borrowed, for poll()
  explicit operator bool() const { return static_cast<bool>(fd_); }
  void close() { fd_.reset(); }

 private:
  ListenSocket(UniqueFd fd, const SocketAddress& address) : fd_(std::move(fd)), address_(address) {}

  UniqueFd fd_;
  SocketAddress address_;
};

/// The code of an error of a connection: ncclRemoteError if it speaks of the peer or the way there,
/// else ncclSystemError.
ncclResult_t socketErrorCode(int errnoValue);

}  // namespace nccom
