// nccom: one program for all that can be asked about topologies, a sub-command each.
#include <array>

#include "tools/nccom/command.h"

int main(int argc, char** argv) {
  CLI::App program("Shows what a collectives library makes of a machine.", "nccom");
  program.require_subcommand(1);
  const std::array commands = {nccom::addTopo(program)};
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? 0 : nccom::kExitUsage;
  }
  for (const nccom::SubCommand& command : commands) {
    if (command.app->parsed()) return command.run();
  }
  return nccom::kExitUsage;
}
