// Connected TCP sockets within the process, for the targets that read from one.
#pragma once

#include <poll.h>

#include <chrono>
#include <utility>

#include "misc/socket.h"
#include "test/fuzz/fuzz.h"

namespace nccom {

inline Deadline fuzzDeadline() {
  return Deadline::after(std::chrono::seconds(10));
}

/// Two ends of one connection.
inline std::pair<Socket, Socket> socketPair() {
  auto listener = ListenSocket::open(SocketAddress::loopback(AF_INET));
  fuzzRequire(listener.ok(), "a listener on loopback");
  auto near = Socket::connect(listener.value().address(), fuzzDeadline());
  fuzzRequire(near.ok(), "a connection to it");
  auto far = listener.value().accept(fuzzDeadline());
  fuzzRequire(far.ok(), "its other end");
  return {std::move(near).value(), std::move(far).value()};
}

/// Sends the bytes; the other end may hang up on them.
inline void sendBytes(Socket& socket, FuzzInput input) {
  (void)socket.send(input.data(), input.size(), fuzzDeadline()).ok();
}

}  // namespace nccom
