// nccom.h: devices, streams and events.
#include "api/guard.h"
#include "comm/process.h"
#include "include/nccom.h"

using nccom::guard;
using nccom::needed;
using nccom::Ok;
using nccom::Process;
using nccom::Status;
using nccom::streamOf;

ncclResult_t nccomGetDeviceCount(int* count) {
  return guard("nccomGetDeviceCount", [&]() -> Status {
    TRY(needed(count, "count"));
    *count = TRY(Process::withoutDevice())->deviceCount();
    return Ok{};
  });
}

ncclResult_t nccomSetDevice(int device) {
  return guard("nccomSetDevice",
               [&]() -> Status { return nccom::setCurrentDevice(*TRY(Process::get()), device); });
}

ncclResult_t nccomGetDevice(int* device) {
  return guard("nccomGetDevice", [&]() -> Status {
    TRY(needed(device, "device"));
    *device = nccom::currentDevice();
    return Ok{};
  });
}

ncclResult_t nccomDeviceSynchronize() {
  return guard("nccomDeviceSynchronize", [&]() -> Status {
    return TRY(Process::get())->device().deviceSynchronize(nccom::currentDevice());
  });
}

ncclResult_t nccomStreamCreate(ncclStream_t* stream) {
  return guard("nccomStreamCreate", [&]() -> Status {
    TRY(needed(stream, "stream"));
    Process& process = *TRY(Process::get());
    *stream =
        reinterpret_cast<ncclStream_t>(TRY(process.device().streamCreate(nccom::currentDevice())));
    return Ok{};
  });
}

ncclResult_t nccomStreamDestroy(ncclStream_t stream) {
  return guard("nccomStreamDestroy", [&]() -> Status {
    if (stream == nullptr) {
      return nccom::fail(ncclInvalidArgument, "the default stream cannot be destroyed");
    }
    return TRY(Process::get())->device().streamDestroy(stream);
  });
}

ncclResult_t nccomStreamSynchronize(ncclStream_t stream) {
  return guard("nccomStreamSynchronize", [&]() -> Status {
    Process& process = *TRY(Process::get());
    if (stream != nullptr) return process.device().streamSynchronize(stream);
    Status first = Ok{};
    for (void* each : TRY(nccom::nullStreams(process))) {
      Status done = process.device().streamSynchronize(each);
      if (first.ok()) first = std::move(done);
    }
    nccom::forgetNullStreams();
    return first;
  });
}

ncclResult_t nccomStreamQuery(ncclStream_t stream) {
  return guard("nccomStreamQuery", [&]() -> Status {
    Process& process = *TRY(Process::get());
    if (stream != nullptr) return process.device().streamQuery(stream);
    for (void* each : TRY(nccom::nullStreams(process))) {
      Status done = process.device().streamQuery(each);
      if (!done.ok()) return done;
    }
    return Ok{};
  });
}

ncclResult_t nccomEventCreate(nccomEvent_t* event) {
  return guard("nccomEventCreate", [&]() -> Status {
    TRY(needed(event, "event"));
    Process& process = *TRY(Process::get());
    *event = reinterpret_cast<nccomEvent_t>(TRY(process.device().eventCreate()));
    return Ok{};
  });
}

ncclResult_t nccomEventDestroy(nccomEvent_t event) {
  return guard("nccomEventDestroy", [&]() -> Status {
    if (event == nullptr) return Ok{};
    return TRY(Process::get())->device().eventDestroy(event);
  });
}

ncclResult_t nccomEventRecord(nccomEvent_t event, ncclStream_t stream) {
  return guard("nccomEventRecord", [&]() -> Status {
    TRY(needed(event, "event"));
    Process& process = *TRY(Process::get());
    return process.device().eventRecord(event, TRY(streamOf(process, stream)));
  });
}

ncclResult_t nccomEventSynchronize(nccomEvent_t event) {
  return guard("nccomEventSynchronize", [&]() -> Status {
    TRY(needed(event, "event"));
    return TRY(Process::get())->device().eventSynchronize(event);
  });
}

ncclResult_t nccomEventQuery(nccomEvent_t event) {
  return guard("nccomEventQuery", [&]() -> Status {
    TRY(needed(event, "event"));
    return TRY(Process::get())->device().eventQuery(event);
  });
}

ncclResult_t nccomEventElapsedTime(float* ms, nccomEvent_t start, nccomEvent_t end) {
  return guard("nccomEventElapsedTime", [&]() -> Status {
    TRY(needed(ms, "ms"));
    TRY(needed(start, "start"));
    TRY(needed(end, "end"));
    Process& process = *TRY(Process::get());
    *ms = TRY(process.device().eventElapsedTime(start, end));
    return Ok{};
  });
}
