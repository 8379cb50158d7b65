// nccom: one program for all that can be asked about topologies and collectives, a sub-command
// each.
#include <array>

#include "tools/nccom/command.h"

namespace nccom {

int runProgram(int argc, const char* const* argv) {
  CLI::App program("Shows what a collectives library makes of a machine.", "nccom");
  program.require_subcommand(1);
  const std::array commands = {addTopo(program)};
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? 0 : kExitUsage;
  }
  for (const SubCommand& command : commands) {
    if (command.app->parsed()) return command.run();
  }
  return kExitUsage;
}

}  // namespace nccom
