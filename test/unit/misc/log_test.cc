#include "misc/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

namespace nccom {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// What is logged to a file while it lives.
class LogFile {
 public:
  explicit LogFile(LogConfig config)
      : path_(testing::TempDir() + "log_test." + std::to_string(getpid())) {
    config.file = path_;
    logConfigure(config);
  }
  ~LogFile() {
    logConfigure(LogConfig{});
    unlink(path_.c_str());
  }
  std::string text() const {
    std::ifstream file(path_);
    std::stringstream all;
    all << file.rdbuf();
    return all.str();
  }

 private:
  std::string path_;
};

TEST(Log, WritesOneWholeLineHoweverLong) {
  const LogFile file({LogLevel::Warn, kLogAll, ""});
  const std::string text(20000, 'x');
  WARN("%s", text.c_str());
  EXPECT_THAT(file.text(), HasSubstr(text + "\n"));
}

TEST(Log, EvaluatesNothingWhenALevelIsOff) {
  const LogFile file({LogLevel::Warn, kLogAll, ""});
  int evaluated = 0;
  INFO(kLogNet, "%d", ++evaluated);
  EXPECT_EQ(evaluated, 0);
  EXPECT_EQ(file.text(), "");
}

TEST(Log, ShowsInfoOfTheChosenSubsystemsOnly) {
  const LogFile file({LogLevel::Info, kLogNet, ""});
  INFO(kLogNet, "wanted");
  INFO(kLogGraph, "unwanted");
  EXPECT_THAT(file.text(), HasSubstr("wanted"));
  EXPECT_THAT(file.text(), Not(HasSubstr("unwanted")));
}

TEST(Log, DoesNotTakePluginsTextAsAFormat) {
  const LogFile file({LogLevel::Warn, kLogAll, ""});
  logText(LogLevel::Warn, kLogNet, "%s%n%d");
  EXPECT_THAT(file.text(), HasSubstr("%s%n%d"));
}

TEST(Log, FallsToStderrWithOneLineWhenTheFileCannotBeOpened) {
  testing::internal::CaptureStderr();
  logConfigure({LogLevel::Warn, kLogAll, "/no/such/dir/x.%h.%p"});
  WARN("still here");
  logConfigure(LogConfig{});
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("NCCL_DEBUG_FILE"));
  EXPECT_THAT(text, HasSubstr("/no/such/dir/x."));
  EXPECT_THAT(text, HasSubstr("still here"));
}

}  // namespace
}  // namespace nccom
