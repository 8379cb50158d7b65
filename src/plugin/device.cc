#include "plugin/device.h"

#include <utility>
#include <vector>

namespace nccom {
namespace {

constexpr const char* kSymbol = "nccomDevicePlugin_v1";

/// The name of a function that `table` lacks; null if it is complete.
const char* missingFunction(const nccomDevice_v1& table) {
  if (table.name == nullptr) return "name";
#define NEEDED(field) \
  if (table.field == nullptr) return #field
  NEEDED(init);
  NEEDED(finalize);
  NEEDED(lastError);
  NEEDED(memAlloc);
  NEEDED(memFree);
  NEEDED(streamCreate);
  NEEDED(streamDestroy);
  NEEDED(streamDefault);
  NEEDED(streamSynchronize);
  NEEDED(streamQuery);
  NEEDED(deviceSynchronize);
  NEEDED(eventCreate);
  NEEDED(eventDestroy);
  NEEDED(eventRecord);
  NEEDED(eventSynchronize);
  NEEDED(eventQuery);
  NEEDED(eventElapsedTime);
  NEEDED(commCreate);
  NEEDED(commExport);
  NEEDED(commConnect);
  NEEDED(commScratch);
  NEEDED(commHostIndex);
  NEEDED(semaphoreAdd);
  NEEDED(commAbort);
  NEEDED(commError);
  NEEDED(commSynchronize);
  NEEDED(commReport);
  NEEDED(commDestroy);
  NEEDED(programLoad);
  NEEDED(programUnload);
  NEEDED(launch);
#undef NEEDED
  return nullptr;
}

}  // namespace

Result<std::unique_ptr<Device>> Device::open(const std::string& name,
                                             const nccomDeviceConfig_v1& config) {
  auto found = findLibrary({name, {"libnccom-device-*.so"}, ownFolder()});
  if (!found.ok()) {
    return fail(found.error().code, "device plugin '%s': %s", name.c_str(),
                found.error().message.c_str());
  }
  auto library = std::make_unique<Library>(std::move(found).value());
  const auto* table = static_cast<const nccomDevice_v1*>(library->symbol(kSymbol));
  if (table == nullptr) {
    return fail(ncclInvalidUsage, "device plugin '%s': %s does not export %s", name.c_str(),
                library->path().c_str(), kSymbol);
  }
  std::unique_ptr<Device> device(new Device(std::move(library), *table));  // NOLINT: private
  TRY(device->start(config));
  return device;
}

Result<std::unique_ptr<Device>> Device::open(const nccomDevice_v1& table,
                                             const nccomDeviceConfig_v1& config) {
  std::unique_ptr<Device> device(new Device(nullptr, table));  // NOLINT: private
  TRY(device->start(config));
  return device;
}

Status Device::start(const nccomDeviceConfig_v1& config) {
  if (const char* missing = missingFunction(table_)) {
    return fail(ncclInvalidUsage, "device plugin %s: its table lacks %s",
                library_ ? library_->path().c_str() : "(linked in)", missing);
  }
  return said(table_.init(&config, &context_), "init");
}

Device::~Device() {
  if (context_ != nullptr) (void)table_.finalize(context_);
}

std::string Device::path() const {
  return library_ ? library_->path() : "";
}

Status Device::said(ncclResult_t code, const char* call) const {
  if (code == ncclSuccess) return Ok{};
  const char* const text = table_.lastError();
  if (text == nullptr || text[0] == '\0') {
    return fail(code, "device %s: %s failed with %d and did not say why", table_.name, call,
                static_cast<int>(code));
  }
  return Error{code, text};
}

Result<void*> Device::memAlloc(int device, size_t bytes) {
  void* address = nullptr;
  TRY(said(table_.memAlloc(context_, device, bytes, &address), "memAlloc"));
  return address;
}

Status Device::memFree(void* address) {
  return said(table_.memFree(context_, address), "memFree");
}

Result<void*> Device::streamCreate(int device) {
  void* stream = nullptr;
  TRY(said(table_.streamCreate(context_, device, &stream), "streamCreate"));
  return stream;
}

Status Device::streamDestroy(void* stream) {
  return said(table_.streamDestroy(context_, stream), "streamDestroy");
}

Result<void*> Device::streamDefault(int device) {
  void* stream = nullptr;
  TRY(said(table_.streamDefault(context_, device, &stream), "streamDefault"));
  return stream;
}

Status Device::streamSynchronize(void* stream) {
  return said(table_.streamSynchronize(context_, stream), "streamSynchronize");
}

Status Device::streamQuery(void* stream) {
  return said(table_.streamQuery(context_, stream), "streamQuery");
}

Status Device::deviceSynchronize(int device) {
  return said(table_.deviceSynchronize(context_, device), "deviceSynchronize");
}

Result<void*> Device::eventCreate() {
  void* event = nullptr;
  TRY(said(table_.eventCreate(context_, &event), "eventCreate"));
  return event;
}

Status Device::eventDestroy(void* event) {
  return said(table_.eventDestroy(context_, event), "eventDestroy");
}

Status Device::eventRecord(void* event, void* stream) {
  return said(table_.eventRecord(context_, event, stream), "eventRecord");
}

Status Device::eventSynchronize(void* event) {
  return said(table_.eventSynchronize(context_, event), "eventSynchronize");
}

Status Device::eventQuery(void* event) {
  return said(table_.eventQuery(context_, event), "eventQuery");
}

Result<float> Device::eventElapsedTime(void* start, void* stop) {
  float ms = 0;
  TRY(said(table_.eventElapsedTime(context_, &ms, start, stop), "eventElapsedTime"));
  return ms;
}

Result<std::unique_ptr<DeviceComm>> Device::commCreate(const nccomDeviceCommConfig_v1& config) {
  void* comm = nullptr;
  TRY(said(table_.commCreate(context_, &config, &comm), "commCreate"));
  return std::unique_ptr<DeviceComm>(new DeviceComm(*this, comm));  // NOLINT: private
}

DeviceComm::~DeviceComm() {
  (void)device_.table_.commDestroy(comm_);
}

Result<nccomDeviceHandle_v1> DeviceComm::exportHandle() {
  nccomDeviceHandle_v1 handle{};
  TRY(device_.said(device_.table_.commExport(comm_, &handle), "commExport"));
  return handle;
}

Status DeviceComm::connect(std::span<const nccomDeviceHandle_v1> handles,
                           std::span<const int32_t> sameHost, int64_t deadlineMs) {
  return device_.said(
      device_.table_.commConnect(comm_, handles.data(), sameHost.data(), deadlineMs),
      "commConnect");
}

Result<DeviceComm::Scratch> DeviceComm::scratch() {
  Scratch scratch{};
  TRY(device_.said(device_.table_.commScratch(comm_, &scratch.base, &scratch.bytes),
                   "commScratch"));
  return scratch;
}

Result<nccomHostIndex_v1*> DeviceComm::hostIndex(uint32_t connection) {
  nccomHostIndex_v1* index = nullptr;
  TRY(device_.said(device_.table_.commHostIndex(comm_, connection, &index), "commHostIndex"));
  return index;
}

Status DeviceComm::semaphoreAdd(uint32_t semaphore, uint64_t value) {
  return device_.said(device_.table_.semaphoreAdd(comm_, semaphore, value), "semaphoreAdd");
}

Status DeviceComm::abort(ncclResult_t code, const std::string& text) {
  return device_.said(device_.table_.commAbort(comm_, code, text.c_str()), "commAbort");
}

Status DeviceComm::error() {
  ncclResult_t code = ncclSuccess;
  const char* text = nullptr;
  TRY(device_.said(device_.table_.commError(comm_, &code, &text), "commError"));
  if (code == ncclSuccess) return Ok{};
  return Error{code, text != nullptr ? text : ""};
}

Status DeviceComm::synchronize() {
  return device_.said(device_.table_.commSynchronize(comm_), "commSynchronize");
}

std::string DeviceComm::report() {
  constexpr size_t kBytes = 64 << 10;
  std::vector<char> text(kBytes);
  const Status status =
      device_.said(device_.table_.commReport(comm_, text.data(), text.size()), "commReport");
  return status.ok() ? std::string(text.data()) : status.error().message;
}

Result<void*> DeviceComm::programLoad(const nccomProgram_v1* program,
                                      const nccomProgram_v1* staged) {
  void* loaded = nullptr;
  TRY(device_.said(device_.table_.programLoad(comm_, program, staged, &loaded), "programLoad"));
  return loaded;
}

Status DeviceComm::programUnload(void* program) {
  return device_.said(device_.table_.programUnload(comm_, program), "programUnload");
}

Status DeviceComm::launch(void* program, const nccomLaunch_v1& launch, void* stream) {
  return device_.said(device_.table_.launch(comm_, program, &launch, stream), "launch");
}

}  // namespace nccom
