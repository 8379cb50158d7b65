// The C boundary: a Status becomes an ncclResult_t, its text what ncclGetLastError returns, and no
// exception leaves the library.
#pragma once

#include <exception>
#include <new>
#include <utility>

#include "comm/group.h"
#include "comm/last_error.h"
#include "misc/log.h"
#include "misc/result.h"

namespace nccom {

/// Reports an API call's failure: log, last error, the group it was made in.
inline ncclResult_t apiFailed(const char* function, const Error& error) {
  if (error.code == ncclInProgress) return error.code;
  const std::string text = std::string(function) + ": " + error.message;
  WARN("%s", text.c_str());
  setLastError(text);
  groupFailed(error);
  return error.code;
}

/// Runs the body of an API function.
template <class Body>
ncclResult_t guard(const char* function, Body&& body) {
  try {
    const Status status = std::forward<Body>(body)();
    return status.ok() ? ncclSuccess : apiFailed(function, status.error());
  } catch (const std::bad_alloc&) {
    return apiFailed(function, Error{ncclSystemError, "out of memory"});
  } catch (const std::exception& e) {
    return apiFailed(function, Error{ncclSystemError, e.what()});
  }
}

/// Checks an argument that must not be NULL.
inline Status needed(const void* pointer, const char* name) {
  if (pointer != nullptr) return Ok{};
  return fail(ncclInvalidArgument, "%s is NULL", name);
}

}  // namespace nccom

// The pnccl twin of an API function that is defined above it in the same file.
#define NCCL_TWIN(name) \
  extern "C" decltype(name) p##name __attribute__((alias(#name), visibility("default")))
