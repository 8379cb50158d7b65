// The sub-commands of nccom: each one file with a function of this kind, and a row in program.cc.
#pragma once

#include <functional>
#include <string>

#include <CLI/CLI.hpp>

namespace nccom {

constexpr int kExitFailed = 1;  // the work could not be done; the reason is on stderr
constexpr int kExitUsage = 2;   // the command line makes no sense

/// A sub-command added to the program: what to run if it was named. The exit status is returned.
struct SubCommand {
  CLI::App* app = nullptr;
  std::function<int()> run;
};

/// For options that take the name of a file.
CLI::Validator namesFile();

SubCommand addTopo(CLI::App& program);
SubCommand addAlgs(CLI::App& program);
SubCommand addProgram(CLI::App& program);

/// A message as a terminal may show it: of what the user has given, control characters are escaped.
std::string printable(const std::string& message);

/// Runs the sub-command that the command line names; the exit status of the program.
int runProgram(int argc, const char* const* argv);

}  // namespace nccom
