#include "test/unit/enc/verify_fault.h"

#include <gtest/gtest.h>

namespace nccom::test {

Match step(encDescType type, encStep wanted) {
  return [=](const encDesc& desc) { return desc.type == type && desc.step == wanted; };
}
Match semaphore(encDescType type, uint32_t number) {
  return [=](const encDesc& desc) { return desc.type == type && desc.semaphore == number; };
}

void Found::drop() const {
  auto& queues = program->queues;
  auto& blocks = queues[queue].blocks;
  auto& descs = blocks[block].descs;
  descs.erase(descs.begin() + static_cast<long>(index));
  if (descs.empty()) blocks.erase(blocks.begin() + static_cast<long>(block));
  if (blocks.empty()) queues.erase(queues.begin() + static_cast<long>(queue));
}

Found find(encProgram& program, const Match& match, int n) {
  for (size_t queue = 0; queue < program.queues.size(); queue++) {
    const auto& blocks = program.queues[queue].blocks;
    for (size_t block = 0; block < blocks.size(); block++) {
      for (size_t i = 0; i < blocks[block].descs.size(); i++) {
        if (match(blocks[block].descs[i]) && n-- == 0) return {&program, queue, block, i};
      }
    }
  }
  ADD_FAILURE() << "no such descriptor in\n" << encDump(program);
  program.queues.assign(1, {0, {{1, {encDesc{}}}}});
  return {&program, 0, 0, 0};
}

std::string verdict(const enc_comm_info& info, const std::vector<encOperation>& operations) {
  const Status status = encVerify(info, operations);
  return status.ok() ? "accepted" : status.error().message;
}

std::string verdict(const World& world, const encOperation& good, const Fault& fault,
                    size_t times) {
  const enc_comm_info info = world.info(0);
  EXPECT_EQ(verdict(info, std::vector<encOperation>(times, good)), "accepted");
  encOperation operation = good;
  fault(operation);
  return verdict(info, std::vector<encOperation>(times, operation));
}

std::string verdict(const World& world, const encTask& task, const Fault& fault, size_t times) {
  return verdict(world, composeAll(world, task), fault, times);
}

}  // namespace nccom::test
