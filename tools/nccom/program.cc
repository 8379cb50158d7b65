// nccom: one program for all that can be asked about topologies and collectives, a sub-command
// each.
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <new>
#include <sstream>
#include <string>

#include "include/nccl.h"
#include "tools/nccom/command.h"

namespace nccom {

namespace {

/// Runs a sub-command, and makes sure that what it printed has arrived.
int runCommand(const SubCommand& command) {
  int status = 1;
  try {
    status = command.run();
  } catch (const std::bad_alloc&) {
    fputs("nccom: out of memory\n", stderr);
    return 1;
  }
  if (fflush(stdout) == 0 && ferror(stdout) == 0) return status;
  fprintf(stderr, "nccom: cannot write to the standard output: %s\n", strerror(errno));
  return 1;
}

}  // namespace

CLI::Validator namesFile() {
  const auto check = [](std::string& name) {
    return name.empty() ? std::string("want the name of a file") : std::string();
  };
  return {check, "FILE"};
}

std::string printable(const std::string& message) {
  std::string shown;
  for (const char c : message) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '\n' || (code >= 0x20 && code != 0x7f)) {
      shown += c;
      continue;
    }
    char escaped[8];
    snprintf(escaped, sizeof escaped, "\\x%02x", code);
    shown += escaped;
  }
  return shown;
}

int runProgram(int argc, const char* const* argv) {
  CLI::App program("Shows what a collectives library makes of a machine.", "nccom");
  program.require_subcommand(1);
  program.set_version_flag("--version", "nccom of libnccom " + std::to_string(NCCL_MAJOR) + "." +
                                            std::to_string(NCCL_MINOR) + "." +
                                            std::to_string(NCCL_PATCH));
  const std::array commands = {addTopo(program), addAlgs(program), addProgram(program)};
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream said;
    const int status = program.exit(error, std::cout, said);
    fputs(printable(said.str()).c_str(), stderr);
    return status == 0 ? 0 : kExitUsage;
  }
  for (const SubCommand& command : commands) {
    if (command.app->parsed()) return runCommand(command);
  }
  return kExitUsage;
}

}  // namespace nccom
