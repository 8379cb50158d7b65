// A user's program, built against the installed library.
#include <gtest/gtest.h>
#include <stdlib.h>

#include "test/unit/system/run.h"

namespace nccom::test {
namespace {

TEST(Install, AProgramBuildsWithPkgConfigAndRuns) {
  const std::string prefix = buildDir() + "/installed";
  const Outcome installed =
      run("make --no-print-directory install BUILD=" + buildDir() + " PREFIX=" + prefix, {}, 300);
  ASSERT_EQ(installed.status, 0) << installed.output;
  const Env env{{"PKG_CONFIG_PATH", prefix + "/lib/pkgconfig"}};
  const Outcome flags = run("pkg-config --cflags --libs libnccom", env);
  ASSERT_EQ(flags.status, 0) << flags.output;
  const std::string program = prefix + "/all_reduce";
  const Outcome built =
      run("cc -std=c99 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -pedantic -o " + program +
          " test/install/all_reduce.c " + flags.output + " -Wl,-rpath," + prefix + "/lib");
  ASSERT_EQ(built.status, 0) << built.output;
  char absolute[4096];
  ASSERT_NE(realpath(program.c_str(), absolute), nullptr);
  const Outcome outcome = run(absolute, {{"LD_LIBRARY_PATH", prefix + "/lib"}});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  for (const char* line :
       {"rank 0: 0 wrong", "rank 1: 0 wrong", "rank 2: 0 wrong", "rank 3: 0 wrong"}) {
    EXPECT_TRUE(contains(outcome.output, line)) << outcome.output;
  }
}

}  // namespace
}  // namespace nccom::test
