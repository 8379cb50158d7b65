#include "comm/net_links.h"

#include <algorithm>
#include <utility>

#include "comm/bootstrap.h"

namespace nccom {
namespace {

/// A handle goes from the receiver to the sender, so the two ranks and the channel say which
/// connection it is for.
uint32_t tagOf(const NetEnd& end) {
  return static_cast<uint32_t>(end.channel - kP2pChannel);
}

constexpr const char* kStage = "network address";

bool isNetwork(const encDesc& desc) {
  return desc.type == encDescType::NetSend || desc.type == encDescType::NetRecv;
}

/// What `block` does on each connection, appended to `blocks`.
void collect(const encBlock& block, std::vector<std::vector<NetBlock>>& blocks) {
  std::vector<NetBlock> parts(blocks.size());
  for (const encDesc& desc : block.descs) {
    if (!isNetwork(desc)) continue;
    parts[desc.connection].entries.push_back(
        {static_cast<uint64_t>(desc.net.offset), desc.bytes, desc.net.stride});
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].entries.empty()) continue;
    parts[i].repeat = block.repeat;
    blocks[i].push_back(std::move(parts[i]));
  }
}

}  // namespace

std::vector<NetOperation> netOperationsOf(const encProgram& program, const std::string& name,
                                          int tag) {
  std::vector<std::vector<NetBlock>> blocks(program.connections.size());
  for (const encQueue& queue : program.queues) {
    for (const encBlock& block : queue.blocks)
      collect(block, blocks);
  }
  std::vector<NetOperation> operations;
  for (size_t i = 0; i < blocks.size(); ++i) {
    auto entries = std::make_shared<NetEntries>();
    entries->blocks = std::move(blocks[i]);
    entries->name = name;
    entries->tag = tag;
    operations.push_back({program.connections[i], std::move(entries)});
  }
  return operations;
}

NetLinks::NetLinks(NetLinkSetup setup) : setup_(std::move(setup)) {}

NetLinks::~NetLinks() {
  NetConnections all;
  for (const auto& [key, link] : links_)
    all.push_back(link);
  setup_.proxy->remove(all);
}

std::shared_ptr<NetConnection> NetLinks::find(const encConnection& connection) {
  const std::lock_guard lock(mutex_);
  const auto found = links_.find(keyOf(connection));
  return found != links_.end() ? found->second : nullptr;
}

bool NetLinks::connected(std::span<const encConnection> wanted) {
  return std::all_of(wanted.begin(), wanted.end(),
                     [this](const encConnection& each) { return find(each) != nullptr; });
}

Result<NetEnd> NetLinks::endOf(const encConnection& connection) {
  const DeviceComm::Scratch scratch = TRY(setup_.device->scratch());
  NetEnd end;
  end.rank = setup_.rank;
  end.peer = connection.peer;
  end.channel = connection.channel;
  end.send = connection.send;
  end.netDev = TRY(setup_.netDevice(connection.peer, connection.channel));
  end.device = setup_.devices[setup_.rank];
  end.peerDevice = setup_.devices[connection.peer];
  end.index = TRY(setup_.device->hostIndex(setup_.layout.hostIndex(connection)));
  end.memory = static_cast<std::byte*>(scratch.base);
  end.memoryBytes = scratch.bytes;
  DeviceComm* device = setup_.device;
  const uint32_t semaphore = connection.semaphore;
  end.complete = [device, semaphore](uint64_t n) { (void)device->semaphoreAdd(semaphore, n); };
  end.failed = setup_.failed;
  return end;
}

Result<std::shared_ptr<NetConnection>> NetLinks::listenFor(const encConnection& connection) {
  NetHandle handle{};
  NetEnd end = TRY(endOf(connection));
  const uint32_t tag = tagOf(end);
  auto made = TRY(NetConnection::listen(setup_.net, std::move(end), handle));
  setup_.proxy->add(made);
  TRY(setup_.bootstrap->send(connection.peer, tag, handle.data(), handle.size(), kStage));
  return made;
}

Result<std::shared_ptr<NetConnection>> NetLinks::connectTo(const encConnection& connection) {
  NetHandle handle{};
  NetEnd end = TRY(endOf(connection));
  TRY(setup_.bootstrap->recv(connection.peer, tagOf(end), handle.data(), handle.size(), kStage));
  auto made = TRY(NetConnection::connect(setup_.net, std::move(end), handle));
  setup_.proxy->add(made);
  return made;
}

Status NetLinks::connect(std::span<const encConnection> wanted) {
  const std::lock_guard lock(connecting_);
  NetConnections made;
  // Addresses are given first, all of them: nobody waits for one while he owes another.
  for (const bool send : {false, true}) {
    for (const encConnection& each : wanted) {
      if (each.send != send || find(each) != nullptr) continue;
      made.push_back(send ? TRY(connectTo(each)) : TRY(listenFor(each)));
      const std::lock_guard linksLock(mutex_);
      links_.emplace(keyOf(each), made.back());
    }
  }
  return setup_.proxy->awaitConnected(made, setup_.deadline());
}

Status NetLinks::submit(const NetOperation& operation) {
  const std::shared_ptr<NetConnection> link = find(operation.connection);
  if (link != nullptr) return link->submit(operation.entries);
  return fail(ncclInternalError, "rank %d has no connection %s rank %d on channel %d", setup_.rank,
              operation.connection.send ? "to" : "from", operation.connection.peer,
              operation.connection.channel);
}

}  // namespace nccom
