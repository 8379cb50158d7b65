#include "misc/socket.h"

#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace nccom {
namespace {

constexpr int kBacklog = 16384;  // the kernel clamps it to net.core.somaxconn
constexpr int kFirstRetryMs = 1;
constexpr int kLastRetryMs = 100;
constexpr int kKeepIdleSec = 30;  // with the next two: a silent host is dead after a minute
constexpr int kKeepIntervalSec = 10;
constexpr int kKeepProbes = 3;

Error socketError(const char* what, const SocketAddress& peer, int error) {
  return fail(socketErrorCode(error), "%s %s: %s", what, peer.text().c_str(), strerror(error));
}

/// Waits for `events` on `fd`, or for `fd` < 0 just a while. Returns 0 when they are there, or the
/// errno value that ends the wait: ETIMEDOUT past the deadline, ECANCELED when aborted.
int pollUntil(int fd, short events, const Deadline& deadline) {
  while (true) {
    if (deadline.aborted()) return ECANCELED;
    pollfd entry{fd, events, 0};
    const int ready = poll(&entry, 1, deadline.sleepMs());
    if (ready > 0) return 0;
    if (ready < 0 && errno != EINTR) return errno;
    if (deadline.passed()) return ETIMEDOUT;
  }
}

Error waitError(const char* what, const SocketAddress& peer, int error, const Deadline& deadline) {
  if (error == ECANCELED) {
    return fail(ncclInternalError, "%s %s: aborted", what, peer.text().c_str());
  }
  if (error == ETIMEDOUT) {
    return fail(ncclRemoteError, "%s %s: no progress within %lld ms", what, peer.text().c_str(),
                static_cast<long long>(deadline.length().count()));
  }
  return socketError(what, peer, error);
}

Result<UniqueFd> newSocket(const SocketAddress& address) {
  if (!address.valid()) {
    return fail(ncclInvalidArgument, "socket: address of family %d, neither IPv4 nor IPv6",
                address.family());
  }
  UniqueFd fd(socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return socketError("socket for", address, errno);
  return fd;
}

/// Options of every connection. Best effort: without them it is slower, or slower to notice.
void setConnectionOptions(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kKeepIdleSec, sizeof kKeepIdleSec);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &kKeepIntervalSec, sizeof kKeepIntervalSec);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kKeepProbes, sizeof kKeepProbes);
}

Result<SocketAddress> localAddress(int fd) {
  sockaddr_storage raw{};
  socklen_t length = sizeof raw;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&raw), &length) != 0) {
    return fail(ncclSystemError, "getsockname: %s", strerror(errno));
  }
  return SocketAddress::of(reinterpret_cast<const sockaddr*>(&raw), length);
}

/// The outcome of a pending connect: 0, or its errno.
int connectOutcome(int fd, const SocketAddress& to) {
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  if (error != 0) return error;
  // A connect to an ephemeral port of this host where nobody listens may meet itself: the kernel
  // chose the very port as its source. That is nobody.
  const auto local = localAddress(fd);
  return local.ok() && local.value() == to ? ECONNREFUSED : 0;
}

bool worthRetrying(int error) {
  switch (error) {
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EADDRNOTAVAIL:
    case EAGAIN:
      return true;
    default:
      return false;
  }
}

/// One attempt; fills `fd` on success. Returns 0, the errno of the attempt, or ECANCELED.
int attempt(const SocketAddress& to, UniqueFd& fd, const Deadline& deadline) {
  if (::connect(fd.get(), to.raw(), to.rawLength()) != 0 && errno != EINPROGRESS) return errno;
  if (const int error = pollUntil(fd.get(), POLLOUT, deadline)) return error;
  return connectOutcome(fd.get(), to);
}

/// An accept error of the connection that was in the queue, not of the listener.
bool onlyThatConnection(int error) {
  switch (error) {
    case ECONNABORTED:
    case EPROTO:
    case EPERM:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
    case EINTR:
      return true;
    default:
      return false;
  }
}

}  // namespace

ncclResult_t socketErrorCode(int errnoValue) {
  switch (errnoValue) {
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
    case ENOTCONN:
      return ncclRemoteError;
    default:
      return ncclSystemError;
  }
}

Result<Socket> Socket::connect(const SocketAddress& to, const Deadline& deadline) {
  int waitMs = kFirstRetryMs;
  while (true) {
    UniqueFd fd = TRY(newSocket(to));
    const int error = attempt(to, fd, deadline);
    if (error == 0) {
      setConnectionOptions(fd.get());
      return Socket(std::move(fd), to);
    }
    if (error == ECANCELED) return waitError("connect to", to, error, deadline);
    if (!worthRetrying(error)) return socketError("connect to", to, error);
    const int pause = std::min(waitMs, deadline.sleepMs());
    poll(nullptr, 0, pause);
    if (deadline.aborted()) return waitError("connect to", to, ECANCELED, deadline);
    if (deadline.passed()) {
      return fail(ncclRemoteError, "connect to %s: given up after %lld ms: %s", to.text().c_str(),
                  static_cast<long long>(deadline.length().count()), strerror(error));
    }
    waitMs = std::min(2 * waitMs, kLastRetryMs);
  }
}

Result<Socket> Socket::startConnect(const SocketAddress& to) {
  UniqueFd fd = TRY(newSocket(to));
  if (::connect(fd.get(), to.raw(), to.rawLength()) != 0 && errno != EINPROGRESS) {
    return socketError("connect to", to, errno);
  }
  setConnectionOptions(fd.get());
  return Socket(std::move(fd), to);
}

Result<bool> Socket::connected() {
  pollfd entry{fd_.get(), POLLOUT, 0};
  const int ready = poll(&entry, 1, 0);
  if (ready < 0 && errno != EINTR) return socketError("connect to", peer_, errno);
  if (ready <= 0) return false;
  if (const int error = connectOutcome(fd_.get(), peer_)) {
    return socketError("connect to", peer_, error);
  }
  return true;
}

Status Socket::waitFor(short events, const char* what, const Deadline& deadline) const {
  if (const int error = pollUntil(fd_.get(), events, deadline)) {
    return waitError(what, peer_, error, deadline);
  }
  return Ok{};
}

Status Socket::send(const void* data, size_t bytes, const Deadline& deadline) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const size_t sent = TRY(trySend(from, bytes));
    if (sent == 0) TRY(waitFor(POLLOUT, "send to", deadline));
    from += sent;
    bytes -= sent;
  }
  return Ok{};
}

Status Socket::recv(void* data, size_t bytes, const Deadline& deadline) {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    const size_t received = TRY(tryRecv(to, bytes));
    if (received == 0) TRY(waitFor(POLLIN, "receive from", deadline));
    to += received;
    bytes -= received;
  }
  return Ok{};
}

Result<size_t> Socket::trySend(const void* data, size_t bytes) {
  const iovec piece{const_cast<void*>(data), bytes};  // NOLINT: sendmsg() only reads it
  return bytes == 0 ? Result<size_t>(size_t{0}) : trySend(std::span(&piece, 1));
}

Result<size_t> Socket::trySend(std::span<const iovec> pieces) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());  // NOLINT: sendmsg() only reads it
  message.msg_iovlen = pieces.size();
  while (true) {
    const ssize_t sent = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return static_cast<size_t>(sent);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return size_t{0};
    if (errno != EINTR) return socketError("send to", peer_, errno);
  }
}

Result<size_t> Socket::tryRecv(void* data, size_t bytes) {
  if (bytes == 0) return size_t{0};
  while (true) {
    const ssize_t received = ::recv(fd_.get(), data, bytes, MSG_DONTWAIT);
    if (received > 0) return static_cast<size_t>(received);
    if (received == 0) {
      return fail(ncclRemoteError, "receive from %s: the peer closed the connection",
                  peer_.text().c_str());
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return size_t{0};
    if (errno != EINTR) return socketError("receive from", peer_, errno);
  }
}

Result<SocketAddress> Socket::local() const {
  return localAddress(fd_.get());
}

Result<ListenSocket> ListenSocket::open(const SocketAddress& at) {
  UniqueFd fd = TRY(newSocket(at));
  if (at.port() != 0) {
    const int on =
        1;  // a port named by the user must not stay blocked by its last user's TIME_WAIT
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  }
  if (bind(fd.get(), at.raw(), at.rawLength()) != 0) return socketError("bind to", at, errno);
  if (listen(fd.get(), kBacklog) != 0) return socketError("listen at", at, errno);
  const SocketAddress bound = TRY(localAddress(fd.get()));
  return ListenSocket(std::move(fd), bound);
}

Result<Socket> ListenSocket::tryAccept() {
  sockaddr_storage raw{};
  socklen_t length = sizeof raw;
  UniqueFd fd(
      accept4(fd_.get(), reinterpret_cast<sockaddr*>(&raw), &length, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || onlyThatConnection(errno)) {
      return Socket();
    }
    return fail(ncclSystemError, "accept at %s: %s", address_.text().c_str(), strerror(errno));
  }
  setConnectionOptions(fd.get());
  const SocketAddress peer =
      TRY(SocketAddress::of(reinterpret_cast<const sockaddr*>(&raw), length));
  return Socket(std::move(fd), peer);
}

Result<Socket> ListenSocket::accept(const Deadline& deadline) {
  while (true) {
    Socket accepted = TRY(tryAccept());
    if (accepted) return accepted;
    if (const int error = pollUntil(fd_.get(), POLLIN, deadline)) {
      if (error == ETIMEDOUT) {
        return fail(ncclRemoteError, "accept at %s: nobody connected within %lld ms",
                    address_.text().c_str(), static_cast<long long>(deadline.length().count()));
      }
      return waitError("accept at", address_, error, deadline);
    }
  }
}

}  // namespace nccom
