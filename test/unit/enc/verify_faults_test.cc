// A verifier that cannot fail is worthless: each test breaks a good program in one place, and reads
// what the verifier says of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <random>

#include "enc/layout.h"
#include "enc/verify.h"
#include "test/unit/enc/verify_fault.h"
#include "test/unit/enc/worlds.h"

namespace nccom {
namespace {

using test::Fault;
using test::find;
using test::Found;
using test::semaphore;
using test::step;
using test::verdict;
using test::World;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

constexpr encSizes kTiny{256, 256};
const World kHost{{3}, 1, kTiny};
const World kTwoHosts{{2, 1}, 1, kTiny};

encTask task(encOp op, uint64_t count = 100, ncclRedOp_t redOp = ncclSum) {
  return test::collective(op, count, ncclInt32, redOp, 1);
}

uint32_t number(const World& world, encPipeSemaphore which) {
  return encLayout::of(world.info(0)).pipe(encPipeKind::Ring, 0).semaphore(which);
}

TEST(VerifyFaults, DroppedIncrement) {
  const std::string text = verdict(kHost, task(encOp::AllReduce), [](encOperation& operation) {
    find(operation[2], semaphore(encDescType::Inc, number(kHost, encPipeSemaphore::Received)))
        .drop();
  });
  EXPECT_THAT(text, AllOf(HasSubstr("rank 0: semaphore 0 (received of ring channel 0)"),
                          HasSubstr("declares")));
}

TEST(VerifyFaults, DeadlockNamesWhoWaitsForWhat) {
  const std::string text = verdict(kHost, task(encOp::AllReduce, 40), [](encOperation& operation) {
    // Everybody waits for its first data before sending its own.
    for (encProgram& program : operation) {
      encBlock& block = program.queues[0].blocks.back();
      const Found wait =
          find(program, semaphore(encDescType::Wait, number(kHost, encPipeSemaphore::Received)));
      const encDesc first = wait.desc();
      block.descs.insert(block.descs.begin(), first);
    }
  });
  EXPECT_THAT(text, AllOf(HasSubstr("deadlock:"), HasSubstr("rank 0 queue 0"), HasSubstr("rank 2"),
                          HasSubstr("received of ring channel 0 is at 0")));
}

TEST(VerifyFaults, WrongOffset) {
  const std::string text = verdict(kHost, task(encOp::AllGather), [](encOperation& operation) {
    find(operation[1], step(encDescType::Transfer, encStep::RecvCopySend))
        .desc()
        .destinations[0]
        .offset += 4;
  });
  EXPECT_THAT(text, AllOf(HasSubstr("rank 2"), HasSubstr("OUTPUT")));
}

TEST(VerifyFaults, WrongSourceOffset) {
  const std::string text = verdict(kHost, task(encOp::AllReduce), [](encOperation& operation) {
    find(operation[1], step(encDescType::Transfer, encStep::RecvReduceSend))
        .desc()
        .sources[1]
        .offset += 4;
  });
  EXPECT_THAT(
      text, AllOf(HasSubstr("moved by"), HasSubstr("want ranks 0, 1, 2 of operation 0 from byte")));
}

TEST(VerifyFaults, DoubleReduction) {
  const std::string text = verdict(kHost, task(encOp::AllReduce), [](encOperation& operation) {
    encDesc& desc = find(operation[1], step(encDescType::Transfer, encStep::RecvReduceSend)).desc();
    desc.sources.push_back(desc.sources[1]);
  });
  EXPECT_THAT(text, HasSubstr("1, 1"));
}

TEST(VerifyFaults, MissingContribution) {
  const std::string text = verdict(kHost, task(encOp::Reduce), [](encOperation& operation) {
    find(operation[0], step(encDescType::Transfer, encStep::RecvReduceSend))
        .desc()
        .sources.pop_back();
  });
  EXPECT_THAT(text, HasSubstr("holding ranks 1, 2 of operation 0 from byte 0, by rank 1"));
}

TEST(VerifyFaults, MissingScale) {
  const std::string text =
      verdict(kHost, task(encOp::AllReduce, 100, kRedOpPreMulSum), [](encOperation& operation) {
        find(operation[1], step(encDescType::Transfer, encStep::Send)).desc().scaledSources = 0;
      });
  EXPECT_THAT(text, HasSubstr("scaled"));
}

TEST(VerifyFaults, DivisionOfAPartOfTheSum) {
  const std::string text =
      verdict(kHost, task(encOp::AllReduce, 100, ncclAvg), [](encOperation& operation) {
        find(operation[1], step(encDescType::Transfer, encStep::RecvReduceSend)).desc().divide =
            true;
      });
  EXPECT_THAT(text, HasSubstr("divided too early"));
}

TEST(VerifyFaults, UnorderedWriters) {
  const std::string text = verdict(kHost, task(encOp::AllGather), [](encOperation& operation) {
    // A second queue writes bytes of OUTPUT that the first one writes.
    encDesc copy = find(operation[0], step(encDescType::Transfer, encStep::Send)).desc();
    copy.destinations.resize(1);
    operation[0].queues.push_back({1, {{1, {copy}}}});
  });
  EXPECT_THAT(text, AnyOf(HasSubstr("without order with their writer"),
                          HasSubstr("without order with their reader")));
}

TEST(VerifyFaults, EarlyRead) {
  const std::string text = verdict(kHost, task(encOp::AllGather), [](encOperation& operation) {
    find(operation[1], semaphore(encDescType::Wait, number(kHost, encPipeSemaphore::Received)))
        .desc()
        .value -= 1;
  });
  EXPECT_THAT(text, AllOf(HasSubstr("rank 1 queue 0"),
                          AnyOf(HasSubstr("which nobody has written"),
                                HasSubstr("without order with their writer"))));
}

TEST(VerifyFaults, ReadOfWhatNobodyWrites) {
  const std::string text = verdict(kHost, task(encOp::Reduce, 8), [](encOperation& operation) {
    encDesc& desc = find(operation[0], step(encDescType::Transfer, encStep::RecvReduceSend)).desc();
    desc.sources[0].offset += 64;  // the next slot
    operation[0].scratchBytes += 64;
  });
  EXPECT_THAT(text, HasSubstr("reads bytes 64 to 96, which nobody has written"));
}

// Rank 0's reads of rank 1's INPUT are the reason why rank 1 waits in the end.
TEST(VerifyFaults, MissingFinalWait) {
  const std::string text = verdict(kHost, task(encOp::AlltoAll), [](encOperation& operation) {
    find(operation[1], step(encDescType::Wait, encStep::Sync)).drop();
  });
  EXPECT_THAT(text, AnyOf(HasSubstr("after that rank's program ended"),
                          HasSubstr("rank 1 ends, but bytes")));
}

TEST(VerifyFaults, MissingFinalWaitForTheNetwork) {
  const std::string text =
      verdict(kTwoHosts, task(encOp::AlltoAll, 8), [](encOperation& operation) {
        find(operation[2], step(encDescType::Wait, encStep::Sync)).drop();
      });
  EXPECT_THAT(text,
              HasSubstr("rank 2 ends without knowing that the network is done sending to rank 0"));
}

TEST(VerifyFaults, WaitForSomebodyElse) {
  const std::string text = verdict(kHost, task(encOp::AllReduce), [&](encOperation& operation) {
    find(operation[0], step(encDescType::Wait, encStep::RecvCopy)).desc().rank = 1;
  });
  EXPECT_THAT(text, HasSubstr("is raised by rank 2"));
}

TEST(VerifyFaults, TwoQueuesThatWaitForOneSemaphore) {
  const std::string text = verdict(kHost, task(encOp::AllReduce), [&](encOperation& operation) {
    const encDesc wait = find(operation[0], step(encDescType::Wait, encStep::RecvCopy)).desc();
    operation[0].queues.push_back({1, {{1, {wait}}}});
  });
  EXPECT_THAT(text, HasSubstr("rank 0 queue 1 block 0 descriptor 0 of operation 0 (AllReduce)"));
  EXPECT_THAT(text, HasSubstr("queue 0 waits for the same semaphore"));
}

TEST(VerifyFaults, WrongTotals) {
  for (const int difference : {-1, 1}) {
    const std::string text = verdict(kHost, task(encOp::AllReduce), [&](encOperation& operation) {
      operation[1].totals[1].second += static_cast<uint64_t>(difference);
    });
    EXPECT_THAT(text, AnyOf(HasSubstr("its program declares"), HasSubstr("which gets")))
        << difference;
  }
}

TEST(VerifyFaults, ReusedSlotWithoutCredit) {
  const std::string text = verdict(kHost, task(encOp::Reduce, 500), [](encOperation& operation) {
    encDesc& desc =
        find(operation[2], semaphore(encDescType::Wait, number(kHost, encPipeSemaphore::Credit)), 2)
            .desc();
    desc.value -= 1;
  });
  EXPECT_THAT(text, AllOf(HasSubstr("rank 2"), HasSubstr("SCRATCH"),
                          HasSubstr("without order with their reader")));
}

// The prologue matters to the second of two operations only.
TEST(VerifyFaults, SlotsOfTheLastOperationReusedTooEarly) {
  const Fault fault = [](encOperation& operation) {
    find(operation[2], step(encDescType::Wait, encStep::PostSend)).drop();
  };
  EXPECT_EQ(verdict(kHost, task(encOp::Reduce, 8), fault, 1), "accepted");
  EXPECT_THAT(
      verdict(kHost, task(encOp::Reduce, 8), fault, 2),
      AllOf(HasSubstr("of operation 1"), HasSubstr("without order with their reader: rank 0"),
            HasSubstr("of operation 0")));
}

TEST(VerifyFaults, NetworkSlotReusedBeforeItWasSent) {
  const std::string text =
      verdict(kTwoHosts, task(encOp::Broadcast, 500), [](encOperation& operation) {
        find(operation[1],
             semaphore(encDescType::Wait, number(kTwoHosts, encPipeSemaphore::NetSent)), 1)
            .desc()
            .value -= 1;
      });
  EXPECT_THAT(text, HasSubstr("without order with their reader"));
}

TEST(VerifyFaults, ReceivePostedIntoASlotInUse) {
  const std::string text =
      verdict(kTwoHosts, task(encOp::Broadcast, 500), [](encOperation& operation) {
        find(operation[2], step(encDescType::Wait, encStep::PostRecv), 1).desc().value -= 1;
      });
  EXPECT_THAT(text, HasSubstr("without order with their reader"));
}

TEST(VerifyFaults, NetworkEntriesThatDoNotPairUp) {
  EXPECT_THAT(
      verdict(kTwoHosts, task(encOp::AllGather, 8),
              [](encOperation& operation) {
                find(operation[1], step(encDescType::NetSend, encStep::Send)).desc().bytes -= 4;
              }),
      HasSubstr("meets a receive of another size"));
  EXPECT_THAT(verdict(kTwoHosts, task(encOp::AllGather, 8),
                      [](encOperation& operation) {
                        find(operation[1], step(encDescType::NetSend, encStep::Send)).drop();
                      }),
              HasSubstr("its program declares"));
}

TEST(VerifyFaults, ScalarOfAnotherRank) {
  const encTask scaled = task(encOp::AllReduce, 100, kRedOpPreMulSum);
  const std::string text = verdict(kHost, scaled, [](encOperation& operation) {
    encDesc& desc = find(operation[0], step(encDescType::Transfer, encStep::Send)).desc();
    desc.sources[0].rank = 1;
    operation[1].peerInputs = true;
  });
  EXPECT_THAT(
      text,
      HasSubstr("multiplies source 0, of rank 1 of operation 0, by a scalar that is another"));
}

TEST(VerifyFaults, AccessOutOfBounds) {
  EXPECT_THAT(verdict(kHost, task(encOp::AllReduce),
                      [](encOperation& operation) {
                        find(operation[0], step(encDescType::Transfer, encStep::RecvReduceCopySend))
                            .desc()
                            .destinations[0]
                            .offset += 400;
                      }),
              HasSubstr("of a buffer of 400 bytes of rank 0"));
  EXPECT_THAT(verdict(kHost, task(encOp::AllReduce),
                      [](encOperation& operation) { operation[0].scratchBytes -= 1; }),
              HasSubstr("rank 0 declares"));
}

TEST(VerifyFaults, AccessAcrossHosts) {
  const std::string text =
      verdict(kTwoHosts, task(encOp::AlltoAll, 8), [](encOperation& operation) {
        find(operation[0], step(encDescType::Transfer, encStep::Pull)).desc().sources[0].rank = 2;
      });
  EXPECT_THAT(text, HasSubstr("touches rank 2, not of its host"));
}

TEST(VerifyFaults, ScratchWithASecondWriter) {
  // Rank 0 fills its own receive slot, which rank 2 fills otherwise; well after the last use.
  const std::string text = verdict(kHost, task(encOp::Reduce, 8), [](encOperation& operation) {
    encDesc copy = find(operation[0], step(encDescType::Transfer, encStep::RecvReduceSend)).desc();
    copy.destinations = {copy.sources[0]};
    copy.sources = {copy.sources[1]};
    operation[0].queues[0].blocks.back().descs.push_back(copy);
  });
  EXPECT_THAT(text, HasSubstr("which has another writer"));
}

TEST(VerifyFaults, UndeclaredUseByPeers) {
  const std::string text = verdict(kHost, task(encOp::AlltoAll), [](encOperation& operation) {
    operation[1].peerInputs = false;
  });
  EXPECT_THAT(text, HasSubstr("rank 1 does not declare that peers use its INPUT"));
}

TEST(VerifyFaults, WrongStrideOfALongBlock) {
  for (const bool source : {false, true}) {
    const std::string text =
        verdict(kHost, task(encOp::Broadcast, 200'000), [&](encOperation& operation) {
          encDesc& desc = find(operation[1], step(encDescType::Transfer, encStep::Send), 1).desc();
          (source ? desc.sources : desc.destinations)[0].stride -= 4;
        });
    EXPECT_NE(text, "accepted");
  }
}

TEST(VerifyFaults, WrongRepeatOfALongBlock) {
  const std::string text =
      verdict(kHost, task(encOp::AllGather, 200'000), [](encOperation& operation) {
        for (encProgram& program : operation) {
          for (encBlock& block : program.queues[0].blocks)
            block.repeat -= block.repeat > 1 ? 1 : 0;
        }
      });
  EXPECT_NE(text, "accepted");
}

encOperation messages(uint64_t count, uint64_t bytes) {
  std::vector<encTask> tasks(2, test::collective(encOp::SendRecv, 0));
  for (uint16_t i = 0; i < count; i++) {
    tasks[0].sends.push_back({1, bytes, i});
    tasks[1].recvs.push_back({0, bytes, i});
  }
  return test::composeAll(World{{2}}, tasks);
}

std::string verdict(const encOperation& operation) {
  return verdict(World{{2}}.info(0), std::vector<encOperation>{operation});
}

TEST(VerifyFaults, MessageOfAnotherSize) {
  for (const uint64_t bytes : {0, 8, 800}) {
    encOperation operation = messages(3, bytes);
    find(operation[1], step(encDescType::Transfer, encStep::Pull), 1).desc().bytes = 4;
    if (bytes == 0) operation[1].task.recvs[1].bytes = 4;
    EXPECT_THAT(verdict(operation), HasSubstr("message 1 of rank 0 has " + std::to_string(bytes)));
  }
}

TEST(VerifyFaults, MessageThatIsNeverPosted) {
  encOperation operation = messages(3, 8);
  find(operation[0], step(encDescType::Post, encStep::PostSend), 1).drop();
  EXPECT_THAT(verdict(operation), AllOf(HasSubstr("deadlock"), HasSubstr("POSTED1")));
}

TEST(VerifyFaults, MessageThatIsNeverRead) {
  encOperation operation = messages(3, 0);
  find(operation[1], step(encDescType::Transfer, encStep::Pull), 2).drop();
  EXPECT_THAT(verdict(operation), HasSubstr("message 2 of rank 0 to rank 1 is never read"));
}

TEST(VerifyFaults, MessagesReadOutOfOrder) {
  encOperation operation = messages(2, 8);
  encDesc& first = find(operation[1], step(encDescType::Transfer, encStep::Pull), 0).desc();
  encDesc& second = find(operation[1], step(encDescType::Transfer, encStep::Pull), 1).desc();
  std::swap(first, second);
  EXPECT_THAT(verdict(operation), HasSubstr("the one before it is not known to be"));
}

TEST(VerifyFaults, MessageReadTwice) {
  encOperation operation = messages(2, 8);
  find(operation[1], step(encDescType::Transfer, encStep::Pull), 1).desc().sources[0].index = 0;
  EXPECT_THAT(verdict(operation), AnyOf(HasSubstr("read twice"), HasSubstr("program ended")));
}

TEST(VerifyFaults, TooManyMessagesOutstanding) {
  for (const uint64_t bytes : {8, 800}) {
    // Rank 0 reads nothing before it has posted everything, and rank 1 the same.
    std::vector<encTask> tasks(2, test::collective(encOp::SendRecv, 0));
    for (uint16_t i = 0; i < 70; i++) {
      for (const int rank : {0, 1}) {
        tasks[rank].sends.push_back({1 - rank, bytes, i});
        tasks[rank].recvs.push_back({1 - rank, bytes, i});
      }
    }
    encOperation operation = test::composeAll(World{{2}}, tasks);
    EXPECT_EQ(verdict(operation), "accepted");
    for (encProgram& program : operation) {
      encBlock &posts = program.queues[0].blocks[0], &pulls = program.queues[1].blocks[0];
      posts.descs.insert(posts.descs.end(), pulls.descs.begin(), pulls.descs.end());
      program.queues.pop_back();
    }
    EXPECT_THAT(verdict(operation), HasSubstr("deadlock"));
  }
}

TEST(VerifyFaults, LongMessageByValue) {
  encOperation operation = messages(3, 513);
  find(operation[0], step(encDescType::Post, encStep::PostSend), 1).desc().byValue = true;
  EXPECT_THAT(verdict(operation), HasSubstr("posts 513 bytes by value: at most 512"));
}

TEST(VerifyFaults, ShortMessageByReferenceThatNobodyAwaits) {
  encOperation operation = messages(3, 8);
  operation[0].peerInputs = true;
  find(operation[0], step(encDescType::Post, encStep::PostSend), 1).desc().byValue = false;
  EXPECT_THAT(verdict(operation), AnyOf(HasSubstr("after that rank's program ended"),
                                        HasSubstr("rank 0 ends, but bytes 0 to 8 of its INPUT")));
}

TEST(VerifyFaults, SenderThatDoesNotWaitForItsReaders) {
  encOperation operation = messages(3, 800);
  find(operation[0], step(encDescType::Wait, encStep::Sync)).desc().value -= 1;
  EXPECT_THAT(verdict(operation), AnyOf(HasSubstr("after that rank's program ended"),
                                        HasSubstr("rank 0 ends, but bytes 0 to 800 of its INPUT")));
}

// No descriptor of a small program can be left out but for some that others imply: of a ring's
// waits for room, those that data which came around the ring makes known; and of waits for data
// that stays, all but the last.
TEST(VerifyFaults, EveryDescriptorMatters) {
  for (const World& world : {kHost, kTwoHosts}) {
    for (const encOp op : test::kCollectives) {
      const encOperation good = test::composeAll(world, task(op));
      for (size_t rank = 0; rank < good.size(); rank++) {
        for (int n = 0;; n++) {
          encOperation operation = good;
          int all = 0;
          for (const encQueue& queue : good[rank].queues) {
            for (const encBlock& block : queue.blocks)
              all += static_cast<int>(block.descs.size());
          }
          if (n == all) break;
          const Found dropped = find(
              operation[rank], [](const encDesc&) { return true; }, n);
          const encDesc desc = dropped.desc();
          dropped.drop();
          const std::vector<encOperation> twice{operation, operation};
          if (!encVerify(world.info(0), twice).ok()) continue;
          const bool forRoom = desc.type == encDescType::Wait &&
                               (desc.semaphore == number(world, encPipeSemaphore::Credit) ||
                                desc.semaphore == number(world, encPipeSemaphore::NetCredit) ||
                                desc.semaphore == number(world, encPipeSemaphore::NetSent));
          // What comes into OUTPUT directly and goes nowhere is awaited again by the last wait.
          const bool forEnd = desc.type == encDescType::Wait && desc.step == encStep::RecvCopy;
          const bool aroundTheRing = desc.value > 4 || op == encOp::AllReduce;
          EXPECT_TRUE((forRoom && (desc.value == 0 || aroundTheRing)) || forEnd)
              << encOpName(op) << " " << world.text() << " rank " << rank << ": " << encDump(desc);
        }
      }
    }
  }
}

int64_t strange(std::mt19937_64& random) {
  const int64_t values[] = {-1, 0, 1, 2, 7, 63, 64, 65, 400, 4096, INT64_MAX, INT64_MIN, 1 << 30};
  return values[random() % std::size(values)];
}

/// One field of one descriptor gets a strange value.
void damage(encDesc& desc, std::mt19937_64& random) {
  encAddress* address = &desc.net;
  if (!desc.sources.empty() && random() % 2 == 0) address = &desc.sources.back();
  if (!desc.destinations.empty() && random() % 2 == 0) address = &desc.destinations[0];
  const int64_t value = strange(random);
  switch (random() % 14) {
    case 0:
      desc.type = static_cast<encDescType>(random() % 6);
      break;
    case 1:
      desc.bytes = static_cast<uint64_t>(value);
      break;
    case 2:
      desc.rank = static_cast<int>(value);
      break;
    case 3:
      desc.semaphore = static_cast<uint32_t>(value);
      break;
    case 4:
      desc.value = value;
      break;
    case 5:
      desc.stride = value;
      break;
    case 6:
      desc.index = static_cast<uint16_t>(value);
      break;
    case 7:
      desc.connection = static_cast<uint32_t>(value);
      break;
    case 8:
      address->rank = static_cast<int>(value);
      break;
    case 9:
      address->buffer = static_cast<encBuffer>(random() % 4);
      break;
    case 10:
      address->index = static_cast<uint16_t>(value);
      break;
    case 11:
      address->offset = value;
      break;
    case 12:
      address->stride = value;
      break;
    default:
      desc.sources.clear();
      break;
  }
}

// Whatever a program says, the verifier ends with a verdict.
TEST(VerifyFaults, DamagedProgramsGetAVerdict) {
  const std::vector<encOperation> good{test::composeAll(kTwoHosts, task(encOp::AllReduce, 300)),
                                       test::composeAll(kTwoHosts, task(encOp::AlltoAll, 300)),
                                       test::composeAll(kTwoHosts, task(encOp::Broadcast, 9000))};
  std::mt19937_64 random(7);
  int rejected = 0;
  for (int i = 0; i < 1500; i++) {
    std::vector<encOperation> operations = good;
    encProgram& program = operations[random() % 3][random() % 3];
    encQueue& queue = program.queues[random() % program.queues.size()];
    encBlock& block = queue.blocks[random() % queue.blocks.size()];
    damage(block.descs[random() % block.descs.size()], random);
    rejected += encVerify(kTwoHosts.info(0), operations).ok() ? 0 : 1;
  }
  EXPECT_GT(rejected, 400);  // many fields mean nothing to a descriptor of another type
}

}  // namespace
}  // namespace nccom
