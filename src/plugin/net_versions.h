// The versions of the net ABI that can be adapted; a new one is a file and a row here and in
// net.cc.
#pragma once

#include <memory>

#include "plugin/library.h"
#include "plugin/net.h"

namespace nccom {

/// Takes the table that `library` exports, runs its init and checks what the table holds then.
///
/// @error  init's            it failed; the text has what the plugin logged
/// @error  ncclInvalidUsage  the table lacks a function that every net must have
Result<std::unique_ptr<Net>> openNetV8(Library library, const void* table);

}  // namespace nccom
