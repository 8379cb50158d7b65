// Where the plugins of these tests are, and folders that go away.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace nccom {

/// The folder that the plugins of this folder's C files are built into.
inline std::string pluginFolder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "plugin";
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = testing::TempDir() + "nccomXXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace nccom
