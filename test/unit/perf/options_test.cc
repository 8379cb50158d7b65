#include "test/perf/options.h"

#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>

namespace nccom::perf {
namespace {

Result<Options> parse(const std::vector<const char*>& arguments) {
  return parseOptions(arguments);
}

// The options that the help names: letter to long name.
std::map<std::string, std::string> optionsOfHelp() {
  const std::string help = helpText("all_reduce_perf");
  const std::regex line("^  -(.), --([a-z_]+)(?: <[^>]+>)?(?:  .*)?$", std::regex::multiline);
  std::map<std::string, std::string> found;
  for (auto at = std::sregex_iterator(help.begin(), help.end(), line); at != std::sregex_iterator();
       ++at) {
    found[(*at)[1]] = (*at)[2];
  }
  return found;
}

// Whether the parser knows an option, whatever it thinks of the value.
bool isKnown(const std::string& option) {
  const Result<Options> parsed = parse({option.c_str(), "1"});
  return parsed.ok() || parsed.error().message.find("no such option") == std::string::npos;
}

TEST(Options, OfTheHelpAreThoseOfTheParser) {
  const auto help = optionsOfHelp();
  ASSERT_EQ(help.size(), optionTable().size());
  for (const auto& [letter, name] : help) {
    EXPECT_TRUE(isKnown("-" + letter)) << letter;
    EXPECT_TRUE(isKnown("--" + name)) << name;
  }
  for (char letter = '!'; letter <= '~'; letter++) {
    if (letter == '-') continue;
    EXPECT_EQ(isKnown(std::string("-") + letter), help.count(std::string(1, letter)) == 1)
        << letter;
  }
}

TEST(Options, HaveTheNamesOfNcclTests) {
  const std::map<std::string, std::string> wanted{
      {"t", "nthreads"},      {"g", "ngpus"},         {"b", "minbytes"},   {"e", "maxbytes"},
      {"i", "stepbytes"},     {"f", "stepfactor"},    {"n", "iters"},      {"m", "agg_iters"},
      {"w", "warmup_iters"},  {"p", "parallel_init"}, {"c", "check"},      {"o", "op"},
      {"d", "datatype"},      {"r", "root"},          {"z", "blocking"},   {"a", "average"},
      {"u", "unalign"},       {"h", "help"},          {"N", "run_cycles"}, {"T", "timeout"},
      {"C", "report_cputime"}};
  const auto help = optionsOfHelp();
  for (const auto& [letter, name] : wanted) {
    ASSERT_EQ(help.count(letter), 1U) << letter;
    EXPECT_EQ(help.at(letter), name);
  }
}

TEST(Options, HaveTheDefaultsOfNcclTests) {
  const Options options = parse({}).value();
  EXPECT_EQ(options.sizes.minBytes, 32U << 20);
  EXPECT_EQ(options.sizes.maxBytes, 32U << 20);
  EXPECT_EQ(options.sizes.stepBytes, 1U << 20);
  EXPECT_EQ(options.sizes.factor, 1U);
  EXPECT_EQ(options.iterations, 20);
  EXPECT_EQ(options.warmups, 1);
  EXPECT_EQ(options.checks, 1);
  EXPECT_STREQ(options.type->name, "float");
  EXPECT_EQ(options.op, Operator::Sum);
  EXPECT_EQ(options.root, 0);
  EXPECT_EQ(options.average, Average::Mean);
  EXPECT_EQ(options.blocking, Blocking::No);
}

TEST(Options, TakeAValueInFourForms) {
  for (const std::vector<const char*>& form :
       {std::vector<const char*>{"-n7"}, {"-n", "7"}, {"--iters=7"}, {"--iters", "7"}}) {
    const Result<Options> parsed = parse(form);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    EXPECT_EQ(parsed.value().iterations, 7);
  }
}

TEST(Options, SetWhatTheyName) {
  const Options options = parse({"-t4", "-g", "2",   "-b", "8",  "-e", "64M", "-f", "2", "-d",
                                 "all", "-o", "all", "-r", "-1", "-z", "3",   "-a", "0", "-u",
                                 "3",   "-c", "0",   "-p", "1",  "-m", "5",   "-w", "0"})
                              .value();
  EXPECT_EQ(options.threads, 4);
  EXPECT_EQ(options.devices, 2);
  EXPECT_EQ(options.sizes.minBytes, 8U);
  EXPECT_EQ(options.sizes.maxBytes, 64U << 20);
  EXPECT_EQ(options.sizes.factor, 2U);
  EXPECT_FALSE(options.type.has_value());
  EXPECT_FALSE(options.op.has_value());
  EXPECT_EQ(options.root, kAllRoots);
  EXPECT_EQ(options.blocking, Blocking::UntimedBarrier);
  EXPECT_EQ(options.average, Average::Rank0);
  EXPECT_EQ(options.unalign, 3);
  EXPECT_EQ(options.checks, 0);
  EXPECT_TRUE(options.parallelInit);
  EXPECT_EQ(options.aggregated, 5);
  EXPECT_EQ(options.warmups, 0);
  EXPECT_EQ(parse({"-r", "all"}).value().root, kAllRoots);
}

TEST(Options, AcceptEveryTypeAndOperator) {
  for (const TypeName& type : allTypes()) {
    EXPECT_EQ(parse({"-d", type.name}).value().type->type, type.type);
  }
  for (const OperatorName& op : allOperators()) {
    EXPECT_EQ(parse({"-o", op.name}).value().op, op.op);
  }
}

TEST(Options, AreErrorsThatNameOptionAndValue) {
  struct Bad {
    std::vector<const char*> arguments;
    std::vector<const char*> named;
  };
  for (const Bad& bad : {Bad{{"-g", "0"}, {"-g", "'0'"}},
                         {{"-t", "0"}, {"-t", "'0'"}},
                         {{"-n", "-1"}, {"-n", "'-1'"}},
                         {{"-w", "0", "-n", "0"}, {"-n", "'0'"}},
                         {{"-n", "5x"}, {"-n", "'5x'"}},
                         {{"-n", "99999999999"}, {"'99999999999'"}},
                         {{"-n", ""}, {"-n", "''"}},
                         {{"-c", "-1"}, {"-c", "'-1'"}},
                         {{"-d", "foo"}, {"-d", "'foo'", "bfloat16", "f8e5m2"}},
                         {{"-o", "foo"}, {"-o", "'foo'", "mulsum"}},
                         {{"-r", "-2"}, {"-r", "'-2'"}},
                         {{"-m", "0"}, {"-m", "'0'"}},
                         {{"-z", "4"}, {"-z", "'4'"}},
                         {{"-a", "4"}, {"-a", "'4'"}},
                         {{"-f", "0"}, {"-f", "'0'"}},
                         {{"-p", "2"}, {"-p", "'2'"}},
                         {{"-u", "-1"}, {"-u", "'-1'"}},
                         {{"-b", "1e3"}, {"-b", "'1e3'"}},
                         {{"--maxbytes=8EB"}, {"--maxbytes", "'8EB'"}},
                         {{"-b", "2", "-e", "1"}, {"-b 2", "-e 1"}},
                         {{"-b", "1", "-e", "2", "-i", "0"}, {"-i 0"}},
                         {{"-n"}, {"-n", "no value"}},
                         {{"--iters"}, {"--iters", "no value"}},
                         {{"--help=1"}, {"--help", "'1'"}},
                         {{"-G", "1"}, {"'-G'", "no such option"}},
                         {{"--memory_report", "1"}, {"'--memory_report'", "no such option"}},
                         {{"8"}, {"'8'"}},
                         {{"-"}, {"'-'"}},
                         {{"--"}, {"'--'"}}}) {
    const Result<Options> parsed = parseOptions(bad.arguments);
    ASSERT_FALSE(parsed.ok()) << bad.arguments[0];
    for (const char* named : bad.named) {
      EXPECT_NE(parsed.error().message.find(named), std::string::npos)
          << "no " << named << " in: " << parsed.error().message;
    }
  }
}

TEST(Options, ThatMeanSomethingAtZero) {
  EXPECT_EQ(parse({"-w", "0"}).value().warmups, 0);
  EXPECT_EQ(parse({"-c", "0"}).value().checks, 0);
  EXPECT_EQ(parse({"-b", "0", "-e", "0"}).value().sizes.maxBytes, 0U);
}

TEST(Options, HelpFitsTheScreen) {
  const std::string help = helpText("all_reduce_perf");
  size_t start = 0;
  for (size_t end = help.find('\n'); end != std::string::npos; end = help.find('\n', start)) {
    EXPECT_LE(end - start, 100U) << help.substr(start, end - start);
    start = end + 1;
  }
}

}  // namespace
}  // namespace nccom::perf
