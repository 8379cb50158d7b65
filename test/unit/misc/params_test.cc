#include "misc/params.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

namespace nccom {
namespace {

using ::testing::HasSubstr;

Result<ncclParams> read(const std::map<std::string, std::string>& environment) {
  return readParams([&](const char* variable) -> const char* {
    const auto found = environment.find(variable);
    return found != environment.end() ? found->second.c_str() : nullptr;
  });
}

TEST(Params, AreTheTablesDefaultsWhenNothingIsSet) {
  const auto params = read({});
  ASSERT_TRUE(params.ok());
  EXPECT_EQ(params.value().platform, "trn2.48xlarge");
  EXPECT_EQ(params.value().maxChannels, 32);
  EXPECT_TRUE(params.value().proxyThread);
}

TEST(Params, RefuseWhatTheirTypeDoesNotTakeAndNameTheVariable) {
  for (const char* junk : {"", " 1", "1 ", "0x10", "1e3", "yes", "99999999999999999999"}) {
    const auto params = read({{"NCCL_BUFFSIZE", junk}});
    ASSERT_FALSE(params.ok()) << "'" << junk << "'";
    EXPECT_THAT(params.error().message, HasSubstr("NCCL_BUFFSIZE"));
  }
  for (const char* junk : {"", "2", "true", "01"}) {
    const auto params = read({{"NCCOM_CHECK_CALLS", junk}});
    ASSERT_FALSE(params.ok()) << "'" << junk << "'";
    EXPECT_THAT(params.error().message, HasSubstr("NCCOM_CHECK_CALLS"));
  }
}

TEST(Params, RefuseNumbersOutsideTheirRange) {
  const std::vector<std::pair<std::string, std::string>> beyond = {
      {"NCCL_BUFFSIZE", "0"},           {"NCCL_BUFFSIZE", "-5"}, {"NCCL_MAX_NCHANNELS", "0"},
      {"NCCL_MAX_NCHANNELS", "33"},     {"NCCOM_CMA", "2"},      {"NCCOM_TIMEOUT", "-1"},
      {"NEURON_LOGICAL_NC_CONFIG", "3"}};
  for (const auto& [variable, value] : beyond) {
    const auto params = read({{variable, value}});
    ASSERT_FALSE(params.ok()) << variable;
    EXPECT_THAT(params.error().message, HasSubstr(variable));
    EXPECT_THAT(params.error().message, HasSubstr(value));
  }
}

TEST(Params, OfEveryRowCanBeSetAndReadBack) {
  for (const ParamText& row : paramTexts(ncclParams{})) {
    const auto params = read({{row.variable, row.value}});
    ASSERT_TRUE(params.ok()) << row.variable << ": " << params.error().message;
  }
}

TEST(Params, FindUnknownNamesOfOurPrefixesOnly) {
  const char* const environment[] = {"NCCL_ALGOO=x", "NCCL_DEBUG=INFO", "NCCOM_X=1",
                                     "HOME=/",       "XNCCL_Y=1",       nullptr};
  EXPECT_THAT(unknownVariables(environment), ::testing::ElementsAre("NCCL_ALGOO", "NCCOM_X"));
}

TEST(Params, AreWhatTheDocumentSays) {
  std::ifstream file("docs/env.md");
  if (!file) GTEST_SKIP() << "not run from the project's root";
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), paramsMarkdown()) << "run 'make docs'";
}

TEST(LogConfig, KnowsLevelsAndSubsystemsInAnyCase) {
  ncclParams params;
  params.debug = "info";
  params.debugSubsys = "net,GRAPH";
  const auto config = logConfigOf(params);
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config.value().level, LogLevel::Info);
  EXPECT_EQ(config.value().subsys, static_cast<uint64_t>(kLogNet) | kLogGraph);
}

TEST(LogConfig, TakesAwayWhatACaretNames) {
  ncclParams params;
  params.debugSubsys = "^NET";
  const auto config = logConfigOf(params);
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config.value().subsys, kLogAll & ~static_cast<uint64_t>(kLogNet));
}

TEST(LogConfig, ListsTheKnownOnesWhenItMeetsAnother) {
  ncclParams params;
  params.debugSubsys = "help";
  EXPECT_THAT(logConfigOf(params).error().message, HasSubstr("BOOTSTRAP"));
  params.debugSubsys = "NET";
  params.debug = "LOUD";
  EXPECT_THAT(logConfigOf(params).error().message, HasSubstr("TRACE"));
}

}  // namespace
}  // namespace nccom
