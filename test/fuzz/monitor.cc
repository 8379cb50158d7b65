#include "comm/monitor.h"

#include <condition_variable>
#include <mutex>

#include "test/fuzz/sockets.h"

namespace nccom {

/// The previous rank says the input and hangs up, then the next one does: at the latest that is a
/// fault, unless both have said goodbye.
void fuzzMonitor(FuzzInput input) {
  auto [prev, prevFar] = socketPair();
  auto [next, nextFar] = socketPair();
  ControlRing ring;
  ring.rank = 1;
  ring.nRanks = 3;
  ring.prev = std::move(prev);
  ring.next = std::move(next);
  std::mutex mutex;
  std::condition_variable changed;
  int nFaults = 0;
  {
    Monitor monitor(std::chrono::milliseconds(1));
    const auto member = monitor.join(
        std::move(ring),
        [&](const Fault& fault) {
          fuzzRequire(fault.rank >= 0 && fault.rank < 3, "a fault is that of a rank");
          const std::lock_guard lock(mutex);
          nFaults++;
          changed.notify_all();
        },
        [&](const Question& question) {
          fuzzRequire(question.rank >= 0 && question.rank < 3, "a question is that of a rank");
        });
    fuzzRequire(member.ok(), "a member");
    sendBytes(prevFar, input);
    prevFar.close();
    nextFar.close();
    {
      std::unique_lock lock(mutex);
      const bool heard =
          changed.wait_for(lock, std::chrono::seconds(10), [&] { return nFaults > 0; });
      fuzzRequire(heard, "a neighbour that hangs up is a fault");
    }
    monitor.leave(member.value());
  }
  fuzzRequire(nFaults == 1, "one fault is told");
}

}  // namespace nccom

FUZZ_ENTRY(nccom::fuzzMonitor)
