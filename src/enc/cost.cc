#include "enc/cost.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <span>

#include "enc/buffers.h"
#include "enc/verify_run.h"

namespace nccom {
namespace {

uint64_t messageBytesOf(const encOperation& operation) {
  uint64_t most = 0, sent = 0;
  for (const encProgram& program : operation) {
    for (const encBuffer buffer : {encBuffer::Input, encBuffer::Output}) {
      if (program.task.op == encOp::SendRecv) continue;
      most = std::max(most, encBufferBytes(program.task, program.rank, program.nRanks, buffer, 0));
    }
    for (const encMessage& send : program.task.sends)
      sent += send.bytes;
  }
  return most + sent;
}

/// Counts one rank's descriptors after the other's.
class Counter {
 public:
  Counter(encCost& cost, std::optional<encLinks>& links) : cost_(cost), links_(links) {}

  void program(const encProgram& program) {
    rankBytes_ = 0;
    cost_.scratchBytes = std::max(cost_.scratchBytes, program.scratchBytes);
    for (const encQueue& queue : program.queues) {
      for (const encBlock& block : queue.blocks) {
        cost_.descriptors += block.descs.size();
        for (const encDesc& desc : block.descs)
          count(program.rank, desc, block.repeat);
      }
    }
    cost_.mostRankBytes = std::max(cost_.mostRankBytes, rankBytes_);
  }

 private:
  void count(int rank, const encDesc& desc, uint64_t repeat) {
    const uint64_t bytes = desc.bytes * repeat;
    switch (desc.type) {
      case encDescType::Transfer:
        cost_.transfers += repeat;
        access(bytes * desc.sources.size(), bytes * desc.destinations.size());
        if (links_) move(rank, desc, bytes);
        break;
      case encDescType::Wait:
        cost_.waits += repeat;
        break;
      case encDescType::Inc:
        cost_.increments += repeat;
        break;
      case encDescType::Post:
        if (desc.byValue) access(bytes, bytes);
        break;
      case encDescType::NetSend:
        cost_.netMessages += repeat;
        cost_.netBytes += bytes;
        access(bytes, 0);
        break;
      case encDescType::NetRecv:
        access(0, bytes);
        break;
    }
  }

  void access(uint64_t read, uint64_t written) {
    cost_.readBytes += read;
    cost_.writtenBytes += written;
    rankBytes_ += read + written;
  }

  void move(int rank, const encDesc& desc, uint64_t bytes) {
    const bool copies = desc.sources.size() == 1;
    for (const encAddress& source : desc.sources) {
      if (!copies) links_->carry(source.rank, rank, bytes);
    }
    for (const encAddress& destination : desc.destinations)
      links_->carry(copies ? desc.sources[0].rank : rank, destination.rank, bytes);
  }

  encCost& cost_;
  std::optional<encLinks>& links_;
  uint64_t rankBytes_ = 0;
};

std::string number(double value) {
  char text[32];
  snprintf(text, sizeof text, "%.6g", value);
  return text;
}

}  // namespace

double encCost::touches() const {
  if (messageBytes == 0) return 0;
  return static_cast<double>(readBytes + writtenBytes) / static_cast<double>(messageBytes);
}

std::vector<std::pair<std::string, std::string>> encCost::values() const {
  std::vector<std::pair<std::string, std::string>> values{
      {"ranks", std::to_string(ranks)},
      {"messageBytes", std::to_string(messageBytes)},
      {"steps", std::to_string(steps)},
      {"descriptors", std::to_string(descriptors)},
      {"transfers", std::to_string(transfers)},
      {"increments", std::to_string(increments)},
      {"waits", std::to_string(waits)},
      {"netMessages", std::to_string(netMessages)},
      {"netBytes", std::to_string(netBytes)},
      {"readBytes", std::to_string(readBytes)},
      {"writtenBytes", std::to_string(writtenBytes)},
      {"mostRankBytes", std::to_string(mostRankBytes)},
      {"touchesPerElement", number(touches())},
      {"touchesPerElementAndRank", number(touchesPerRank())},
      {"scratchBytes", std::to_string(scratchBytes)},
  };
  if (!hasLinks) return values;
  values.emplace_back("linkBytes", std::to_string(linkBytes));
  values.emplace_back("mostLinkBytes", std::to_string(mostLinkBytes));
  values.emplace_back("mostHops", std::to_string(mostHops));
  return values;
}

std::string encCost::text() const {
  std::string text;
  char line[160];
  for (const auto& [name, value] : values()) {
    snprintf(line, sizeof line, "%-24s %s\n", name.c_str(), value.c_str());
    text += line;
  }
  if (links.empty()) return text;
  snprintf(line, sizeof line, "%-16s %8s %16s %16s  %s\n", "link", "used", "bytes", "most",
           "busiest");
  text += line;
  for (const encLinkUse& use : links) {
    snprintf(line, sizeof line, "%-16s %8d %16llu %16llu  %s\n", use.kind.c_str(), use.links,
             static_cast<unsigned long long>(use.bytes), static_cast<unsigned long long>(use.most),
             use.busiest.c_str());
    text += line;
  }
  return text;
}

Result<encCost> encCostOf(const enc_comm_info& info, const encOperation& operation,
                          const encVerifyOptions& options) {
  const std::span<const encOperation> operations(&operation, 1);
  const encVerifyWorld world = TRY(encInspect(info, operations, options));
  encCost cost;
  cost.ranks = info.rank_n;
  cost.messageBytes = messageBytesOf(operation);
  cost.steps = TRY(encRun(world));
  std::optional<encLinks> links = TRY(encLinks::of(info));
  Counter counter(cost, links);
  for (const encProgram& program : operation)
    counter.program(program);
  if (!links) return cost;
  cost.hasLinks = true;
  cost.mostHops = links->mostHops();
  cost.links = links->uses();
  for (const encLinkUse& use : cost.links) {
    if (use.within) continue;
    cost.linkBytes += use.bytes;
    cost.mostLinkBytes = std::max(cost.mostLinkBytes, use.most);
  }
  return cost;
}

}  // namespace nccom
