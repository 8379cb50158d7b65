// Many answers from one process, for comparisons over a corpus of files.
#pragma once

#include <string>

#include "tools/nccom/topo_run.h"

namespace nccom {

/// For every NAME.TAG.json in `goldenDir`: the answer to NAME.xml of `xmlDir` in mode TAG, as a
/// file of the same name in `outDir`. A topology that is refused gives {"error": why}.
/// @return  how many files were written
/// @error ncclSystemError      a folder cannot be read, or a file not written
/// @error ncclInvalidArgument  a tag that is no mode
Result<int> runBatch(const std::string& goldenDir, const std::string& xmlDir,
                     const std::string& outDir, const TopoChoice& choice);

}  // namespace nccom
