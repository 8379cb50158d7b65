#include "comm/comm_builder.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "comm/bootstrap.h"
#include "comm/joining.h"
#include "comm/launch.h"
#include "comm/monitor.h"
#include "comm/net_links.h"
#include "comm/process.h"
#include "enc/layout.h"
#include "enc/ring_order.h"
#include "misc/log.h"
#include "transport/proxy.h"

namespace nccom {
namespace {

constexpr int64_t kLeastWork = 1 << 20;  // bytes that composers can always do with

template <size_t kBytes>
void copyText(char (&to)[kBytes], const std::string& from) {
  const std::string text = fitted(from, kBytes);
  memcpy(to, text.c_str(), text.size() + 1);
}

/// The net's device that a rank uses on a ring channel, or for point-to-point traffic.
Result<int> netDeviceFor(const GraphResult& graph, int rank, int channel) {
  if (channel == kP2pChannel) return TRY(ncclTopoGetLocalNetDev(graph.system, 0, rank)).dev;
  return TRY(ncclTopoGetNetDev(graph.system, graph.ring, channel, rank)).dev;
}

}  // namespace

Result<std::shared_ptr<Communicator>> Communicator::create(Process& process,
                                                           const CommRequest& request) {
  return CommBuilder(process, request).build();
}

CommBuilder::CommBuilder(Process& process, const CommRequest& request)
    : process_(process),
      comm_(new Communicator(process, request)) {}  // NOLINT: the constructor is private

Result<std::shared_ptr<Communicator>> CommBuilder::build() {
  INFO(kLogInit, "rank %d nranks %d device %d: joining", comm_->rank(), comm_->nRanks(),
       comm_->device());
  Joining::Member self(process_.joining(), comm_->request_.id,
                       [comm = comm_.get()](const Error& error) { comm->failWith(error); });
  const auto joined = [this]() -> Status {
    TRY(meet());
    TRY(gatherPeers());
    TRY(openNet());
    TRY(describe());
    TRY(buildGraph());
    TRY(joinRings());
    TRY(openDevice());
    TRY(openLinks());
    return comm_->bootstrap_->barrier("ready");
  }();
  if (!joined.ok()) {
    // The others stop waiting for us. What they said first is the cause, unless it is ours.
    comm_->failWith(joined.error());
    const Error cause = isConsequence(joined.error()) ? comm_->state().error() : joined.error();
    self.failOthers(cause);
    return cause;
  }
  const Status state = comm_->state();
  if (!state.ok()) return state.error();
  INFO(kLogInit, "rank %d nranks %d device %d nodes %d channels %zu: Init COMPLETE", comm_->rank(),
       comm_->nRanks(), comm_->device(), nNodes_, comm_->info_.rings.size());
  return comm_;
}

Status CommBuilder::meet() {
  const BootstrapConfig config = bootstrapConfigOf(process_.params());
  const CommRequest& request = comm_->request_;
  comm_->bootstrap_ = TRY(Bootstrap::init(config, process_.roots(), request.id, request.rank,
                                          request.nRanks, &comm_->abortFlag_));
  if (request.nRanks == 1) return Ok{};
  Communicator* comm = comm_.get();  // leaves the monitor before it dies
  const uint64_t member = TRY(process_.monitor().join(
      comm_->bootstrap_->takeControlRing(),
      [comm](const Fault& fault) {
        comm->failWith(Error{fault.code, fault.text});
      },
      [comm](const Question& question) { comm->asked(question); }));
  const std::lock_guard lock(comm_->mutex_);
  comm_->member_ = member;
  return Ok{};
}

ncclPeerInfo CommBuilder::ownRecord() const {
  const ncclParams& params = process_.params();
  ncclPeerInfo record{};
  record.rank = comm_->rank();
  record.device = comm_->device();
  record.nRanks = comm_->nRanks();
  record.version = NCCL_VERSION_CODE;
  record.pid = getpid();
  record.minChannels = comm_->request_.config.minChannels;
  record.maxChannels = comm_->request_.config.maxChannels;
  const HostOfDevice host = process_.hostOf(comm_->device());
  record.hostHash = hashOf(host.memory);
  record.serverHash = hashOf(host.identity);
  record.bufferBytes = static_cast<uint64_t>(params.bufferBytes);
  copyText(record.hostName, host.name);
  copyText(record.platform, process_.platformText());
  copyText(record.algorithms, algOptionsText(params));
  copyText(record.net, params.netPlugin + (params.net.empty() ? "" : ":" + params.net));
  return record;
}

Status CommBuilder::gatherPeers() {
  comm_->peers_.resize(static_cast<size_t>(comm_->nRanks()));
  comm_->peers_[comm_->rank()] = ownRecord();
  TRY(comm_->bootstrap_->allGather(std::span(comm_->peers_), "peers"));
  TRY(checkPeers(comm_->peers_));
  nodes_ = nodesOf(comm_->peers_);
  nNodes_ = *std::max_element(nodes_.begin(), nodes_.end()) + 1;
  servers_ = serversOf(comm_->peers_);
  nServers_ = *std::max_element(servers_.begin(), servers_.end()) + 1;
  return Ok{};
}

Status CommBuilder::openNet() {
  const std::string& netName = comm_->request_.config.netName;
  const bool named = !process_.params().netPlugin.empty() || !netName.empty();
  if (nNodes_ == 1 && !named) return Ok{};
  net_ = TRY(process_.net(netName));
  return Ok{};
}

Result<std::vector<NetDevice>> CommBuilder::netDevices() const {
  std::vector<NetDevice> devices;
  if (net_ == nullptr) return devices;
  const int count = TRY(net_->devices());
  for (int dev = 0; dev < count; ++dev) {
    const NetProperties found = TRY(net_->properties(dev));
    devices.push_back({found.name, found.pciPath, found.guid, found.speedMbps, found.port,
                       found.maxComms, found.latencyUs, found.deviceMemory});
  }
  return devices;
}

Result<GraphInput> CommBuilder::graphInput() const {
  const ncclParams& params = process_.params();
  GraphInput input;
  const HostOfDevice host = process_.hostOf(comm_->device());
  input.platform = host.platform;
  input.lnc = static_cast<int>(params.logicalNc);
  input.hostDevices = host.nDevices;
  input.topoFile = params.topoFile;
  input.graphFile = params.graphFile;
  input.nRanks = comm_->nRanks();
  input.verify = !params.disableVerify;
  input.newAlgorithm = params.newAlgorithm;
  input.nets = TRY(netDevices());
  for (int rank = 0; rank < comm_->nRanks(); ++rank) {
    if (servers_[rank] != servers_[comm_->rank()]) continue;
    input.localRanks.push_back({rank, process_.hostOf(comm_->peers_[rank].device).device});
  }
  if (comm_->rank() == 0) {
    input.topoDumpFile = params.topoDumpFile;
    input.graphDumpFile = params.graphDumpFile;
  }
  return input;
}

Status CommBuilder::buildGraph() {
  // Rings of a pod alone are known, and use no NIC that a graph would have to choose.
  if (nNodes_ == 1 && !comm_->info_.rings.empty()) return Ok{};
  const GraphInput input = TRY(graphInput());
  graph_ = TRY(process_.graph(input));
  const bool first = input.localRanks[0].rank == comm_->rank();
  if (!first) return Ok{};  // the ranks of a host have the same
  for (const std::string& note : graph_->notes)
    INFO(kLogGraph, "%s", note.c_str());
  for (const std::string& why : graph_->ring.why)
    INFO(kLogGraph, "search: %s", why.c_str());
  INFO(kLogGraph, "%s", ncclTopoPrintGraph(graph_->system, graph_->ring).c_str());
  return Ok{};
}

Status CommBuilder::describe() {
  const ncclParams& params = process_.params();
  std::vector<HostOfDevice> hosts;
  for (const ncclPeerInfo& peer : comm_->peers_)
    hosts.push_back(process_.hostOf(peer.device));
  const bool sharing = nServers_ > nNodes_;
  comm_->info_ = *TRY(process_.shape(placesOf(params, hosts, servers_, sharing)));
  enc_comm_info& info = comm_->info_;
  info.rank = comm_->rank();
  info.node = nodes_;
  info.options = TRY(algOptionsOf(params, info.situation.scope()));
  info.sizes.bufferBytes = static_cast<uint64_t>(params.bufferBytes);
  if (params.workBytes < kLeastWork) {
    return fail(ncclInvalidArgument, "NCCOM_WORK_SIZE is %lld: want at least %lld",
                static_cast<long long>(params.workBytes), static_cast<long long>(kLeastWork));
  }
  info.sizes.workBytes = static_cast<uint64_t>(params.workBytes) / 4096 * 4096;
  return Ok{};
}

Status CommBuilder::joinRings() {
  enc_comm_info& info = comm_->info_;
  const CommConfig& config = comm_->request_.config;
  if (!info.rings.empty()) {  // of a pod, over its links
    info.rings.resize(std::min(info.rings.size(), static_cast<size_t>(config.maxChannels)));
    return encOrderRings(info);
  }
  std::vector<ncclTopoRanks> records(static_cast<size_t>(comm_->nRanks()));
  records[comm_->rank()] = TRY(ncclTopoPreset(graph_->ring, comm_->rank()));
  TRY(comm_->bootstrap_->allGather(std::span(records), "channels"));
  const ChannelBounds bounds{std::max(config.minChannels, 1), config.maxChannels};
  // Rings as rank 0 sees them: one rotation for all ranks.
  const ncclRings rings = TRY(ncclTopoPostset(0, nodes_, std::move(records), bounds));
  for (const ncclRing& ring : rings.channels)
    info.rings.push_back(ring.userRanks);
  // Rings that a user has drawn stay as they are.
  if (process_.params().graphFile.empty()) TRY(encOrderRings(info));
  return Ok{};
}

Status CommBuilder::openDevice() {
  const nccomDeviceCommConfig_v1 config = deviceConfig();
  auto device = TRY(process_.device().commCreate(config));
  {
    const std::lock_guard lock(comm_->mutex_);
    comm_->device_ = std::move(device);
  }
  std::vector<nccomDeviceHandle_v1> handles(static_cast<size_t>(comm_->nRanks()));
  handles[comm_->rank()] = TRY(comm_->device_->exportHandle());
  TRY(comm_->bootstrap_->allGather(std::span(handles), "device handles"));
  std::vector<int32_t> sameHost;
  for (const int node : nodes_)
    sameHost.push_back(node == nodes_[comm_->rank()] ? 1 : 0);
  return comm_->device_->connect(handles, sameHost, process_.params().sockTimeoutMs);
}

std::vector<encConnection> CommBuilder::ringConnections() const {
  const enc_comm_info& info = comm_->info_;
  const encLayout layout = encLayout::of(info);
  std::vector<encConnection> wanted;
  for (size_t i = 0; i < info.rings.size(); ++i) {
    const auto channel = static_cast<int>(i);
    const std::vector<int>& ring = info.rings[i];
    const size_t n = ring.size();
    const auto self =
        static_cast<size_t>(std::find(ring.begin(), ring.end(), info.rank) - ring.begin());
    const int prev = ring[(self + n - 1) % n];
    const int next = ring[(self + 1) % n];
    if (!info.sameNode(prev, info.rank)) {
      wanted.push_back(
          {prev, channel, false,
           layout.pipe(encPipeKind::Ring, channel).semaphore(encPipeSemaphore::NetReceived)});
    }
    if (!info.sameNode(next, info.rank)) {
      wanted.push_back(
          {next, channel, true,
           layout.pipe(encPipeKind::Ring, channel).semaphore(encPipeSemaphore::NetSent)});
    }
  }
  return wanted;
}

Status CommBuilder::openLinks() {
  Communicator* comm = comm_.get();  // outlives the links, which it owns
  NetLinkSetup setup;
  setup.rank = comm->rank();
  setup.needed = nNodes_ > 1;
  for (const ncclPeerInfo& peer : comm->peers_)
    setup.devices.push_back(peer.device);
  setup.layout = encLayout::of(comm->info_);
  setup.net = net_;
  setup.proxy = &process_.proxy();
  setup.bootstrap = comm->bootstrap_.get();
  setup.device = comm->device_.get();
  setup.failed = [comm](const Error& error) {
    comm->process_.monitor().suspect(comm->member_, error.code, error.message);
  };
  const auto graph = graph_;
  const int rank = comm->rank();
  setup.netDevice = [graph, rank](int, int channel) { return netDeviceFor(*graph, rank, channel); };
  const auto timeout = std::chrono::milliseconds(process_.params().sockTimeoutMs);
  setup.deadline = [comm, timeout] { return Deadline::after(timeout, &comm->abortFlag_); };
  comm->links_ = std::make_unique<NetLinks>(std::move(setup));
  if (nNodes_ > 1) TRY(comm->links_->connect(ringConnections()));
  const std::lock_guard lock(comm->mutex_);
  comm->launcher_ =
      std::make_unique<Launcher>(comm->info_, process_.device(), comm->device(), *comm->device_,
                                 *comm->links_, hasOtherProcess(comm->peers_, comm->rank()));
  return Ok{};
}

nccomDeviceCommConfig_v1 CommBuilder::deviceConfig() const {
  const ncclParams& params = process_.params();
  const encLayout layout = encLayout::of(comm_->info_);
  nccomDeviceCommConfig_v1 config{};
  config.size = sizeof config;
  config.rank = comm_->rank();
  config.nRanks = comm_->nRanks();
  config.device = comm_->device();
  config.checkCalls = params.checkCalls ? 1 : 0;
  config.nSemaphores = layout.semaphores();
  config.nConnections = nNodes_ > 1 ? layout.connections() : 0;
  config.scratchBytes = layout.scratchBytes();
  config.timeoutMs = params.timeoutSec * 1000;
  config.host.arg = comm_.get();
  config.host.failed = Communicator::deviceFailed;
  if (nNodes_ > 1) {
    if (params.checkCalls) config.host.stalled = Communicator::stalled;
    config.host.netPosted = Communicator::netPosted;
    config.host.netProgress = process_.params().proxyThread ? nullptr : Communicator::netProgress;
  }
  return config;
}

}  // namespace nccom
