#include "tools/nccom/topo_batch.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

namespace nccom {
namespace {

namespace fs = std::filesystem;

Result<std::vector<fs::path>> filesOf(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> names;
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
    if (i->path().extension() == ".json") names.push_back(i->path().filename());
  }
  if (error) return fail(ncclSystemError, "%s: %s", folder.c_str(), error.message().c_str());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

Result<int> runBatch(const std::string& goldenDir, const std::string& xmlDir,
                     const std::string& outDir, const TopoChoice& choice) {
  std::error_code error;
  fs::create_directories(outDir, error);
  if (error) return fail(ncclSystemError, "%s: %s", outDir.c_str(), error.message().c_str());
  int written = 0;
  for (const fs::path& name : TRY(filesOf(goldenDir))) {
    const fs::path stem = name.stem();  // NAME.TAG
    const std::string tag = stem.extension().string();
    const TopoMode mode = TRY(parseMode(tag.empty() ? tag : tag.substr(1)));
    TopoSource source;
    source.file = (fs::path(xmlDir) / stem.stem()).string() + ".xml";
    const Result<TopoAnswer> answer = runTopo(source, mode, choice);
    const Json json =
        answer.ok() ? answerJson(answer.value()) : Json({{"error", answer.error().message}});
    std::ofstream file(fs::path(outDir) / name);
    file << json.dump() << '\n';
    file.close();
    if (!file) {
      return fail(ncclSystemError, "%s/%s: cannot be written", outDir.c_str(), name.c_str());
    }
    written++;
  }
  return written;
}

}  // namespace nccom
