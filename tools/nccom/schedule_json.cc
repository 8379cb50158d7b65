#include "tools/nccom/schedule_json.h"

#include "misc/datatype.h"

namespace nccom {
namespace {

const char* toText(encBuffer buffer) {
  switch (buffer) {
    case encBuffer::Input:
      return "INPUT";
    case encBuffer::Output:
      return "OUTPUT";
    case encBuffer::Scratch:
      return "SCRATCH";
    case encBuffer::Posted:
      return "POSTED";
  }
  return "?";
}

const char* toText(encDescType type) {
  switch (type) {
    case encDescType::Transfer:
      return "transfer";
    case encDescType::Wait:
      return "wait";
    case encDescType::Inc:
      return "inc";
    case encDescType::Post:
      return "post";
    case encDescType::NetSend:
      return "net_send";
    case encDescType::NetRecv:
      return "net_recv";
  }
  return "?";
}

Json addressJson(const encAddress& address) {
  Json json = {{"rank", address.rank}, {"buffer", toText(address.buffer)}};
  if (address.index != 0) json["index"] = address.index;
  json["offset"] = address.offset;
  if (address.stride != 0) json["stride"] = address.stride;
  return json;
}

Json addressesJson(const std::vector<encAddress>& addresses) {
  Json json = Json::array();
  for (const encAddress& address : addresses)
    json.push_back(addressJson(address));
  return json;
}

Json messagesJson(const std::vector<encMessage>& messages) {
  Json json = Json::array();
  for (const encMessage& message : messages) {
    json.push_back({{"peer", message.peer}, {"bytes", message.bytes}, {"index", message.index}});
  }
  return json;
}

Json taskJson(const encTask& task) {
  Json json = {{"op", encOpName(task.op)},
               {"count", task.count},
               {"type", ncclTypeName(task.type)},
               {"redOp", ncclOpName(task.redOp)},
               {"root", task.root}};
  for (const encPair& pair : task.pairs)
    json["pairs"].push_back({pair.source, pair.target});
  if (!task.sends.empty()) json["sends"] = messagesJson(task.sends);
  if (!task.recvs.empty()) json["recvs"] = messagesJson(task.recvs);
  return json;
}

class ProgramWriter {
 public:
  explicit ProgramWriter(const encLayout& layout) : layout_(layout) {}

  Json semaphore(uint32_t number) const {
    return {{"number", number}, {"name", layout_.semaphoreName(number)}};
  }

  Json desc(const encDesc& desc) const {
    Json json = {{"type", toText(desc.type)}, {"step", encStepName(desc.step)}};
    switch (desc.type) {
      case encDescType::Transfer:
        json["sources"] = addressesJson(desc.sources);
        json["destinations"] = addressesJson(desc.destinations);
        if (desc.scaledSources != 0) json["scaledSources"] = desc.scaledSources;
        if (desc.divide) json["divide"] = true;
        break;
      case encDescType::Wait:
      case encDescType::Inc:
        json["rank"] = desc.rank;
        json["semaphore"] = semaphore(desc.semaphore);
        json["value"] = desc.value;
        if (desc.stride != 0) json["stride"] = desc.stride;
        break;
      case encDescType::Post:
        json["rank"] = desc.rank;
        json["value"] = desc.value;
        json["index"] = desc.index;
        if (desc.byValue) json["byValue"] = true;
        break;
      case encDescType::NetSend:
      case encDescType::NetRecv:
        json["connection"] = desc.connection;
        json["net"] = addressJson(desc.net);
        break;
    }
    if (desc.type != encDescType::Wait && desc.type != encDescType::Inc) {
      json["bytes"] = desc.bytes;
    }
    return json;
  }

  Json queue(const encQueue& queue) const {
    Json blocks = Json::array();
    for (const encBlock& block : queue.blocks) {
      Json descs = Json::array();
      for (const encDesc& each : block.descs)
        descs.push_back(desc(each));
      blocks.push_back({{"repeat", block.repeat}, {"descs", std::move(descs)}});
    }
    return {{"channel", queue.channel}, {"blocks", std::move(blocks)}};
  }

 private:
  const encLayout& layout_;
};

}  // namespace

Json caseJson(const ScheduleCase& asked) {
  Json json = {{"platform", asked.world.name},
               {"lnc", asked.world.machine.lnc},
               {"pod", asked.world.machine.shape.name},
               {"nodes", asked.world.nodes},
               {"ranks", asked.world.size()}};
  if (!asked.group.name.empty()) {
    json["group"] = {{"name", asked.group.name}, {"members", asked.group.members}};
  }
  if (!asked.switches.empty()) json["switches"] = asked.switches;
  return json;
}

Json programJson(const encProgram& program, const encLayout& layout) {
  const ProgramWriter writer(layout);
  Json json = {{"rank", program.rank},
               {"nRanks", program.nRanks},
               {"task", taskJson(program.task)},
               {"algorithm", program.algorithm},
               {"scratchBytes", program.scratchBytes},
               {"peerInputs", program.peerInputs},
               {"inputByValue", program.inputByValue},
               {"peerOutputs", program.peerOutputs}};
  json["connections"] = Json::array();
  for (const encConnection& connection : program.connections) {
    json["connections"].push_back({{"peer", connection.peer},
                                   {"channel", connection.channel},
                                   {"send", connection.send},
                                   {"semaphore", writer.semaphore(connection.semaphore)}});
  }
  json["queues"] = Json::array();
  for (const encQueue& queue : program.queues)
    json["queues"].push_back(writer.queue(queue));
  json["totals"] = Json::array();
  for (const auto& [semaphore, increments] : program.totals) {
    json["totals"].push_back(
        {{"semaphore", writer.semaphore(semaphore)}, {"increments", increments}});
  }
  return json;
}

Json costJson(const encCost& cost) {
  Json json = {{"ranks", cost.ranks},
               {"messageBytes", cost.messageBytes},
               {"steps", cost.steps},
               {"descriptors", cost.descriptors},
               {"transfers", cost.transfers},
               {"increments", cost.increments},
               {"waits", cost.waits},
               {"netMessages", cost.netMessages},
               {"netBytes", cost.netBytes},
               {"readBytes", cost.readBytes},
               {"writtenBytes", cost.writtenBytes},
               {"mostRankBytes", cost.mostRankBytes},
               {"scratchBytes", cost.scratchBytes},
               {"touches", cost.touches()},
               {"touchesPerRank", cost.touchesPerRank()}};
  if (!cost.hasLinks) return json;
  json["linkBytes"] = cost.linkBytes;
  json["mostLinkBytes"] = cost.mostLinkBytes;
  json["mostHops"] = cost.mostHops;
  json["links"] = Json::array();
  for (const encLinkUse& use : cost.links) {
    json["links"].push_back({{"kind", use.kind},
                             {"within", use.within},
                             {"links", use.links},
                             {"bytes", use.bytes},
                             {"most", use.most},
                             {"busiest", use.busiest}});
  }
  return json;
}

}  // namespace nccom
