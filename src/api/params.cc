// Run-time parameters by name, as the library read them.
#include <charconv>
#include <cstring>
#include <string>
#include <vector>

#include "api/guard.h"
#include "comm/process.h"

// What a handle points to: a row of the table, with its value as text and, if it is one, as a
// number.
struct ncclParamHandle {
  std::string variable;
  std::string value;
  bool isNumber;
  int64_t number;
};

namespace nccom {
namespace {

/// The table as handles; made once, owned by the library.
Result<const std::vector<ncclParamHandle>*> table() {
  const Process& process = *TRY(Process::get());
  static const std::vector<ncclParamHandle>& rows = *[&process] {  // NOLINT: handles never die
    auto* made = new std::vector<ncclParamHandle>;                 // NOLINT
    for (const ParamText& row : paramTexts(process.params())) {
      ncclParamHandle handle{row.variable, row.value, false, 0};
      const char* end = row.value.data() + row.value.size();
      const auto parsed = std::from_chars(row.value.data(), end, handle.number);
      handle.isNumber = parsed.ec == std::errc() && parsed.ptr == end;
      made->push_back(handle);
    }
    return made;
  }();
  return &rows;
}

Result<const ncclParamHandle*> find(const char* key) {
  TRY(needed(key, "key"));
  for (const ncclParamHandle& row : *TRY(table())) {
    if (row.variable == key) return &row;
  }
  return fail(ncclInvalidArgument, "no parameter is named '%s'", key);
}

template <class Number>
ncclResult_t getNumber(const char* function, const ncclParamHandle* handle, Number* out) {
  return guard(function, [&]() -> Status {
    TRY(needed(handle, "h"));
    TRY(needed(out, "out"));
    const auto value = static_cast<Number>(handle->number);
    const bool fits = static_cast<int64_t>(value) == handle->number &&
                      (handle->number >= 0 || static_cast<Number>(-1) < Number{});
    if (!handle->isNumber || !fits) {
      return fail(ncclInvalidArgument, "%s is '%s', which this type cannot hold",
                  handle->variable.c_str(), handle->value.c_str());
    }
    *out = value;
    return Ok{};
  });
}

}  // namespace
}  // namespace nccom

using nccom::getNumber;
using nccom::guard;
using nccom::needed;
using nccom::Ok;
using nccom::Status;

ncclResult_t ncclParamBind(ncclParamHandle_t* out, const char* key) {
  return guard("ncclParamBind", [&]() -> Status {
    TRY(needed(out, "out"));
    *out = const_cast<ncclParamHandle_t>(TRY(nccom::find(key)));
    return Ok{};
  });
}
NCCL_TWIN(ncclParamBind);

ncclResult_t ncclParamGetI8(ncclParamHandle_t h, int8_t* out) {
  return getNumber("ncclParamGetI8", h, out);
}
NCCL_TWIN(ncclParamGetI8);

ncclResult_t ncclParamGetI16(ncclParamHandle_t h, int16_t* out) {
  return getNumber("ncclParamGetI16", h, out);
}
NCCL_TWIN(ncclParamGetI16);

ncclResult_t ncclParamGetI32(ncclParamHandle_t h, int32_t* out) {
  return getNumber("ncclParamGetI32", h, out);
}
NCCL_TWIN(ncclParamGetI32);

ncclResult_t ncclParamGetI64(ncclParamHandle_t h, int64_t* out) {
  return getNumber("ncclParamGetI64", h, out);
}
NCCL_TWIN(ncclParamGetI64);

ncclResult_t ncclParamGetU8(ncclParamHandle_t h, uint8_t* out) {
  return getNumber("ncclParamGetU8", h, out);
}
NCCL_TWIN(ncclParamGetU8);

ncclResult_t ncclParamGetU16(ncclParamHandle_t h, uint16_t* out) {
  return getNumber("ncclParamGetU16", h, out);
}
NCCL_TWIN(ncclParamGetU16);

ncclResult_t ncclParamGetU32(ncclParamHandle_t h, uint32_t* out) {
  return getNumber("ncclParamGetU32", h, out);
}
NCCL_TWIN(ncclParamGetU32);

ncclResult_t ncclParamGetU64(ncclParamHandle_t h, uint64_t* out) {
  return getNumber("ncclParamGetU64", h, out);
}
NCCL_TWIN(ncclParamGetU64);

ncclResult_t ncclParamGetStr(ncclParamHandle_t h, const char** out) {
  return guard("ncclParamGetStr", [&]() -> Status {
    TRY(needed(h, "h"));
    TRY(needed(out, "out"));
    *out = h->value.c_str();
    return Ok{};
  });
}
NCCL_TWIN(ncclParamGetStr);

ncclResult_t ncclParamGet(ncclParamHandle_t h, void* out, int maxLen, int* len) {
  return guard("ncclParamGet", [&]() -> Status {
    TRY(needed(h, "h"));
    TRY(needed(out, "out"));
    const auto bytes = static_cast<int>(h->value.size()) + 1;
    if (maxLen < bytes) {
      return nccom::fail(ncclInvalidArgument, "%s takes %d bytes, maxLen is %d",
                         h->variable.c_str(), bytes, maxLen);
    }
    memcpy(out, h->value.c_str(), static_cast<size_t>(bytes));
    if (len != nullptr) *len = bytes;
    return Ok{};
  });
}
NCCL_TWIN(ncclParamGet);

ncclResult_t ncclParamGetParameter(const char* key, const char** value, int* valueLen) {
  return guard("ncclParamGetParameter", [&]() -> Status {
    TRY(needed(value, "value"));
    const ncclParamHandle* row = TRY(nccom::find(key));
    *value = row->value.c_str();
    if (valueLen != nullptr) *valueLen = static_cast<int>(row->value.size());
    return Ok{};
  });
}
NCCL_TWIN(ncclParamGetParameter);

ncclResult_t ncclParamGetAllParameterKeys(const char*** table, int* tableLen) {
  return guard("ncclParamGetAllParameterKeys", [&]() -> Status {
    TRY(needed(table, "table"));
    TRY(needed(tableLen, "tableLen"));
    thread_local std::vector<const char*> keys;
    keys.clear();
    for (const ncclParamHandle& row : *TRY(nccom::table()))
      keys.push_back(row.variable.c_str());
    *table = keys.data();
    *tableLen = static_cast<int>(keys.size());
    return Ok{};
  });
}
NCCL_TWIN(ncclParamGetAllParameterKeys);

void ncclParamDumpAll() {
  (void)guard("ncclParamDumpAll", []() -> Status {
    for (const ncclParamHandle& row : *TRY(nccom::table())) {
      INFO(nccom::kLogEnv, "%s %s", row.variable.c_str(), row.value.c_str());
    }
    return Ok{};
  });
}
NCCL_TWIN(ncclParamDumpAll);

void ncclResetDebugInit() {
  (void)guard("ncclResetDebugInit", []() -> Status {
    const nccom::ncclParams params = TRY(nccom::readProcessParams());
    nccom::logConfigure(TRY(nccom::logConfigOf(params)));
    return Ok{};
  });
}
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
NCCL_TWIN(ncclResetDebugInit);
