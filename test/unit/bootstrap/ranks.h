// Ranks as threads of the test.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/bootstrap.h"

namespace nccom {

inline BootstrapConfig loopback(int64_t timeoutMs = 20000) {
  BootstrapConfig config;
  config.ifname = "=lo";
  config.timeoutMs = timeoutMs;
  return config;
}

/// Calls body(rank) for each rank on a thread of its own; returns when all have returned.
inline void onRanks(int nRanks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(nRanks));
  for (int rank = 0; rank < nRanks; rank++)
    threads.emplace_back(body, rank);
  for (std::thread& thread : threads)
    thread.join();
}

/// A communicator's ranks, as far as they came up.
struct World {
  std::vector<std::unique_ptr<Bootstrap>> ranks;
  std::vector<Status> outcome;

  bool ok() const {
    for (const Status& status : outcome) {
      if (!status.ok()) return false;
    }
    return true;
  }
  std::string errors() const {
    std::string text;
    for (size_t i = 0; i < outcome.size(); i++) {
      if (!outcome[i].ok()) {
        text += "rank " + std::to_string(i) + ": " + outcome[i].error().message + "\n";
      }
    }
    return text;
  }
};

inline World startWorld(
    BootstrapRoots& roots, const ncclUniqueId& id, int nRanks,
    const BootstrapConfig& config = loopback(),
    const std::function<void(int)>& before = [](int) {}) {
  World world;
  world.ranks.resize(static_cast<size_t>(nRanks));
  world.outcome.resize(static_cast<size_t>(nRanks), Ok{});
  onRanks(nRanks, [&](int rank) {
    before(rank);
    auto made = Bootstrap::init(config, roots, id, rank, nRanks, nullptr);
    if (made.ok()) {
      world.ranks[rank] = std::move(made).value();
    } else {
      world.outcome[rank] = made.error();
    }
  });
  return world;
}

}  // namespace nccom
