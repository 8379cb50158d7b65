// The verifier on what single composers seldom show: the work area, semaphores that count passes,
// and links. Programs are written by hand, good ones first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "enc/builder.h"
#include "enc/comm_shape.h"
#include "enc/ring.h"
#include "test/unit/enc/verify_fault.h"

namespace nccom {
namespace {

using test::Fault;
using test::find;
using test::semaphore;
using test::step;
using test::verdict;
using test::World;
using testing::AnyOf;
using testing::HasSubstr;

World oneHost(int ranks) {
  encMachine machine;
  machine.hostDevices = ranks;
  World world;
  world.comm = encShapeComm(machine, encDealtCores(machine, 1, ranks).value()).value();
  world.comm->sizes = {4096, 4096, 4096};
  return world;
}

/// One rank's part.
class Script {
 public:
  Script(const enc_comm_info& info, const encTask& task)
      : info_(info), builder_(info_, task, "by hand"), bytes_(task.count) {}

  int rank() const { return info_.rank; }
  encAddress at(int rank, encBuffer buffer, int64_t offset = 0) const {
    const auto work = static_cast<int64_t>(builder_.layout().workBegin());
    return {rank, buffer, 0, offset + (buffer == encBuffer::Scratch ? work : 0), 0};
  }
  void copy(const encAddress& from, const encAddress& to, uint32_t queue = 0) {
    builder_.transfer(builder_.mainQueue(queue),
                      {.sources = {from}, .destinations = {to}, .bytes = bytes_});
    if (to.buffer == encBuffer::Output && to.rank == rank()) builder_.peersWriteOutputs();
  }
  /// The sum of these ranks' INPUTs goes to our OUTPUT.
  void sum(const std::vector<int>& ranks) {
    encMove move{.destinations = {at(rank(), encBuffer::Output)}, .bytes = bytes_};
    for (const int peer : ranks)
      move.sources.emplace_back(at(peer, encBuffer::Input));
    builder_.transfer(builder_.mainQueue(0), move);
    builder_.peersReadInputs();
  }
  void tell(int rank, uint32_t event, uint32_t queue = 0) {
    builder_.append(builder_.mainQueue(queue), encInc(encStep::Sync, rank, number(event)));
  }
  void hear(int rank, uint32_t event, uint64_t times = 1) {
    builder_.expect(number(event), times);
    builder_.wait(builder_.mainQueue(0), encStep::Sync, rank, number(event));
  }
  uint32_t number(uint32_t event) const {
    return builder_.layout().eventSemaphore(encLevel::Intra, event);
  }
  encProgram finish() && { return std::move(builder_).finish().value(); }

 private:
  enc_comm_info info_;
  encBuilder builder_;
  uint64_t bytes_;
};

encOperation written(const World& world, const encTask& task,
                     const std::function<void(Script&)>& part) {
  encOperation operation;
  for (int rank = 0; rank < world.rank_n(); rank++) {
    Script script(world.info(rank), task);
    part(script);
    operation.push_back(std::move(script).finish());
    operation.back().scratchBytes = encLayout::of(world.info(rank)).scratchBytes();
  }
  return operation;
}

constexpr uint32_t kReady = 0, kThere = 1;

/// Rank 1 says that it has launched; rank 0 puts its INPUT in rank 1's work area, and says so.
encOperation throughWorkArea(const World& world, uint32_t readyQueue = 0) {
  return written(world, test::collective(encOp::Broadcast, 64, ncclInt8), [&](Script& script) {
    if (script.rank() == 0) {
      script.hear(1, kReady);
      script.copy(script.at(0, encBuffer::Input), script.at(1, encBuffer::Scratch));
      script.tell(1, kThere);
      script.copy(script.at(0, encBuffer::Input), script.at(0, encBuffer::Output));
    } else {
      script.tell(0, kReady, readyQueue);
      script.hear(0, kThere);
      script.copy(script.at(1, encBuffer::Scratch), script.at(1, encBuffer::Output));
    }
  });
}

std::string faulty(const Fault& fault, size_t times = 2) {
  const World world = oneHost(2);
  return verdict(world, throughWorkArea(world), fault, times);
}

bool isWait(const encDesc& desc) {
  return desc.type == encDescType::Wait;
}
bool isTransfer(const encDesc& desc) {
  return desc.type == encDescType::Transfer;
}

TEST(VerifyWork, MayBeWrittenByWhoKnowsOfTheLaunch) {
  const World world = oneHost(2);
  // Whichever queue of the owner it is that says so.
  for (const uint32_t queue : {0, 1}) {
    const encOperation operation = throughWorkArea(world, queue);
    EXPECT_EQ(verdict(world.info(0), {operation, operation}), "accepted");
  }
}

TEST(VerifyWork, MayBeWrittenByWhoHasFoundTheOutput) {
  const World world = oneHost(2);
  const auto part = [&](bool first) {
    return [first](Script& script) {
      if (script.rank() == 0) {
        if (first) script.copy(script.at(0, encBuffer::Input), script.at(1, encBuffer::Output));
        script.copy(script.at(0, encBuffer::Input), script.at(1, encBuffer::Scratch));
        script.tell(1, kThere);
        script.copy(script.at(0, encBuffer::Input), script.at(0, encBuffer::Output));
      } else {
        script.hear(0, kThere);
        script.copy(script.at(1, encBuffer::Scratch), script.at(1, encBuffer::Output));
      }
    };
  };
  const encTask task = test::collective(encOp::Broadcast, 64, ncclInt8);
  const encOperation good = written(world, task, part(true));
  EXPECT_EQ(verdict(world.info(0), {good, good}), "accepted");
  const encOperation bad = written(world, task, part(false));
  EXPECT_THAT(verdict(world.info(0), {bad, bad}),
              HasSubstr("rank 1 without knowing that it has launched"));
}

TEST(VerifyWork, TouchedBeforeTheLaunchIsKnown) {
  EXPECT_THAT(faulty([](encOperation& operation) { find(operation[0], isWait).drop(); }),
              HasSubstr("touches the work area of rank 1 without knowing that it has launched"));
}

TEST(VerifyWork, TouchedAfterTheEnd) {
  const std::string text = faulty([](encOperation& operation) {
    find(operation[1], isWait).drop();
    find(operation[1], isTransfer).desc().sources[0] = {0, encBuffer::Input, 0, 0, 0};
    operation[0].peerInputs = true;
  });
  EXPECT_THAT(text, AnyOf(HasSubstr("work area of rank 1 after that rank's program ended"),
                          HasSubstr("rank 1 ends, but bytes"), HasSubstr("has launched")));
}

TEST(VerifyWork, ReadWithoutOrder) {
  EXPECT_THAT(
      faulty([](encOperation& operation) { find(operation[1], isWait).drop(); }),
      AnyOf(HasSubstr("without order with their writer"), HasSubstr("which nobody has written")));
}

// What an earlier operation left there is no longer there.
TEST(VerifyWork, ReadOfWhatIsLeftOver) {
  const World world = oneHost(2);
  const encOperation good = throughWorkArea(world);
  encOperation bad = good;
  find(bad[0], isTransfer).desc().destinations[0].offset += 64;
  EXPECT_THAT(verdict(world.info(0), {good, bad}), HasSubstr("which nobody has written"));
}

TEST(VerifyWork, AddressesThatLeaveTheArea) {
  const std::string text = faulty([](encOperation& operation) {
    find(operation[1], isTransfer).desc().sources[0].offset -= 32;
  });
  EXPECT_THAT(text, HasSubstr("lie within and without the work area"));
}

TEST(VerifyWork, WritersWithoutOrder) {
  const World world = oneHost(3);
  const encTask task = test::collective(encOp::AllReduce, 64, ncclInt8);
  const encOperation operation = written(world, task, [](Script& script) {
    if (script.rank() == 2) {
      for (const int peer : {0, 1})
        script.tell(peer, kReady);
      script.hear(-1, kThere, 2);
      for (const int peer : {0, 1})
        script.tell(peer, kReady);
      return;
    }
    script.hear(2, kReady);
    script.copy(script.at(script.rank(), encBuffer::Input), script.at(2, encBuffer::Scratch));
    script.tell(2, kThere);
    script.hear(2, kReady);
  });
  EXPECT_THAT(verdict(world.info(0), {operation}), HasSubstr("without order with their writer"));
}

/// Ranks 1 and 2 tell rank 0 in each of `passes`; it answers before the next one.
encOperation passes(const World& world, int count) {
  return written(world, test::collective(encOp::AllReduce, 0, ncclInt8), [&](Script& script) {
    for (int pass = 0; pass < count; pass++) {
      if (script.rank() > 0) {
        script.tell(0, kReady);
        script.hear(0, kThere);
        continue;
      }
      script.hear(1, kReady, 2);
      for (const int peer : {1, 2})
        script.tell(peer, kThere);
    }
  });
}

TEST(VerifyPasses, MayCountSeveralRaisers) {
  const World world = oneHost(3);
  const encOperation operation = passes(world, 3);
  EXPECT_EQ(verdict(world.info(0), {operation, operation}), "accepted");
}

TEST(VerifyPasses, MustBeKnownBeforeTheNext) {
  const World world = oneHost(3);
  for (const int pass : {0, 1}) {
    const std::string text = verdict(
        world, passes(world, 3),
        [&](encOperation& operation) { find(operation[2], isWait, pass).drop(); }, 2);
    EXPECT_THAT(text, HasSubstr("another pass may have raised it")) << pass;
  }
}

TEST(VerifyPasses, AreAwaitedInFull) {
  const World world = oneHost(3);
  const std::string text = verdict(world, passes(world, 2), [](encOperation& operation) {
    find(operation[0], isWait).desc().value -= 1;
  });
  EXPECT_THAT(text, HasSubstr("another pass may have raised it"));
}

TEST(VerifyPasses, MayNotRunIntoTheNextOperation) {
  const World world = oneHost(3);
  const Fault fault = [](encOperation& operation) { find(operation[1], isWait, 1).drop(); };
  EXPECT_EQ(verdict(world, passes(world, 2), fault, 1), "accepted");
  EXPECT_THAT(verdict(world, passes(world, 2), fault, 2),
              HasSubstr("another pass may have raised it"));
}

/// Each of three ranks adds up all INPUTs; rank 2 in an order of its own.
encOperation sums(const World& world, const std::vector<int>& orderOfTwo) {
  return written(world, test::collective(encOp::AllReduce, 64, ncclInt8), [&](Script& script) {
    script.sum(script.rank() == 2 ? orderOfTwo : std::vector<int>{0, 1, 2});
    for (int peer = 0; peer < 3; peer++) {
      if (peer != script.rank()) script.tell(peer, kReady);
    }
    script.hear(-1, kReady, 2);
  });
}

TEST(VerifyOrder, MustBeTheSameOnAllRanks) {
  const World world = oneHost(3);
  EXPECT_EQ(verdict(world.info(0), {sums(world, {0, 1, 2})}), "accepted");
  EXPECT_EQ(verdict(world.info(0), {sums(world, {1, 0, 2})}), "accepted");  // a + b is b + a
  for (const std::vector<int>& order : {std::vector<int>{0, 2, 1}, {2, 1, 0}}) {
    EXPECT_THAT(verdict(world.info(0), {sums(world, order)}),
                HasSubstr("bytes 0 to 64 of OUTPUT0 were added in another order for rank"));
  }
}

// Two hosts that only claim to share memory: the platform has no links between them.
TEST(VerifyLinks, MustLeadThere) {
  encMachine machine;
  machine.platform = findPlatform("trn2.48xlarge").value();
  machine.lnc = 2;
  World world;
  world.comm = encShapeComm(machine, {{0, 1}, {0, 1}}).value();
  world.comm->node.assign(4, 0);
  world.comm->situation.node_n = 1;
  const std::vector<encOperation> operations{
      test::composeAll(world, test::collective(encOp::AllGather, 16), encComposeRing)};
  EXPECT_THAT(verdict(world.info(0), operations),
              HasSubstr("trn2.48xlarge has no links from rank"));
  EXPECT_TRUE(encVerify(world.info(0), operations, {.links = false}).ok());
}

}  // namespace
}  // namespace nccom
