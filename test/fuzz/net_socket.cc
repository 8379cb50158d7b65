#include <array>

#include "test/fuzz/sockets.h"
#include "transport/net_socket_comm.h"

namespace nccom {

/// The peer sends the input and hangs up; receives of three tags are posted, two at once.
void fuzzNetSocket(FuzzInput input) {
  auto [near, far] = socketPair();
  SocketRecvComm comm(std::move(near));
  std::array<std::array<uint8_t, 64>, 3> memory = {};
  std::array<NetBuffer, 3> buffers;
  for (size_t i = 0; i < buffers.size(); i++) {
    buffers[i].data = memory[i].data();
    buffers[i].bytes = memory[i].size();
    buffers[i].tag = static_cast<int>(i);
  }
  sendBytes(far, input);
  far.close();
  for (const auto& group : {std::span(buffers).first(2), std::span(buffers).last(1)}) {
    const auto request = comm.irecv(group);
    if (!request.ok()) return;
    std::array<int, 2> sizes = {};
    for (int tries = 0; tries < 1000; tries++) {
      const auto done = request.value()->test(sizes);
      if (!done.ok()) return;
      if (done.value()) break;
    }
    for (const int size : sizes)
      fuzzRequire(size >= 0 && size <= 64, "a message fits its buffer");
  }
}

}  // namespace nccom

FUZZ_ENTRY(nccom::fuzzNetSocket)
