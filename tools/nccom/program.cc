// nccom: one program for all that can be asked about topologies and collectives, a sub-command
// each.
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

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

int runProgram(int argc, const char* const* argv) {
  CLI::App program("Shows what a collectives library makes of a machine.", "nccom");
  program.require_subcommand(1);
  const std::array commands = {addTopo(program), addAlgs(program), addProgram(program)};
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? 0 : kExitUsage;
  }
  for (const SubCommand& command : commands) {
    if (command.app->parsed()) return runCommand(command);
  }
  return kExitUsage;
}

}  // namespace nccom
