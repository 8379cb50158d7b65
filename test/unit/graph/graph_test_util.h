// What the tests of graph share.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace nccom {

/// The value of a result that must be there.
#define ASSERT_OK(name, expr)                                     \
  auto name##Result = (expr);                                     \
  ASSERT_TRUE(name##Result.ok()) << name##Result.error().message; \
  auto& name = name##Result.value()

inline void expectError(const std::string& message, const std::string& wanted) {
  EXPECT_NE(message.find(wanted), std::string::npos)
      << "'" << message << "' lacks '" << wanted << "'";
}

inline GraphInput inputFor(const std::vector<int>& devs, int lnc, int nRanks) {
  GraphInput input;
  input.lnc = lnc;
  input.nRanks = nRanks;
  for (int i = 0; i < static_cast<int>(devs.size()); i++)
    input.localRanks.push_back({i, devs[i]});
  return input;
}

/// Every channel visits each of the ranks 0..n-1 once.
inline void expectRings(const ncclTopoGraph& graph, int n) {
  ASSERT_GE(graph.nChannels, 1);
  ASSERT_EQ(static_cast<int>(graph.intra.size()), graph.nChannels);
  for (const std::vector<int>& channel : graph.intra) {
    const std::set<int> ranks(channel.begin(), channel.end());
    ASSERT_EQ(static_cast<int>(channel.size()), n);
    ASSERT_EQ(static_cast<int>(ranks.size()), n);
    ASSERT_EQ(*ranks.begin(), 0);
    ASSERT_EQ(*ranks.rbegin(), n - 1);
  }
}

inline std::string readText(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A file that goes away with the test.
class TempFile {
 public:
  explicit TempFile(const std::string& text) {
    const std::string pattern =
        (std::filesystem::temp_directory_path() / "graph_test_XXXXXX").string();
    path_ = pattern;
    const int fd = mkstemp(path_.data());
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

}  // namespace nccom
