// The C table: arguments checked, one call into the runtime, failures into lastError().
#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "include/plugin/nccom_device.h"
#include "plugins/device_emu/report.h"
#include "plugins/device_emu/runtime.h"

namespace nccom::emu {
namespace {

thread_local std::string lastFailure;

ncclResult_t said(const Error& error) {
  lastFailure = error.message;
  return error.code;
}

/// Runs the body of a function of the table; nothing is thrown into C.
template <class Body>
ncclResult_t guard(Body&& body) {
  try {
    const Status status = std::forward<Body>(body)();
    return status.ok() ? ncclSuccess : said(status.error());
  } catch (const std::bad_alloc&) {
    return said(fail(ncclSystemError, "out of memory"));
  } catch (const std::exception& e) {
    return said(fail(ncclSystemError, "%s", e.what()));
  }
}

/// The same for functions of a context: not in a forked child.
template <class Body>
ncclResult_t guard(void* context, Body&& body) {
  return guard([&]() -> Status {
    if (context == nullptr) return fail(ncclInvalidArgument, "the device context is NULL");
    Runtime& runtime = *static_cast<Runtime*>(context);
    EMU_TRY(runtime.ownedByThisProcess());
    return body(runtime);
  });
}

template <class Body>
ncclResult_t guardComm(void* handle, Body&& body) {
  return guard([&]() -> Status {
    if (handle == nullptr) return fail(ncclInvalidArgument, "the communicator is NULL");
    Comm& comm = *static_cast<Comm*>(handle);
    EMU_TRY(comm.runtime().ownedByThisProcess());
    return body(comm);
  });
}

Status needed(const void* pointer, const char* what) {
  if (pointer != nullptr) return Ok{};
  return fail(ncclInvalidArgument, "%s is NULL", what);
}

/// NULL is the default stream of `device`.
Result<Stream*> streamOf(Runtime& runtime, void* handle, int device) {
  if (handle == nullptr) return runtime.schedule().defaultStream(device);
  if (runtime.schedule().knows(handle)) return static_cast<Stream*>(handle);
  return fail(ncclInvalidArgument, "%p is not a stream", handle);
}

Status synchronize(Runtime& runtime, Stream& stream) {
  if (auto status = runtime.schedule().takeErrorSoon(stream, runtime.engine())) {
    return std::move(*status);
  }
  runtime.help(runtime.schedule().untilDrained(stream));
  return runtime.schedule().takeError(stream);
}

// ---- the table ----------------------------------------------------------------------------------

ncclResult_t init(const nccomDeviceConfig_v1* config, void** context) {
  return guard([&]() -> Status {
    EMU_TRY(needed(config, "config"));
    EMU_TRY(needed(context, "context"));
    if (config->size < sizeof *config) {
      return fail(ncclInvalidArgument, "device config of %llu bytes: want at least %zu",
                  static_cast<unsigned long long>(config->size), sizeof *config);
    }
    *context = EMU_TRY(Runtime::open(*config)).release();
    return Ok{};
  });
}

ncclResult_t finalize(void* context) {
  return guard(context, [&](Runtime& runtime) -> Status {
    const std::unique_ptr<Runtime> owned(&runtime);
    return Ok{};
  });
}

const char* lastError() {
  return lastFailure.c_str();
}

ncclResult_t memAlloc(void* context, int device, size_t bytes, void** address) {
  return guard(context, [&](Runtime& runtime) -> Status {
    EMU_TRY(needed(address, "address"));
    EMU_TRY(runtime.checkDevice(device));
    *address = EMU_TRY(runtime.hbm().alloc(bytes));
    return Ok{};
  });
}

ncclResult_t memFree(void* context, void* address) {
  return guard(context, [&](Runtime& runtime) { return runtime.hbm().free(address); });
}

ncclResult_t streamCreate(void* context, int device, void** stream) {
  return guard(context, [&](Runtime& runtime) -> Status {
    EMU_TRY(needed(stream, "stream"));
    EMU_TRY(runtime.checkDevice(device));
    *stream = runtime.schedule().createStream(device);
    return Ok{};
  });
}

ncclResult_t streamDestroy(void* context, void* handle) {
  return guard(context, [&](Runtime& runtime) -> Status {
    EMU_TRY(needed(handle, "the stream"));
    Stream& stream = *EMU_TRY(streamOf(runtime, handle, 0));
    Status last = synchronize(runtime, stream);
    EMU_TRY(runtime.schedule().destroyStream(&stream));
    return last;
  });
}

ncclResult_t streamDefault(void* context, int device, void** stream) {
  return guard(context, [&](Runtime& runtime) -> Status {
    EMU_TRY(needed(stream, "stream"));
    EMU_TRY(runtime.checkDevice(device));
    *stream = runtime.schedule().defaultStream(device);
    return Ok{};
  });
}

ncclResult_t streamSynchronize(void* context, void* handle) {
  return guard(context, [&](Runtime& runtime) -> Status {
    return synchronize(runtime, *EMU_TRY(streamOf(runtime, handle, 0)));
  });
}

ncclResult_t streamQuery(void* context, void* handle) {
  return guard(context, [&](Runtime& runtime) -> Status {
    Stream& stream = *EMU_TRY(streamOf(runtime, handle, 0));
    if (runtime.schedule().idle(stream)) return Ok{};
    runtime.engine().lookOnce();
    if (runtime.schedule().idle(stream)) return Ok{};
    return fail(ncclInProgress, "the stream has operations left");
  });
}

ncclResult_t deviceSynchronize(void* context, int device) {
  return guard(context, [&](Runtime& runtime) -> Status {
    EMU_TRY(runtime.checkDevice(device));
    runtime.help(runtime.schedule().untilDeviceDrained(device));
    Status first = Ok{};
    for (Stream* stream : runtime.schedule().streamsOf(device)) {
      Status error = runtime.schedule().takeError(*stream);
      if (first.ok() && !error.ok()) first = std::move(error);
    }
    return first;
  });
}

ncclResult_t eventCreate(void* context, void** event) {
  return guard(context, [&](Runtime& runtime) -> Status {
    EMU_TRY(needed(event, "event"));
    *event = runtime.events().create();
    return Ok{};
  });
}

ncclResult_t eventDestroy(void* context, void* handle) {
  return guard(context, [&](Runtime& runtime) { return runtime.events().destroy(handle); });
}

ncclResult_t eventRecord(void* context, void* handle, void* stream) {
  return guard(context, [&](Runtime& runtime) -> Status {
    const std::shared_ptr<Event> event = EMU_TRY(runtime.events().find(handle));
    runtime.schedule().record(*EMU_TRY(streamOf(runtime, stream, 0)), event);
    return Ok{};
  });
}

ncclResult_t eventSynchronize(void* context, void* handle) {
  return guard(context, [&](Runtime& runtime) -> Status {
    const std::shared_ptr<Event> event = EMU_TRY(runtime.events().find(handle));
    if (!runtime.schedule().reached(*event)) runtime.help(runtime.schedule().untilReached(event));
    return Ok{};
  });
}

ncclResult_t eventQuery(void* context, void* handle) {
  return guard(context, [&](Runtime& runtime) -> Status {
    const std::shared_ptr<Event> event = EMU_TRY(runtime.events().find(handle));
    if (runtime.schedule().reached(*event)) return Ok{};
    runtime.engine().lookOnce();
    if (runtime.schedule().reached(*event)) return Ok{};
    return fail(ncclInProgress, "the event was not reached yet");
  });
}

ncclResult_t eventElapsedTime(void* context, float* ms, void* start, void* stop) {
  return guard(context, [&](Runtime& runtime) -> Status {
    EMU_TRY(needed(ms, "ms"));
    const std::shared_ptr<Event> first = EMU_TRY(runtime.events().find(start));
    const std::shared_ptr<Event> last = EMU_TRY(runtime.events().find(stop));
    *ms = EMU_TRY(runtime.schedule().elapsedMs(*first, *last));
    return Ok{};
  });
}

ncclResult_t commCreate(void* context, const nccomDeviceCommConfig_v1* config, void** comm) {
  return guard(context, [&](Runtime& runtime) -> Status {
    EMU_TRY(needed(config, "config"));
    EMU_TRY(needed(comm, "comm"));
    if (config->size < sizeof *config) {
      return fail(ncclInvalidArgument, "communicator config of %llu bytes: want at least %zu",
                  static_cast<unsigned long long>(config->size), sizeof *config);
    }
    *comm = EMU_TRY(runtime.createComm(*config));
    return Ok{};
  });
}

ncclResult_t commExport(void* handle, nccomDeviceHandle_v1* exported) {
  return guardComm(handle, [&](Comm& comm) -> Status {
    EMU_TRY(needed(exported, "handle"));
    *exported = comm.handle();
    return Ok{};
  });
}

ncclResult_t commConnect(void* handle, const nccomDeviceHandle_v1* handles, const int32_t* sameHost,
                         int64_t deadlineMs) {
  return guardComm(handle, [&](Comm& comm) -> Status {
    EMU_TRY(needed(handles, "handles"));
    EMU_TRY(needed(sameHost, "sameHost"));
    constexpr int64_t kDayMs = int64_t{24} * 3600 * 1000;
    const int64_t ms = std::clamp<int64_t>(deadlineMs, 0, kDayMs);
    return comm.connect(handles, sameHost, Clock::now() + std::chrono::milliseconds(ms));
  });
}

ncclResult_t commScratch(void* handle, void** base, uint64_t* bytes) {
  return guardComm(handle, [&](Comm& comm) -> Status {
    EMU_TRY(needed(base, "base"));
    EMU_TRY(needed(bytes, "bytes"));
    *base = comm.scratch();
    *bytes = comm.config().scratchBytes;
    return Ok{};
  });
}

ncclResult_t commHostIndex(void* handle, uint32_t connection, nccomHostIndex_v1** index) {
  return guardComm(handle, [&](Comm& comm) -> Status {
    EMU_TRY(needed(index, "index"));
    if (connection >= comm.config().nConnections) {
      return fail(ncclInvalidArgument, "rank %d: connection %u of %u", comm.rank(), connection,
                  comm.config().nConnections);
    }
    *index = &comm.hostIndex(connection);
    return Ok{};
  });
}

ncclResult_t semaphoreAdd(void* handle, uint32_t semaphore, uint64_t value) {
  return guardComm(handle, [&](Comm& comm) -> Status {
    if (semaphore >= comm.config().nSemaphores) {
      return fail(ncclInvalidArgument, "rank %d: semaphore %u of %u", comm.rank(), semaphore,
                  comm.config().nSemaphores);
    }
    if (comm.semaphores()[semaphore].raise(value)) comm.runtime().doorbell().ring();
    return Ok{};
  });
}

ncclResult_t commAbort(void* handle, ncclResult_t code, const char* text) {
  return guardComm(handle, [&](Comm& comm) -> Status {
    if (code == ncclSuccess || code == ncclInProgress) {
      return fail(ncclInvalidArgument, "rank %d: abort with code %d, which is no failure",
                  comm.rank(), static_cast<int>(code));
    }
    comm.abort(Error{code, text != nullptr && text[0] != '\0' ? text : "aborted"});
    return Ok{};
  });
}

ncclResult_t commError(void* handle, ncclResult_t* code, const char** text) {
  return guardComm(handle, [&](Comm& comm) -> Status {
    EMU_TRY(needed(code, "code"));
    const bool failed = comm.failed();
    *code = failed ? comm.cause().code : ncclSuccess;
    if (text != nullptr) *text = failed ? comm.causeText() : "";
    return Ok{};
  });
}

ncclResult_t commSynchronize(void* handle) {
  return guardComm(handle, [&](Comm& comm) -> Status {
    comm.runtime().drain(comm);
    return Ok{};
  });
}

ncclResult_t commReport(void* handle, char* text, size_t bytes) {
  return guardComm(handle, [&](Comm& comm) -> Status {
    EMU_TRY(needed(text, "text"));
    if (bytes == 0) return fail(ncclInvalidArgument, "no room for a report");
    const std::string report = describeComm(comm);
    const size_t length = std::min(bytes - 1, report.size());
    memcpy(text, report.data(), length);
    text[length] = '\0';
    return Ok{};
  });
}

ncclResult_t commDestroy(void* handle) {
  return guardComm(handle, [](Comm& comm) { return comm.runtime().destroyComm(comm); });
}

ncclResult_t programLoad(void* handle, const nccomProgram_v1* program,
                         const nccomProgram_v1* staged, void** loaded) {
  return guardComm(handle, [&](Comm& comm) -> Status {
    EMU_TRY(needed(program, "program"));
    EMU_TRY(needed(loaded, "loaded"));
    *loaded = EMU_TRY(comm.load(*program, staged));
    return Ok{};
  });
}

ncclResult_t programUnload(void* handle, void* loaded) {
  return guardComm(handle, [&](Comm& comm) { return comm.unload(loaded); });
}

ncclResult_t launch(void* handle, void* loaded, const nccomLaunch_v1* launch, void* stream) {
  return guardComm(handle, [&](Comm& comm) -> Status {
    EMU_TRY(needed(launch, "launch"));
    Runtime& runtime = comm.runtime();
    Stream& target = *EMU_TRY(streamOf(runtime, stream, comm.config().device));
    if (const auto live = runtime.schedule().repeat(target, comm, loaded, *launch)) {
      // Loaded, as it was before.
      if (*live) runtime.engine().launched(comm, static_cast<LoadedProgram*>(loaded)->volume());
      return Ok{};
    }
    Op& op = *EMU_TRY(comm.prepare(loaded, *launch));
    const uint64_t volume = op.program->volume();
    if (EMU_TRY(runtime.schedule().append(target, op))) runtime.engine().launched(comm, volume);
    return Ok{};
  });
}

}  // namespace
}  // namespace nccom::emu

extern "C" {
// NOLINTNEXTLINE(readability-identifier-naming): the ABI's name
[[gnu::visibility("default")]] extern const nccomDevice_v1 nccomDevicePlugin_v1;
const nccomDevice_v1 nccomDevicePlugin_v1 = {
    .name = "emu",
    .init = nccom::emu::init,
    .finalize = nccom::emu::finalize,
    .lastError = nccom::emu::lastError,
    .memAlloc = nccom::emu::memAlloc,
    .memFree = nccom::emu::memFree,
    .streamCreate = nccom::emu::streamCreate,
    .streamDestroy = nccom::emu::streamDestroy,
    .streamDefault = nccom::emu::streamDefault,
    .streamSynchronize = nccom::emu::streamSynchronize,
    .streamQuery = nccom::emu::streamQuery,
    .deviceSynchronize = nccom::emu::deviceSynchronize,
    .eventCreate = nccom::emu::eventCreate,
    .eventDestroy = nccom::emu::eventDestroy,
    .eventRecord = nccom::emu::eventRecord,
    .eventSynchronize = nccom::emu::eventSynchronize,
    .eventQuery = nccom::emu::eventQuery,
    .eventElapsedTime = nccom::emu::eventElapsedTime,
    .commCreate = nccom::emu::commCreate,
    .commExport = nccom::emu::commExport,
    .commConnect = nccom::emu::commConnect,
    .commScratch = nccom::emu::commScratch,
    .commHostIndex = nccom::emu::commHostIndex,
    .semaphoreAdd = nccom::emu::semaphoreAdd,
    .commAbort = nccom::emu::commAbort,
    .commError = nccom::emu::commError,
    .commSynchronize = nccom::emu::commSynchronize,
    .commReport = nccom::emu::commReport,
    .commDestroy = nccom::emu::commDestroy,
    .programLoad = nccom::emu::programLoad,
    .programUnload = nccom::emu::programUnload,
    .launch = nccom::emu::launch,
};
}
