// Parameters: read once into a value, then passed down. Nothing else in the library calls getenv.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "misc/log.h"
#include "misc/result.h"

namespace nccom {

struct ncclParams {
#define PARAM(field, variable, type, fallback, unit, doc, source) type field = fallback;
#include "misc/params.def"
#undef PARAM
};

using EnvLookup = std::function<const char*(const char* variable)>;  // getenv, or a test's map

/// @error  ncclInvalidUsage  a variable is set to what its type does not take; never a silent
///                           default
Result<ncclParams> readParams(const EnvLookup& lookup);

/// readParams over the process environment.
Result<ncclParams> readProcessParams();

/// The NCCL_* and NCCOM_* names of `environment` ("NAME=value" lines) that the table lacks.
std::vector<std::string> unknownVariables(const char* const* environment);

/// Parses NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE.
///
/// @error  ncclInvalidUsage  an unknown level or subsystem; the text lists the known ones
Result<LogConfig> logConfigOf(const ncclParams& params);

/// A variable and its value as text.
struct ParamText {
  const char* variable;
  std::string value;
};

/// All parameters in the order of the table.
std::vector<ParamText> paramTexts(const ncclParams& params);

/// docs/env.md: a table row a parameter.
std::string paramsMarkdown();

}  // namespace nccom
