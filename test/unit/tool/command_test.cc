#include <cstdlib>
#include <vector>

#include "tool_test_util.h"
#include "tools/nccom/topo_diff.h"
#include "tools/nccom/topo_text.h"

namespace nccom {
namespace {

TEST(Command, ShowIsWhatTopoDoesByItself) {
  const TempFile file(smallSystem());
  const Outcome plain = run({"topo", "--file", file.path().c_str(), "--mode", "p2"});
  const Outcome named = run({"topo", "show", "--file", file.path().c_str(), "--nodes", "2"});
  EXPECT_EQ(plain.status, 0);
  EXPECT_EQ(plain.out, named.out);
  for (const char* part : {"CPU 0", "GPU 3", "NET 0", "Paths", "Ring: ", "Tree: ", "8 ranks"})
    expectPart(plain.out, part);
}

TEST(Command, PrintsJson) {
  const TempFile file(smallSystem());
  const Outcome outcome =
      run({"topo", "--file", file.path().c_str(), "--json", "--gpus", "1-2", "--search", "nccl"});
  EXPECT_EQ(outcome.status, 0);
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["global"]["nRanks"], 2);
  EXPECT_EQ(json["gpuSelection"], "1,2");
}

TEST(Command, WritesADrawing) {
  const TempFile file(smallSystem());
  const TempFile picture("", ".svg");
  EXPECT_EQ(run({"topo", "--file", file.path().c_str(), "--svg", picture.path().c_str()}).status,
            0);
  const Outcome printed = run({"topo", "--file", file.path().c_str(), "--svg", "-"});
  EXPECT_EQ(printed.out, readText(picture.path()));
  expectPart(printed.out, "<svg");
}

TEST(Command, ExplainsTheSearches) {
  const Outcome outcome = run({"topo", "--explain"});
  EXPECT_EQ(outcome.status, 0);
  for (const char* part : {"Ring search", "Tree search", "Neuron search"})
    expectPart(outcome.out, part);
}

TEST(Command, SaysWhatFailedAndExitsWithOne) {
  const Outcome missing = run({"topo", "--file", "/nowhere/system.xml"});
  EXPECT_EQ(missing.status, kExitFailed);
  expectPart(missing.err, "/nowhere/system.xml");
  const Outcome unknown = run({"topo", "--platform", "trn9"});
  EXPECT_EQ(unknown.status, kExitFailed);
  expectPart(unknown.err, "trn9");
  const TempFile file("<system version=\"2\"/>");
  const Outcome version = run({"topo", "--file", file.path().c_str()});
  EXPECT_EQ(version.status, kExitFailed);
  expectPart(version.err, file.path());
}

TEST(Command, SaysWhatIsMisusedAndExitsWithTwo) {
  EXPECT_EQ(run({}).status, kExitUsage);
  EXPECT_EQ(run({"topology"}).status, kExitUsage);
  for (const auto& args :
       std::vector<std::vector<const char*>>{{"topo", "--no-such"},
                                             {"topo", "--mode", "x1"},
                                             {"topo", "--mode", "p2", "--nodes", "2"},
                                             {"topo", "--mode", "d0", "--gpus", "1"},
                                             {"topo", "--gpus", "1,1"},
                                             {"topo", "--nodes", "0"},
                                             {"topo", "--search", "worst"},
                                             {"topo", "--file", "a", "--platform", "b"},
                                             {"topo", "diff", "a"}}) {
    EXPECT_EQ(run(args).status, kExitUsage) << args[1];
  }
  EXPECT_EQ(run({"topo", "--help"}).status, 0);
}

TEST(Command, LintExitsWithOneForWhatIsRefused) {
  const TempFile good(smallSystem());
  EXPECT_EQ(run({"topo", "lint", good.path().c_str()}).status, 0);
  const TempFile bad("<system version=\"1\"><cpu numaid=\"x\"/></system>");
  const Outcome outcome = run({"topo", "lint", bad.path().c_str()});
  EXPECT_EQ(outcome.status, kExitFailed);
  expectPart(outcome.out, "error: " + bad.path() + ":1:");
}

TEST(Diff, EqualTopologiesHaveNoDifference) {
  ASSERT_OK(a, smallAnswer("p2"));
  ASSERT_OK(b, smallAnswer("p2"));
  EXPECT_TRUE(diffAnswers(a, b).empty());
  const TempFile file(smallSystem());
  const Outcome outcome = run({"topo", "diff", file.path().c_str(), file.path().c_str()});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, "");
}

TEST(Diff, NamesLinksPathsAndGraphs) {
  const TempFile one(smallSystem(1));
  const TempFile two(smallSystem(2));
  const Outcome outcome = run({"topo", "diff", one.path().c_str(), two.path().c_str()});
  EXPECT_EQ(outcome.status, kExitFailed);
  expectPart(outcome.out, "only the second has DEV 0x10000 to DEV 0x11000 by NVL of 40 GB/s");
  expectPart(outcome.out, "NVL 20 | NVL 40");
  expectPart(outcome.out, "bandwidth of a rank: 40 GB/s | 80 GB/s");
}

TEST(Diff, ComparesPlatforms) {
  const Outcome outcome = run({"topo", "diff", "trn1.32xlarge", "trn2.48xlarge"});
  EXPECT_EQ(outcome.status, kExitFailed);
  expectPart(outcome.out, "ranks: 32 | 64");
}

// What the user gives may hold anything; a terminal would obey it.
TEST(Command, ErrorsHaveNoControlCharacters) {
  const TempFile groups("{\"\\u001b[31m\": 1}", ".json");
  const std::vector<std::vector<const char*>> wrong{
      {"algs", "--groups", groups.path().c_str(), "--bytes", "8"},
      {"algs", "--bytes", "\x1b[31m"},
      {"algs", "--ranks", "\x1b[31m"},
      {"program", "--platform", "\x1b[31m"},
      {"program", "--rank", "\x7f"},
      {"topo", "--platform", "\x1b[31m"},
      {"\x1b[31m"}};
  for (const auto& args : wrong) {
    const Outcome outcome = run(args);
    EXPECT_NE(outcome.status, 0);
    EXPECT_FALSE(outcome.err.empty());
    for (const char c : outcome.err)
      EXPECT_TRUE(c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f)) << outcome.err;
  }
}

TEST(Command, HasTheVersionOfTheLibrary) {
  const Outcome outcome = run({"--version"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, "nccom of libnccom 2.30.7\n");
}

TEST(Command, ADrawingWantsAName) {
  EXPECT_EQ(run({"program", "--ranks", "4", "--bytes", "64K", "--svg", ""}).status, kExitUsage);
  EXPECT_EQ(run({"topo", "--svg", ""}).status, kExitUsage);
}

/// A variable of the environment, until the end of its scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

// As communicators: what is set is honoured, or refused; the command line goes before it.
TEST(Command, SchedulesAreForTheMachineThatTheEnvironmentNames) {
  const std::vector<const char*> args{"algs", "--bytes", "64K"};
  {
    const Variable cluster("NCCOM_CLUSTER", "4xtrn1.32xlarge");
    expectPart(run(args).out, "4xtrn1.32xlarge, LNC 1, 4 nodes");
    expectPart(run({"algs", "--bytes", "64K", "--platform", "trn2.3xlarge"}).out, "trn2.3xlarge");
  }
  const Variable lnc("NEURON_LOGICAL_NC_CONFIG", "1");
  expectPart(run(args).out, "trn2.48xlarge, LNC 1, 1 node, 128 ranks");
  const Variable platform("NCCOM_PLATFORM", "trn3.48xlarge");
  expectPart(run(args).out, "trn3.48xlarge, LNC 1");
  const Variable file("NCCL_TOPO_FILE", "/somewhere.xml");
  expectPart(run(args).err, "NCCL_TOPO_FILE is /somewhere.xml");
  EXPECT_EQ(run({"algs", "--bytes", "64K", "--platform", "host", "--ranks", "2"}).status, 0);
}

TEST(Command, AnAlgorithmThatDoesNotComposeAnOperationIsRefused) {
  for (const char* alg : {"direct", "staged"}) {
    const Outcome outcome = run({"algs", "--alg", alg, "--op", "send", "--bytes", "64"});
    EXPECT_EQ(outcome.status, kExitUsage);
    expectPart(outcome.err, "send: neither direct nor staged composes it");
  }
  const TempFile pairs(R"({"src_target_pairs": [[[0,1],[1,0],[2,1]]]})", ".json");
  const Outcome along = run({"program", "--op", "permute_implicit", "--bytes", "64", "--ranks", "3",
                             "--platform", "host", "--groups", pairs.path().c_str()});
  EXPECT_EQ(along.status, kExitUsage);
  EXPECT_FALSE(along.err.empty());
}

}  // namespace
}  // namespace nccom
