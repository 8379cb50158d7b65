// ncclConfig_t, whatever release of it the application was compiled with.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "comm/comm.h"

namespace nccom {
namespace {

bool isSet(int value) {
  return value != NCCL_CONFIG_UNDEF_INT;
}

Status inRange(const char* field, int value, int low, int high) {
  if (!isSet(value) || (value >= low && value <= high)) return Ok{};
  return fail(ncclInvalidArgument, "config.%s is %d: expected %d to %d", field, value, low, high);
}

/// The caller's fields over the initializer's: older layouts are shorter, by `size`.
Result<ncclConfig_t> normalised(const ncclConfig_t* config) {
  ncclConfig_t full = NCCL_CONFIG_INITIALIZER;
  if (config == nullptr) return full;
  // size, magic and version come first in every release.
  if (config->magic != NCCL_API_MAGIC) {
    return fail(ncclInvalidArgument,
                "config.magic is 0x%x: expected 0x%x, as NCCL_CONFIG_INITIALIZER sets it",
                config->magic, NCCL_API_MAGIC);
  }
  if (config->size < offsetof(ncclConfig_t, cgaClusterSize)) {
    return fail(ncclInvalidArgument,
                "config.size is %zu: expected what NCCL_CONFIG_INITIALIZER sets", config->size);
  }
  memcpy(static_cast<void*>(&full), config, std::min(config->size, sizeof full));
  return full;
}

}  // namespace

Result<CommConfig> commConfigOf(const ncclConfig_t* config, const ncclParams& params) {
  const ncclConfig_t given = TRY(normalised(config));
  TRY(inRange("blocking", given.blocking, 0, 1));
  TRY(inRange("cgaClusterSize", given.cgaClusterSize, 0, 8));
  TRY(inRange("minCTAs", given.minCTAs, 1, 32));
  TRY(inRange("maxCTAs", given.maxCTAs, 1, 32));
  TRY(inRange("splitShare", given.splitShare, 0, 1));
  CommConfig result;
  if (isSet(given.blocking)) result.blocking = given.blocking == 1;
  result.minChannels = isSet(given.minCTAs) ? given.minCTAs : static_cast<int>(params.minChannels);
  result.maxChannels = isSet(given.maxCTAs) ? given.maxCTAs : static_cast<int>(params.maxChannels);
  if (result.minChannels > result.maxChannels) {
    return fail(ncclInvalidArgument, "config.minCTAs %d (or NCCL_MIN_NCHANNELS) exceeds maxCTAs %d",
                result.minChannels, result.maxChannels);
  }
  result.netName = given.netName != nullptr ? given.netName : params.net;
  if (given.commName != nullptr) result.name = given.commName;
  return result;
}

}  // namespace nccom
