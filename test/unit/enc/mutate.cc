#include "test/unit/enc/mutate.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace nccom::test {
namespace {

using Random = std::mt19937_64;
using Said = std::optional<std::string>;

/// A descriptor of some program.
struct Spot {
  encProgram* program = nullptr;
  size_t queue = 0, block = 0, index = 0;

  std::vector<encBlock>& blocks() const { return program->queues[queue].blocks; }
  encBlock& in() const { return blocks()[block]; }
  std::vector<encDesc>& descs() const { return in().descs; }
  encDesc& desc() const { return descs()[index]; }
  std::string text() const {
    return "rank " + std::to_string(program->rank) + " queue " + std::to_string(queue) + " block " +
           std::to_string(block) + ": " + encDump(desc());
  }
  void erase() const {
    descs().erase(descs().begin() + static_cast<long>(index));
    if (descs().empty()) blocks().erase(blocks().begin() + static_cast<long>(block));
    if (blocks().empty()) {
      program->queues.erase(program->queues.begin() + static_cast<long>(queue));
    }
  }
};

using Match = std::function<bool(const Spot&)>;

std::optional<Spot> pick(encOperation& operation, Random& random, const Match& match) {
  std::vector<Spot> spots;
  for (encProgram& program : operation) {
    for (size_t queue = 0; queue < program.queues.size(); queue++) {
      for (size_t block = 0; block < program.queues[queue].blocks.size(); block++) {
        const size_t n = program.queues[queue].blocks[block].descs.size();
        for (size_t i = 0; i < n; i++) {
          const Spot spot{&program, queue, block, i};
          if (match(spot)) spots.push_back(spot);
        }
      }
    }
  }
  if (spots.empty()) return std::nullopt;
  return spots[random() % spots.size()];
}

Match typed(encDescType type) {
  return [type](const Spot& spot) { return spot.desc().type == type; };
}
/// A transfer that moves something.
bool moves(const Spot& spot) {
  return spot.desc().type == encDescType::Transfer && spot.desc().bytes > 0;
}
bool isNet(const Spot& spot) {
  return spot.desc().type == encDescType::NetSend || spot.desc().type == encDescType::NetRecv;
}

uint64_t below(Random& random, uint64_t limit) {
  return random() % limit;
}
bool flip(Random& random) {
  return random() % 2 == 0;
}
/// Another number below `limit` than `value`.
template <class T>
T other(Random& random, T value, uint64_t limit) {
  const auto wrapped = (static_cast<uint64_t>(value) + 1 + below(random, limit - 1)) % limit;
  return static_cast<T>(wrapped);
}

/// One of the addresses of a transfer.
encAddress& address(encDesc& desc, Random& random) {
  const size_t k = below(random, desc.sources.size() + desc.destinations.size());
  return k < desc.sources.size() ? desc.sources[k] : desc.destinations[k - desc.sources.size()];
}

/// Picks a descriptor, says what it was, and changes it.
template <class F>
Said change(encOperation& operation, Random& random, const Match& match, F&& f) {
  const auto spot = pick(operation, random, match);
  if (!spot) return std::nullopt;
  std::string said = spot->text();
  f(*spot);
  return said;
}

template <encDescType type>
Said drop(encOperation& operation, Random& random) {
  return change(operation, random, typed(type), [](const Spot& spot) { spot.erase(); });
}

template <encDescType type>
Said duplicate(encOperation& operation, Random& random) {
  return change(operation, random, typed(type), [](const Spot& spot) {
    const encDesc copy = spot.desc();
    spot.descs().insert(spot.descs().begin() + static_cast<long>(spot.index), copy);
  });
}

/// To another place of its block, over a descriptor that is not equal.
template <encDescType type>
Said move(encOperation& operation, Random& random) {
  const Match match = [](const Spot& spot) {
    return spot.desc().type == type && spot.descs().size() > 1;
  };
  return change(operation, random, match, [&](const Spot& spot) {
    std::vector<encDesc>& descs = spot.descs();
    const encDesc moved = spot.desc();
    const size_t to = other(random, spot.index, descs.size());
    descs.erase(descs.begin() + static_cast<long>(spot.index));
    descs.insert(descs.begin() + static_cast<long>(to), moved);
  });
}

Said swapNeighbours(encOperation& operation, Random& random) {
  const Match match = [](const Spot& spot) {
    return spot.index + 1 < spot.descs().size() && spot.descs()[spot.index + 1] != spot.desc();
  };
  return change(operation, random, match,
                [](const Spot& spot) { std::swap(spot.desc(), spot.descs()[spot.index + 1]); });
}

template <encDescType type, int by>
Said addToValue(encOperation& operation, Random& random) {
  return change(operation, random, typed(type), [](const Spot& spot) { spot.desc().value += by; });
}

Said waitStride(encOperation& operation, Random& random) {
  const Match match = [](const Spot& spot) {
    return spot.desc().type == encDescType::Wait && spot.in().repeat > 1;
  };
  return change(operation, random, match,
                [&](const Spot& spot) { spot.desc().stride += flip(random) ? 1 : -1; });
}

Said waitFor(encOperation& operation, Random& random) {
  return change(operation, random, typed(encDescType::Wait), [&](const Spot& spot) {
    spot.desc().rank = other(random, spot.desc().rank + 1, spot.program->nRanks + 1) - 1;
  });
}

template <encDescType type>
Said semaphore(encOperation& operation, Random& random) {
  return change(operation, random, typed(type), [&](const Spot& spot) {
    const auto& totals = spot.program->totals;
    uint32_t& number = spot.desc().semaphore;
    const uint32_t wanted = totals.empty() ? number : totals[below(random, totals.size())].first;
    number = wanted != number ? wanted : number + 1;
  });
}

Said incrementRank(encOperation& operation, Random& random) {
  return change(operation, random, typed(encDescType::Inc), [&](const Spot& spot) {
    spot.desc().rank = other(random, spot.desc().rank, spot.program->nRanks);
  });
}

template <bool source>
Said addressRank(encOperation& operation, Random& random) {
  return change(operation, random, moves, [&](const Spot& spot) {
    auto& list = source ? spot.desc().sources : spot.desc().destinations;
    encAddress& changed = list[below(random, list.size())];
    changed.rank = other(random, changed.rank, spot.program->nRanks);
  });
}

template <bool source>
Said offset(encOperation& operation, Random& random) {
  return change(operation, random, moves, [&](const Spot& spot) {
    auto& list = source ? spot.desc().sources : spot.desc().destinations;
    const int64_t by = flip(random) ? 4 : static_cast<int64_t>(spot.desc().bytes);
    list[below(random, list.size())].offset += flip(random) ? by : -by;
  });
}

Said stride(encOperation& operation, Random& random) {
  const Match match = [](const Spot& spot) { return moves(spot) && spot.in().repeat > 1; };
  return change(operation, random, match, [&](const Spot& spot) {
    address(spot.desc(), random).stride += flip(random) ? 4 : -4;
  });
}

Said bytes(encOperation& operation, Random& random) {
  return change(operation, random, moves, [&](const Spot& spot) {
    spot.desc().bytes += flip(random) ? uint64_t{4} : -uint64_t{4};
  });
}

Said bufferKind(encOperation& operation, Random& random) {
  return change(operation, random, moves, [&](const Spot& spot) {
    encAddress& changed = address(spot.desc(), random);
    changed.buffer = static_cast<encBuffer>(other(random, static_cast<int>(changed.buffer), 4));
  });
}

/// Where operands come from different ranks or buffers.
Said swapSources(encOperation& operation, Random& random) {
  const Match match = [](const Spot& spot) {
    return moves(spot) && spot.desc().sources.size() > 1;
  };
  return change(operation, random, match, [&](const Spot& spot) {
    auto& sources = spot.desc().sources;
    const size_t k = below(random, sources.size() - 1);
    std::swap(sources[k], sources[k + 1]);
  });
}

/// Operands of two transfers.
Said exchangeSources(encOperation& operation, Random& random) {
  const auto first = pick(operation, random, moves);
  if (!first) return std::nullopt;
  const auto second = pick(operation, random, [&](const Spot& spot) {
    return moves(spot) && spot.desc().sources[0] != first->desc().sources[0];
  });
  if (!second) return std::nullopt;
  std::string said = first->text() + " and " + second->text();
  std::swap(first->desc().sources[0], second->desc().sources[0]);
  return said;
}

Said extraSource(encOperation& operation, Random& random) {
  return change(operation, random, moves, [&](const Spot& spot) {
    auto& sources = spot.desc().sources;
    sources.push_back(sources[below(random, sources.size())]);
  });
}

Said missingSource(encOperation& operation, Random& random) {
  return change(operation, random, moves, [&](const Spot& spot) {
    auto& sources = spot.desc().sources;
    sources.erase(sources.begin() + static_cast<long>(below(random, sources.size())));
  });
}

Said missingDestination(encOperation& operation, Random& random) {
  return change(operation, random, moves, [&](const Spot& spot) {
    auto& list = spot.desc().destinations;
    list.erase(list.begin() + static_cast<long>(below(random, list.size())));
  });
}

Said extraDestination(encOperation& operation, Random& random) {
  return change(operation, random, moves, [&](const Spot& spot) {
    encAddress added = spot.desc().destinations[0];
    added.rank = static_cast<int>(below(random, static_cast<uint64_t>(spot.program->nRanks)));
    added.offset += static_cast<int64_t>(spot.desc().bytes);
    spot.desc().destinations.push_back(added);
  });
}

Said divide(encOperation& operation, Random& random) {
  return change(operation, random, moves,
                [](const Spot& spot) { spot.desc().divide = !spot.desc().divide; });
}

Said scale(encOperation& operation, Random& random) {
  return change(operation, random, moves, [&](const Spot& spot) {
    spot.desc().scaledSources ^= uint64_t{1} << below(random, spot.desc().sources.size());
  });
}

Said swapBlocks(encOperation& operation, Random& random) {
  const Match match = [](const Spot& spot) { return spot.block + 1 < spot.blocks().size(); };
  return change(operation, random, match, [](const Spot& spot) {
    std::swap(spot.blocks()[spot.block], spot.blocks()[spot.block + 1]);
  });
}

Said repeat(encOperation& operation, Random& random) {
  return change(
      operation, random, [](const Spot&) { return true; },
      [&](const Spot& spot) { spot.in().repeat += flip(random) ? uint64_t{1} : -uint64_t{1}; });
}

/// What follows in the queue goes to a queue of its own.
Said splitQueue(encOperation& operation, Random& random) {
  const Match match = [](const Spot& spot) { return spot.index > 0 && spot.in().repeat == 1; };
  return change(operation, random, match, [](const Spot& spot) {
    encQueue tail{spot.program->queues[spot.queue].channel, {{1, {}}}};
    const auto from = spot.descs().begin() + static_cast<long>(spot.index);
    tail.blocks[0].descs.assign(from, spot.descs().end());
    spot.descs().erase(from, spot.descs().end());
    const auto blocks = spot.blocks().begin() + static_cast<long>(spot.block) + 1;
    tail.blocks.insert(tail.blocks.end(), blocks, spot.blocks().end());
    spot.blocks().erase(blocks, spot.blocks().end());
    spot.program->queues.push_back(std::move(tail));
  });
}

Said connection(encOperation& operation, Random& random) {
  const Match match = [](const Spot& spot) {
    return isNet(spot) && spot.program->connections.size() > 1;
  };
  return change(operation, random, match, [&](const Spot& spot) {
    uint32_t& number = spot.desc().connection;
    number = other(random, number, spot.program->connections.size());
  });
}

/// What a connection says of itself.
Said connectionEnd(encOperation& operation, Random& random) {
  return change(operation, random, isNet, [&](const Spot& spot) {
    encConnection& changed = spot.program->connections[spot.desc().connection];
    switch (below(random, 4)) {
      case 0:
        changed.peer = other(random, changed.peer, static_cast<uint64_t>(spot.program->nRanks));
        break;
      case 1:
        changed.channel++;
        break;
      case 2:
        changed.send = !changed.send;
        break;
      default:
        changed.semaphore++;
        break;
    }
  });
}

Said netBytes(encOperation& operation, Random& random) {
  return change(operation, random, isNet, [&](const Spot& spot) {
    spot.desc().bytes += flip(random) ? uint64_t{4} : -uint64_t{4};
  });
}

Said netOffset(encOperation& operation, Random& random) {
  return change(operation, random, isNet, [&](const Spot& spot) {
    const int64_t by = flip(random) ? 4 : static_cast<int64_t>(spot.desc().bytes);
    spot.desc().net.offset += flip(random) ? by : -by;
  });
}

Said post(encOperation& operation, Random& random) {
  return change(operation, random, typed(encDescType::Post), [&](const Spot& spot) {
    encDesc& desc = spot.desc();
    switch (below(random, 5)) {
      case 0:
        desc.index = static_cast<uint16_t>(desc.index ^ 1);
        break;
      case 1:
        desc.value += flip(random) ? 1 : -1;
        break;
      case 2:
        desc.bytes += flip(random) ? uint64_t{4} : -uint64_t{4};
        break;
      case 3:
        desc.byValue = !desc.byValue;
        break;
      default:
        desc.rank = other(random, desc.rank, static_cast<uint64_t>(spot.program->nRanks));
        break;
    }
  });
}

Said postedIndex(encOperation& operation, Random& random) {
  const Match match = [](const Spot& spot) {
    return moves(spot) && spot.desc().sources[0].buffer == encBuffer::Posted;
  };
  return change(operation, random, match, [](const Spot& spot) {
    encAddress& changed = spot.desc().sources[0];
    changed.index = static_cast<uint16_t>(changed.index ^ 1);
  });
}

/// A program that has something to change.
template <class F>
Said changeProgram(encOperation& operation, Random& random,
                   const std::function<bool(const encProgram&)>& match, F&& f) {
  std::vector<encProgram*> found;
  for (encProgram& program : operation) {
    if (match(program)) found.push_back(&program);
  }
  if (found.empty()) return std::nullopt;
  encProgram& program = *found[below(random, found.size())];
  f(program);
  return "rank " + std::to_string(program.rank);
}

Said total(encOperation& operation, Random& random) {
  return changeProgram(
      operation, random, [](const encProgram& program) { return !program.totals.empty(); },
      [&](encProgram& program) {
        auto& changed = program.totals[below(random, program.totals.size())];
        changed.second += flip(random) ? uint64_t{1} : -uint64_t{1};
      });
}

Said totalOfAnother(encOperation& operation, Random& random) {
  return changeProgram(
      operation, random, [](const encProgram& program) { return !program.totals.empty(); },
      [&](encProgram& program) { program.totals[below(random, program.totals.size())].first++; });
}

Said scratchBytes(encOperation& operation, Random& random) {
  return changeProgram(
      operation, random, [](const encProgram& program) { return program.scratchBytes > 0; },
      [](encProgram& program) { program.scratchBytes--; });
}

Said peerFlags(encOperation& operation, Random& random) {
  return changeProgram(
      operation, random,
      [](const encProgram& program) { return program.peerInputs || program.peerOutputs; },
      [&](encProgram& program) {
        const bool inputs = program.peerInputs && (!program.peerOutputs || flip(random));
        (inputs ? program.peerInputs : program.peerOutputs) = false;
      });
}

}  // namespace

const std::vector<Mutation>& mutations() {
  // Waits may be implied by others, and copies may be made twice; of the rest few have no effect.
  static const std::vector<Mutation> all{
      {"wait dropped", drop<encDescType::Wait>, 20},
      {"increment dropped", drop<encDescType::Inc>, 0},
      {"transfer dropped", drop<encDescType::Transfer>, 0},
      {"message dropped", drop<encDescType::NetSend>, 0},
      {"receive dropped", drop<encDescType::NetRecv>, 0},
      {"wait twice", duplicate<encDescType::Wait>, 100},
      {"increment twice", duplicate<encDescType::Inc>, 0},
      {"transfer twice", duplicate<encDescType::Transfer>, 100},
      {"message twice", duplicate<encDescType::NetSend>, 0},
      {"wait moved", move<encDescType::Wait>, 75},
      {"increment moved", move<encDescType::Inc>, 70},
      {"transfer moved", move<encDescType::Transfer>, 30},
      {"neighbours swapped", swapNeighbours, 65},
      {"wait for less", addToValue<encDescType::Wait, -1>, 20},
      {"wait for more", addToValue<encDescType::Wait, 1>, 65},
      {"wait stride", waitStride, 50},
      {"wait for another rank", waitFor, 15},
      {"wait on another semaphore", semaphore<encDescType::Wait>, 15},
      {"increment of another semaphore", semaphore<encDescType::Inc>, 0},
      {"increment of another rank", incrementRank, 0},
      {"larger increment", addToValue<encDescType::Inc, 1>, 0},
      {"source of another rank", addressRank<true>, 10},
      {"destination of another rank", addressRank<false>, 5},
      {"source offset", offset<true>, 5},
      {"destination offset", offset<false>, 5},
      {"address stride", stride, 0},
      {"transfer size", bytes, 20},
      {"kind of buffer", bufferKind, 5},
      {"order of sources", swapSources, 100},
      {"sources exchanged", exchangeSources, 5},
      {"source twice", extraSource, 0},
      {"source missing", missingSource, 0},
      {"destination missing", missingDestination, 0},
      {"destination added", extraDestination, 30},
      {"division", divide, 0},
      {"scale", scale, 0},
      {"blocks swapped", swapBlocks, 30},
      {"repeat count", repeat, 20},
      {"queue split", splitQueue, 40},
      {"another connection", connection, 0},
      {"end of a connection", connectionEnd, 0},
      {"message size", netBytes, 0},
      {"message offset", netOffset, 5},
      {"post", post, 0},
      {"posted message", postedIndex, 0},
      {"total", total, 0},
      {"total of another semaphore", totalOfAnother, 0},
      {"scratch size", scratchBytes, 20},
      {"use by peers", peerFlags, 25},
  };
  return all;
}

}  // namespace nccom::test
