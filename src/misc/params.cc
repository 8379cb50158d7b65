#include "misc/params.h"

#include <strings.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>

namespace nccom {
namespace {

Status parseParam(const char* variable, const char* text, int64_t& value) {
  const auto [stop, bad] = std::from_chars(text, text + strlen(text), value);
  if (bad == std::errc() && *stop == '\0') return Ok{};
  return fail(ncclInvalidUsage, "%s is '%s': expected a whole number", variable, text);
}

Status parseParam(const char* variable, const char* text, bool& value) {
  if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0) {
    return fail(ncclInvalidUsage, "%s is '%s': expected 0 or 1", variable, text);
  }
  value = text[0] == '1';
  return Ok{};
}

Status parseParam(const char* /*variable*/, const char* text, std::string& value) {
  value = text;
  return Ok{};
}

Status inRange(const char* variable, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return Ok{};
  return fail(ncclInvalidUsage, "%s is %lld: expected %lld to %lld", variable,
              static_cast<long long>(value), static_cast<long long>(low),
              static_cast<long long>(high));
}

Status checkRanges(const ncclParams& params) {
  TRY(inRange("NCCL_MIN_NCHANNELS", params.minChannels, 0, 32));
  TRY(inRange("NCCL_MAX_NCHANNELS", params.maxChannels, 1, 32));
  TRY(inRange("NCCL_BUFFSIZE", params.bufferBytes, 1, INT64_C(1) << 31));
  TRY(inRange("NEURON_CCOM_SOCK_TIMEOUT", params.sockTimeoutMs, 1, INT32_MAX));
  TRY(inRange("NCCOM_TIMEOUT", params.timeoutSec, 0, INT32_MAX));
  TRY(inRange("NCCOM_ENGINE_THREADS", params.engineThreads, -1, 1024));
  TRY(inRange("NCCOM_CMA", params.cma, -1, 1));
  TRY(inRange("NCCOM_HBM_SIZE", params.hbmBytes, INT64_C(1) << 26, INT64_C(1) << 46));
  TRY(inRange("NCCOM_HOST_DEVICES", params.hostDevices, 0, 4096));
  TRY(inRange("NEURON_LOGICAL_NC_CONFIG", params.logicalNc, 0, 2));
  return Ok{};
}

// What a value looks like to a user.
const char* kindOf(int64_t /*value*/) {
  return "number";
}
const char* kindOf(bool /*value*/) {
  return "0 or 1";
}
const char* kindOf(const std::string& /*value*/) {
  return "text";
}

std::string textOf(int64_t value) {
  return std::to_string(value);
}
std::string textOf(bool value) {
  return value ? "1" : "0";
}
std::string textOf(const std::string& value) {
  return value;
}

constexpr std::array<std::pair<const char*, uint64_t>, 18> kSubsystems{{
    {"INIT", kLogInit},
    {"COLL", kLogColl},
    {"P2P", kLogP2p},
    {"SHM", kLogShm},
    {"NET", kLogNet},
    {"GRAPH", kLogGraph},
    {"TUNING", kLogTuning},
    {"ENV", kLogEnv},
    {"ALLOC", kLogAlloc},
    {"CALL", kLogCall},
    {"PROXY", kLogProxy},
    {"NVLS", kLogNvls},
    {"BOOTSTRAP", kLogBootstrap},
    {"REG", kLogReg},
    {"PROFILE", kLogProfile},
    {"RAS", kLogRas},
    {"DESTROY", kLogDestroy},
    {"ALL", kLogAll},
}};

Result<uint64_t> subsystemMask(const std::string& list) {
  uint64_t mask = 0;
  bool first = true;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    std::string name = list.substr(begin, end - begin);
    begin = end + 1;
    const bool negative = !name.empty() && name[0] == '^';
    if (negative) name.erase(0, 1);
    if (name.empty()) continue;
    if (negative && first) mask = kLogAll;
    first = false;
    uint64_t bit = 0;
    for (const auto& [known, value] : kSubsystems) {
      if (strcasecmp(known, name.c_str()) == 0) bit = value;
    }
    if (bit == 0) {
      std::string known;
      for (const auto& row : kSubsystems)
        known += std::string(known.empty() ? "" : ", ") + row.first;
      return fail(ncclInvalidUsage, "NCCL_DEBUG_SUBSYS has '%s': expected any of %s", name.c_str(),
                  known.c_str());
    }
    mask = negative ? mask & ~bit : mask | bit;
  }
  return mask;
}

}  // namespace

Result<ncclParams> readParams(const EnvLookup& lookup) {
  ncclParams params;
#define PARAM(field, variable, type, fallback, unit, doc, source) \
  if (const char* text = lookup(variable)) TRY(parseParam(variable, text, params.field));
#include "misc/params.def"
#undef PARAM
  TRY(checkRanges(params));
  return params;
}

Result<ncclParams> readProcessParams() {
  return readParams([](const char* variable) -> const char* { return getenv(variable); });
}

std::vector<std::string> unknownVariables(const char* const* environment) {
  std::vector<std::string> unknown;
  for (const char* const* entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string name(*entry, strcspn(*entry, "="));
    if (name.rfind("NCCL_", 0) != 0 && name.rfind("NCCOM_", 0) != 0) continue;
    bool known = false;
#define PARAM(field, variable, type, fallback, unit, doc, source) known |= name == variable;
#include "misc/params.def"
#undef PARAM
    if (!known) unknown.push_back(name);
  }
  return unknown;
}

Result<LogConfig> logConfigOf(const ncclParams& params) {
  LogConfig config;
  config.file = params.debugFile;
  constexpr std::array<std::pair<const char*, LogLevel>, 6> kLevels{{
      {"", LogLevel::None},
      {"NONE", LogLevel::None},
      {"VERSION", LogLevel::Version},
      {"WARN", LogLevel::Warn},
      {"INFO", LogLevel::Info},
      {"TRACE", LogLevel::Trace},
  }};
  bool found = false;
  for (const auto& [name, level] : kLevels) {
    if (strcasecmp(name, params.debug.c_str()) != 0) continue;
    config.level = level;
    found = true;
  }
  if (!found) {
    return fail(ncclInvalidUsage, "NCCL_DEBUG is '%s': expected NONE, VERSION, WARN, INFO or TRACE",
                params.debug.c_str());
  }
  config.subsys = TRY(subsystemMask(params.debugSubsys));
  return config;
}

std::vector<ParamText> paramTexts(const ncclParams& params) {
  std::vector<ParamText> texts;
#define PARAM(field, variable, type, fallback, unit, doc, source) \
  texts.push_back({variable, textOf(params.field)});
#include "misc/params.def"
#undef PARAM
  return texts;
}

std::string paramsMarkdown() {
  const ncclParams defaults;
  std::string text =
      "# Environment variables\n\nMade from `src/misc/params.def` by `make docs`.\n\n"
      "| variable | type | default | unit | what it does | source |\n|---|---|---|---|---|---|\n";
#define PARAM(field, variable, type, fallback, unit, doc, source)                \
  text += std::string("| `" variable "` | ") + kindOf(defaults.field) + " | `" + \
          textOf(defaults.field) + "` | " unit " | " doc " | " source " |\n";
#include "misc/params.def"
#undef PARAM
  return text;
}

}  // namespace nccom
