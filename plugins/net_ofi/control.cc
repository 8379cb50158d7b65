#include "plugins/net_ofi/control.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "plugins/net_ofi/log.h"

namespace nccom::ofi {
namespace {

constexpr int kBacklog = 4096;  // the kernel clamps it to net.core.somaxconn
constexpr size_t kReadBytes = 1024;

socklen_t lengthOf(const sockaddr_in6& address) {
  return address.sin6_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

const sockaddr* raw(const sockaddr_in6& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

void setOptions(int fd) {
  const int on = 1, idleSec = 30, intervalSec = 10, probes = 3;  // a dead host shows in a minute
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idleSec, sizeof idleSec);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &intervalSec, sizeof intervalSec);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

}  // namespace

std::string addressText(const sockaddr_in6& address) {
  char host[INET6_ADDRSTRLEN] = "?";
  if (address.sin6_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, host, sizeof host);
  } else {
    inet_ntop(AF_INET6, &address.sin6_addr, host, sizeof host);
  }
  return std::string(host) + ":" + std::to_string(ntohs(address.sin6_port));
}

Control::Control(Control&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      gone_(other.gone_),
      why_(std::move(other.why_)),
      out_(std::move(other.out_)),
      in_(std::move(other.in_)) {}

Control& Control::operator=(Control&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(gone_, other.gone_);
  why_.swap(other.why_);
  out_.swap(other.out_);
  in_.swap(other.in_);
  return *this;
}

Control::~Control() {
  if (fd_ >= 0) close(fd_);
}

ncclResult_t Control::startConnect(const sockaddr_in6& to, Control& out) {
  Control control(socket(to.sin6_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (control.fd_ < 0) return failed(ncclSystemError, "socket: %s", strerror(errno));
  setOptions(control.fd_);
  if (connect(control.fd_, raw(to), lengthOf(to)) != 0 && errno != EINPROGRESS) {
    return failed(ncclRemoteError, "connect to %s: %s", addressText(to).c_str(), strerror(errno));
  }
  out = std::move(control);
  return ncclSuccess;
}

void Control::lose(const char* why) {
  gone_ = true;
  if (why_.empty()) why_ = why;
}

void Control::send(const void* data, size_t bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  out_.insert(out_.end(), from, from + bytes);
  progress();
}

bool Control::progress() {
  while (!out_.empty() && !gone_) {
    const ssize_t sent = ::send(fd_, out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    // ENOTCONN: still connecting
    if (sent < 0 && (errno == EAGAIN || errno == ENOTCONN)) break;
    if (sent < 0) {
      why_ = strerror(errno);
      out_.clear();  // the peer will not read it; what it wrote before is still to be read
      break;
    }
    out_.erase(out_.begin(), out_.begin() + sent);
  }
  while (!gone_) {
    std::array<std::byte, kReadBytes> bytes;  // NOLINT: filled as far as used
    const ssize_t received = recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (received > 0) {
      in_.insert(in_.end(), bytes.begin(), bytes.begin() + received);
    } else if (received == 0) {
      lose("closed by the peer");
    } else if (errno != EINTR) {
      if (errno != EAGAIN && errno != ENOTCONN) lose(strerror(errno));
      break;
    }
  }
  return !gone_;
}

bool Control::take(void* data, size_t bytes) {
  if (in_.size() < bytes) progress();
  if (in_.size() < bytes) return false;
  memcpy(data, in_.data(), bytes);
  in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(bytes));
  return true;
}

void Control::finish() {
  progress();
  if (fd_ >= 0) shutdown(fd_, SHUT_WR);
}

ControlListener::~ControlListener() {
  if (fd_ >= 0) close(fd_);
}

ncclResult_t ControlListener::open(const sockaddr_in6& at) {
  fd_ = socket(at.sin6_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd_ < 0) return failed(ncclSystemError, "socket: %s", strerror(errno));
  socklen_t length = sizeof address_;
  if (bind(fd_, raw(at), lengthOf(at)) != 0 || listen(fd_, kBacklog) != 0 ||
      getsockname(fd_, reinterpret_cast<sockaddr*>(&address_), &length) != 0) {
    return failed(ncclSystemError, "listen at %s: %s", addressText(at).c_str(), strerror(errno));
  }
  return ncclSuccess;
}

bool ControlListener::accept(Control& out) {
  const int fd = accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return false;
  setOptions(fd);
  out = Control(fd);
  return true;
}

}  // namespace nccom::ofi
