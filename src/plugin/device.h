// Device: what the core sees of a device plugin.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "include/plugin/nccom_device.h"
#include "misc/result.h"
#include "plugin/library.h"

namespace nccom {

class DeviceComm;

// An opened device plugin, initialised for this process. Thread-safe, as the ABI is; what the calls
// promise is written there. Failures carry the plugin's text.
class Device {
 public:
  /// Opens and initialises the plugin that `name` stands for: a file, or X for
  /// libnccom-device-X.so, looked for beside this library and then where the loader looks.
  ///
  /// @error  ncclSystemError   no such file can be loaded; the text has each path tried and why not
  /// @error  ncclInvalidUsage  it does not export the device ABI of version 1, or not all of it
  static Result<std::unique_ptr<Device>> open(const std::string& name,
                                              const nccomDeviceConfig_v1& config);
  /// Uses a table that is linked in, for tests.
  static Result<std::unique_ptr<Device>> open(const nccomDevice_v1& table,
                                              const nccomDeviceConfig_v1& config);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  /// Ends the device. All DeviceComm objects are gone.
  ~Device();

  std::string name() const { return table_.name; }
  /// The file it was loaded from; empty: linked in.
  std::string path() const;

  /// Device memory, host-addressable, aligned to 256 bytes.
  Result<void*> memAlloc(int device, size_t bytes);
  Status memFree(void* address);

  Result<void*> streamCreate(int device);
  Status streamDestroy(void* stream);
  Result<void*> streamDefault(int device);
  /// @error  the first failure of the stream's operations since the last call
  Status streamSynchronize(void* stream);
  /// @error  ncclInProgress  something is left to do
  Status streamQuery(void* stream);
  Status deviceSynchronize(int device);

  Result<void*> eventCreate();
  Status eventDestroy(void* event);
  Status eventRecord(void* event, void* stream);
  Status eventSynchronize(void* event);
  /// @error  ncclInProgress  not reached yet
  Status eventQuery(void* event);
  /// Milliseconds from `start` to `stop`.
  Result<float> eventElapsedTime(void* start, void* stop);

  /// A rank of a communicator; it must not outlive the device.
  Result<std::unique_ptr<DeviceComm>> commCreate(const nccomDeviceCommConfig_v1& config);

 private:
  friend class DeviceComm;
  Device(std::unique_ptr<Library> library, const nccomDevice_v1& table)
      : library_(std::move(library)), table_(table) {}
  Status start(const nccomDeviceConfig_v1& config);
  Status said(ncclResult_t code, const char* call) const;

  std::unique_ptr<Library> library_;  // where table_ points into; null: linked in
  const nccomDevice_v1& table_;
  void* context_ = nullptr;
};

// A rank of a communicator on a device: see "process and communicator set-up" of the ABI.
class DeviceComm {
 public:
  DeviceComm(const DeviceComm&) = delete;
  DeviceComm& operator=(const DeviceComm&) = delete;
  /// Ends it; operations still running are aborted.
  ~DeviceComm();

  Result<nccomDeviceHandle_v1> exportHandle();
  /// @param handles     [nRanks]
  /// @param sameHost    [nRanks] 1: of this host
  /// @param deadlineMs  how long the processes of the peers may take to answer
  Status connect(std::span<const nccomDeviceHandle_v1> handles, std::span<const int32_t> sameHost,
                 int64_t deadlineMs);
  struct Scratch {
    void* base;
    uint64_t bytes;
  };
  Result<Scratch> scratch();
  /// Read with acquire; lives as long as this.
  Result<nccomHostIndex_v1*> hostIndex(uint32_t connection);
  Status semaphoreAdd(uint32_t semaphore, uint64_t value);
  /// Fails it from outside; the first cause is kept.
  Status abort(ncclResult_t code, const std::string& text);
  /// @error  the sticky cause of its failure
  Status error();
  /// Waits until its operations have ended, well or not.
  Status synchronize();
  /// What the rank and its peers on this host are doing.
  std::string report();

  /// @param staged  null: none
  Result<void*> programLoad(const nccomProgram_v1* program,
                            const nccomProgram_v1* staged = nullptr);
  Status programUnload(void* program);
  Status launch(void* program, const nccomLaunch_v1& launch, void* stream);

 private:
  friend class Device;
  DeviceComm(Device& device, void* comm) : device_(device), comm_(comm) {}

  Device& device_;
  void* comm_;
};

}  // namespace nccom
