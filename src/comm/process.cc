#include "comm/process.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <utility>

#include "comm/bootstrap.h"
#include "comm/joining.h"
#include "comm/monitor.h"
#include "graph/graph.h"
#include "misc/log.h"
#include "plugin/library.h"
#include "transport/net_socket.h"
#include "transport/proxy.h"

namespace nccom {
namespace {

thread_local int threadDevice = 0;
thread_local std::vector<int> nullDevices;  // see nullStreamOf()

void deviceLog(int level, unsigned long subsys, const char* text) {
  logText(static_cast<LogLevel>(level), subsys, text);
}

/// A misspelt knob must not go unnoticed, whatever the log level.
void warnUnknownVariables() {
  for (const std::string& name : unknownVariables(environ)) {
    fprintf(stderr, "NCCL WARN %s is set, and libnccom has no parameter of that name\n",
            name.c_str());
  }
}

void logParameters(const ncclParams& params) {
  const std::vector<ParamText> defaults = paramTexts(ncclParams{});
  const std::vector<ParamText> values = paramTexts(params);
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].value == defaults[i].value) continue;
    INFO(kLogEnv, "%s set by environment to %s", values[i].variable, values[i].value.c_str());
  }
}

/// Two processes can share memory when one kernel runs them in one network namespace (where the
/// device plugin's sockets are) for one user.
std::string machineIdentity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char space[64] = "";
  if (readlink("/proc/self/ns/net", space, sizeof space - 1) < 0) space[0] = '\0';
  return boot + " " + space + " " + std::to_string(getuid());
}

constexpr size_t kMaxGraphs = 64;  // kept by a process

/// Devices of the platform; of a topology file, as many as its device numbers ask for.
Result<int> countDevices(const ncclParams& params) {
  if (!params.topoFile.empty()) return topoFileDeviceCount(params.topoFile);
  return nccom::deviceCount(params.platform, static_cast<int>(params.logicalNc),
                            static_cast<int>(params.hostDevices));
}

Result<NeuronCluster> readCluster(const ncclParams& params) {
  if (params.cluster.empty()) return NeuronCluster{};
  if (!params.topoFile.empty()) {
    return fail(ncclInvalidUsage, "NCCOM_CLUSTER (%s) and NCCL_TOPO_FILE (%s) exclude each other",
                params.cluster.c_str(), params.topoFile.c_str());
  }
  auto cluster = parseCluster(params.cluster, static_cast<int>(params.logicalNc),
                              static_cast<int>(params.hostDevices));
  if (!cluster.ok()) {
    return fail(cluster.error().code, "NCCOM_CLUSTER: %s", cluster.error().message.c_str());
  }
  return cluster;
}

std::string ownHostName() {
  char name[64] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

using Made = Result<std::unique_ptr<Process>>;

// The context of this process. Leaked on purpose: its threads serve communicators that the
// application may never destroy.
struct Current {
  std::mutex mutex;                          // guards the making
  std::atomic<const Made*> made{nullptr};    // release when set, acquire when read
  std::atomic<Process*> open{nullptr};       // its device is open; release and acquire
  std::atomic<bool> parentHadDevice{false};  // relaxed: set in a child that has one thread
};

Current& current() {
  static Current& theCurrent = *new Current;  // NOLINT: see above
  return theCurrent;
}

}  // namespace

void Process::afterFork() {
  Current& now = current();
  const Made* made = now.made.load(std::memory_order_relaxed);
  if (made == nullptr) return;
  if (made->ok() && made->value()->deviceOpen_.load(std::memory_order_relaxed)) {
    now.parentHadDevice.store(true, std::memory_order_relaxed);
  }
  now.made.store(nullptr, std::memory_order_relaxed);
  now.open.store(nullptr, std::memory_order_relaxed);
}

Process::Process() = default;
Process::~Process() = default;

Result<std::unique_ptr<Process>> Process::make() {
  std::unique_ptr<Process> process(new Process);  // NOLINT: the constructor is private
  process->params_ = TRY(readProcessParams());
  logConfigure(TRY(logConfigOf(process->params_)));
  warnUnknownVariables();
  logParameters(process->params_);
  const ncclParams& params = process->params_;
  process->cluster_ = TRY(readCluster(params));
  const bool isCluster = process->cluster_.hostCount() > 0;
  process->deviceCount_ = isCluster ? process->cluster_.deviceCount() : TRY(countDevices(params));
  process->hostIdentity_ = params.hostId.empty() ? machineIdentity() : params.hostId;
  const InterfaceChoice interfaces{params.socketIfname, params.socketFamily};
  process->nets_ =
      std::make_unique<NetRegistry>([interfaces] { return openSocketNet(interfaces); });
  process->roots_ = std::make_unique<BootstrapRoots>();
  process->joining_ = std::make_unique<Joining>();
  process->monitor_ = std::make_unique<Monitor>();
  process->proxy_ = std::make_unique<Proxy>(params.proxyThread);
  return process;
}

Status Process::openDevice() {
  if (deviceOpen_.load(std::memory_order_acquire)) return Ok{};
  const std::lock_guard lock(deviceMutex_);
  if (device_ != nullptr) return Ok{};
  nccomDeviceConfig_v1 config{};
  config.size = sizeof config;
  config.nDevices = deviceCount_;
  config.engineThreads = static_cast<int32_t>(params_.engineThreads);
  config.hbmBytes = static_cast<uint64_t>(params_.hbmBytes);
  config.cma = static_cast<int32_t>(params_.cma);
  config.logger = deviceLog;
  device_ = TRY(Device::open(params_.devicePlugin, config));
  logWrite(LogLevel::Version, kLogInit, "libnccom %d.%d.%d from %s, platform %s, device %s",
           NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH, ownFolder().c_str(), platformText().c_str(),
           device_->name().c_str());
  deviceOpen_.store(true, std::memory_order_release);
  return Ok{};
}

const std::string& Process::platformText() const {
  if (!params_.topoFile.empty()) return params_.topoFile;
  return params_.cluster.empty() ? params_.platform : params_.cluster;
}

HostOfDevice Process::hostOf(int device) const {
  if (cluster_.hostCount() == 0) {
    HostOfDevice host;
    host.identity = host.memory = hostIdentity_;
    host.name = ownHostName();
    host.platform = params_.platform;
    host.device = device;
    host.nDevices = deviceCount_;
    return host;
  }
  const ClusterPlace place = cluster_.place(device).value();
  const ClusterHost& host = cluster_.hosts[place.host];
  const std::string number = "/" + std::to_string(place.host);
  HostOfDevice result;
  result.identity = result.memory = hostIdentity_ + number;
  if (host.pod >= 0) result.memory = hostIdentity_ + "/pod/" + std::to_string(host.pod);
  result.name = ownHostName() + number;
  result.platform = host.platform;
  result.device = place.device;
  result.nDevices = host.nDevices;
  result.shape = host.shape;
  result.pod = host.pod;
  result.podNode = host.podNode;
  return result;
}

Result<std::shared_ptr<const enc_comm_info>> Process::shape(const CommPlaces& places) {
  const std::lock_guard lock(shapeMutex_);
  const auto same = [&](const auto& entry) { return entry.first == places; };
  const auto found = std::find_if(shapes_.begin(), shapes_.end(), same);
  if (found != shapes_.end()) return found->second;
  shapes_.emplace_front(places, std::make_shared<const enc_comm_info>(TRY(describePlaces(places))));
  if (shapes_.size() > kMaxGraphs) shapes_.pop_back();
  return shapes_.front().second;
}

Result<Process*> Process::withoutDevice() {
  Current& now = current();
  const Made* made = now.made.load(std::memory_order_acquire);
  if (made == nullptr) {
    const std::lock_guard lock(now.mutex);
    made = now.made.load(std::memory_order_relaxed);
    if (made == nullptr) {
      made = new Made(make());  // NOLINT: see Current
      pthread_atfork(nullptr, nullptr, afterFork);
      now.made.store(made, std::memory_order_release);
    }
  }
  if (!made->ok()) return made->error();
  return made->value().get();
}

bool Process::inForkedChild() {
  return current().parentHadDevice.load(std::memory_order_relaxed);
}

Result<Process*> Process::get() {
  if (Process* const open = current().open.load(std::memory_order_acquire)) return open;
  if (inForkedChild()) {
    return fail(ncclInvalidUsage,
                "this process was forked from one that had used the device already; before a fork "
                "call nothing but ncclGetUniqueId and nccomGetDeviceCount");
  }
  Process* process = TRY(withoutDevice());
  TRY(process->openDevice());
  current().open.store(process, std::memory_order_release);
  return process;
}

Result<std::shared_ptr<Net>> Process::net(const std::string& netName) {
  const NetChoice choice{params_.netPlugin, netName, ownFolder()};
  return nets_->open(choice);
}

Result<std::shared_ptr<const GraphResult>> Process::graph(const GraphInput& input) {
  const std::lock_guard lock(graphMutex_);
  // Dump files are written by one rank only, and do not change the result.
  const bool dumps = !input.topoDumpFile.empty() || !input.graphDumpFile.empty();
  GraphInput key = input;
  key.topoDumpFile.clear();
  key.graphDumpFile.clear();
  const auto same = [&](const auto& entry) { return entry.first == key; };
  const auto found = std::find_if(graphs_.begin(), graphs_.end(), same);
  if (!dumps && found != graphs_.end()) return found->second;
  if (found != graphs_.end()) graphs_.erase(found);
  graphs_.emplace_front(std::move(key),
                        std::make_shared<const GraphResult>(TRY(buildGraph(input))));
  if (graphs_.size() > kMaxGraphs) graphs_.pop_back();
  return graphs_.front().second;
}

BootstrapConfig bootstrapConfigOf(const ncclParams& params) {
  return {params.socketIfname, params.socketFamily, params.commId, params.sockTimeoutMs};
}

int currentDevice() {
  return threadDevice;
}

Status setCurrentDevice(Process& process, int device) {
  if (device < 0 || device >= process.deviceCount()) {
    return fail(ncclInvalidArgument, "device is %d: expected 0 to %d on platform %s", device,
                process.deviceCount() - 1, process.platformText().c_str());
  }
  threadDevice = device;
  return Ok{};
}

Result<void*> nullStreamOf(Process& process, int device) {
  const bool known = std::find(nullDevices.begin(), nullDevices.end(), device) != nullDevices.end();
  if (device != threadDevice && !known) nullDevices.push_back(device);
  return process.device().streamDefault(device);
}

Result<std::vector<void*>> nullStreams(Process& process) {
  std::vector<void*> streams{TRY(process.device().streamDefault(threadDevice))};
  for (const int device : nullDevices) {
    streams.push_back(TRY(process.device().streamDefault(device)));
  }
  return streams;
}

void forgetNullStreams() {
  nullDevices.clear();
}

Result<void*> streamOf(Process& process, void* handle) {
  if (handle != nullptr) return handle;
  return process.device().streamDefault(threadDevice);
}

}  // namespace nccom
