// What the tests of the tool share.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tools/nccom/command.h"
#include "tools/nccom/topo_run.h"

namespace nccom {

/// The value of a result that must be there.
#define ASSERT_OK(name, expr)                                     \
  auto name##Result = (expr);                                     \
  ASSERT_TRUE(name##Result.ok()) << name##Result.error().message; \
  auto& name = name##Result.value()

/// What a command line led to.
struct Outcome {
  int status = -1;
  std::string out, err;
};

inline Outcome run(std::vector<const char*> args) {
  args.insert(args.begin(), "nccom");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.status = runProgram(static_cast<int>(args.size()), args.data());
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

inline void expectPart(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' lacks '" << part << "'";
}

/// Two CPUs with two devices each, in a ring of links, and a NIC.
inline std::string smallSystem(int nvlinkCount = 1) {
  std::string text = "<system version=\"1\">";
  for (int dev = 0; dev < 4; dev++) {
    const std::string n = std::to_string(dev);
    if (dev % 2 == 0) {
      text += "<cpu numaid=\"" + std::to_string(dev / 2) +
              "\" affinity=\"1\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" "
              "modelid=\"143\">";
    }
    text += "<pci busid=\"0000:1" + n +
            ":00.0\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"><gpu "
            "dev=\"" +
            n + "\" sm=\"80\" gdr=\"1\">";
    for (const int peer : {(dev + 1) % 4, (dev + 3) % 4}) {
      text += "<nvlink target=\"0000:1" + std::to_string(peer) + ":00.0\" count=\"" +
              std::to_string(nvlinkCount) + "\" tclass=\"0x030200\"/>";
    }
    text += "</gpu></pci>";
    if (dev == 1) {
      text +=
          "<pci busid=\"0000:20:00.0\" class=\"0x020000\" link_speed=\"16.0 GT/s PCIe\" "
          "link_width=\"16\"><nic><net name=\"net&lt;0&gt;\" dev=\"0\" speed=\"100000\" "
          "port=\"1\" latency=\"0\" guid=\"0x1\" maxconn=\"1024\" gdr=\"1\"/></nic></pci>";
    }
    if (dev % 2 == 1) text += "</cpu>";
  }
  return text + "</system>";
}

/// A file that goes away with the test.
class TempFile {
 public:
  explicit TempFile(const std::string& text, const std::string& suffix = ".xml") {
    path_ = (std::filesystem::temp_directory_path() / ("tool_test_XXXXXX" + suffix)).string();
    const int fd = mkstemps(path_.data(), static_cast<int>(suffix.size()));
    if (fd >= 0) close(fd);
    std::ofstream(path_) << text;
  }
  ~TempFile() { std::filesystem::remove(path_); }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string readText(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline Result<TopoAnswer> answerTo(const TopoSource& source, const std::string& mode) {
  const TopoMode parsed = TRY(parseMode(mode));
  return runTopo(source, parsed, {});
}

/// The answer to the small system.
inline Result<TopoAnswer> smallAnswer(const std::string& mode, int nvlinkCount = 1) {
  const TempFile file(smallSystem(nvlinkCount));
  TopoSource source;
  source.file = file.path();
  return answerTo(source, mode);
}

inline Result<TopoAnswer> platformAnswer(const std::string& name, const std::string& mode = "p1") {
  TopoSource source;
  source.platform = name;
  return answerTo(source, mode);
}

}  // namespace nccom
