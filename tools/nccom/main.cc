#include "tools/nccom/command.h"

int main(int argc, char** argv) {
  return nccom::runProgram(argc, argv);
}
