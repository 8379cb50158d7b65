#include <array>
#include <cstring>

#include "comm/bootstrap_root.h"
#include "comm/bootstrap_wire.h"
#include "test/fuzz/sockets.h"

namespace nccom {

/// A stranger's check-in: the first byte says whether he knows the secret, the rest is what he
/// sends. Then he reads until the root hangs up or has answered, and goes.
void fuzzBootstrap(FuzzInput input) {
  BootstrapRoots roots;
  BootstrapConfig config;
  config.ifname = "=lo";
  config.timeoutMs = 2000;
  const auto id = roots.getUniqueId(config);
  fuzzRequire(id.ok(), "an id");
  const auto content = unpackUniqueId(id.value());
  fuzzRequire(content.ok(), "an id that was made can be read");
  std::vector<uint8_t> bytes(input.begin(), input.end());
  if (bytes.size() > 24 && (bytes[0] & 1) != 0) {
    memcpy(bytes.data() + 1, &kBootstrapMagic, sizeof kBootstrapMagic);
    memcpy(bytes.data() + 9, &content.value().secret, sizeof(uint64_t));
  }
  auto socket = Socket::connect(content.value().root, fuzzDeadline());
  fuzzRequire(socket.ok(), "a connection to the root");
  if (bytes.size() > 1) sendBytes(socket.value(), FuzzInput(bytes).subspan(1));
  if (bytes.size() <= sizeof(CheckIn)) return;  // the root waits for more
  pollfd waiting = {socket.value().fd(), POLLIN, 0};
  poll(&waiting, 1, 20);  // a rank that waits for others gets no answer
  std::array<uint8_t, sizeof(Verdict)> answer = {};
  (void)socket.value().tryRecv(answer.data(), answer.size()).ok();
  ProcessName name;
  memcpy(static_cast<void*>(&name), bytes.data(), std::min(bytes.size(), sizeof name));
  for (const char c : describeProcess(name))
    fuzzRequire(c >= ' ' && c <= '~', "names come out printable");
}

}  // namespace nccom

FUZZ_ENTRY(nccom::fuzzBootstrap)
