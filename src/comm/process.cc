#include "comm/process.h"

#include <unistd.h>

#include <fstream>
#include <utility>

#include "comm/bootstrap.h"
#include "comm/monitor.h"
#include "graph/graph.h"
#include "misc/log.h"
#include "plugin/library.h"
#include "transport/net_socket.h"
#include "transport/proxy.h"

namespace nccom {
namespace {

thread_local int threadDevice = 0;

void deviceLog(int level, unsigned long subsys, const char* text) {
  logText(static_cast<LogLevel>(level), subsys, text);
}

void warnUnknownVariables() {
  for (const std::string& name : unknownVariables(environ)) {
    WARN("%s is set, and no parameter has that name; docs/env.md has them all", name.c_str());
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

Result<std::unique_ptr<Device>> openDevice(const ncclParams& params, int deviceCount) {
  nccomDeviceConfig_v1 config{};
  config.size = sizeof config;
  config.nDevices = deviceCount;
  config.engineThreads = static_cast<int32_t>(params.engineThreads);
  config.hbmBytes = static_cast<uint64_t>(params.hbmBytes);
  config.cma = static_cast<int32_t>(params.cma);
  config.logger = deviceLog;
  return Device::open(params.devicePlugin, config);
}

}  // namespace

Process::Process() = default;
Process::~Process() = default;

Result<std::unique_ptr<Process>> Process::make() {
  std::unique_ptr<Process> process(new Process);  // NOLINT: the constructor is private
  process->params_ = TRY(readProcessParams());
  logConfigure(TRY(logConfigOf(process->params_)));
  warnUnknownVariables();
  const ncclParams& params = process->params_;
  process->deviceCount_ = TRY(nccom::deviceCount(
      params.platform, static_cast<int>(params.logicalNc), static_cast<int>(params.hostDevices)));
  process->hostIdentity_ = params.hostId.empty() ? machineIdentity() : params.hostId;
  process->device_ = TRY(openDevice(params, process->deviceCount_));
  const InterfaceChoice interfaces{params.socketIfname, params.socketFamily};
  process->nets_ =
      std::make_unique<NetRegistry>([interfaces] { return openSocketNet(interfaces); });
  process->roots_ = std::make_unique<BootstrapRoots>();
  process->monitor_ = std::make_unique<Monitor>();
  process->proxy_ = std::make_unique<Proxy>(params.proxyThread);
  logWrite(LogLevel::Version, kLogInit, "libnccom %d.%d.%d from %s, platform %s, device %s",
           NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH, ownFolder().c_str(), params.platform.c_str(),
           process->device_->name().c_str());
  return process;
}

Result<Process*> Process::get() {
  // Leaked on purpose: its threads serve communicators that the application may never destroy.
  static const auto& made = *new Result<std::unique_ptr<Process>>(make());  // NOLINT
  if (!made.ok()) return made.error();
  return made.value().get();
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
  if (!dumps && graph_ != nullptr && graphInput_ == key) return graph_;
  graph_ = std::make_shared<const GraphResult>(TRY(buildGraph(input)));
  graphInput_ = std::move(key);
  return graph_;
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
                process.deviceCount() - 1, process.params().platform.c_str());
  }
  threadDevice = device;
  return Ok{};
}

Result<void*> streamOf(Process& process, void* handle) {
  if (handle != nullptr) return handle;
  return process.device().streamDefault(threadDevice);
}

}  // namespace nccom
