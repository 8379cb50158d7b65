// The verifier against random faults: whatever it accepts must do the same as what it was made
// from. Each mutant is verified, twice in a row and in place; one that passes is executed in many
// orders, and must give the right values in all of them. The test prints how many of each kind were
// caught, and how many do the same. With NCCOM_TEST_FULL=1 it tries many more.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>

#include "enc/buffers.h"
#include "enc/select.h"
#include "enc/verify.h"
#include "test/unit/enc/interpret.h"
#include "test/unit/enc/mutate.h"
#include "test/unit/enc/reference.h"
#include "test/unit/enc/ring_family.h"

namespace nccom {
namespace {

using test::Mutation;
using test::World;

bool full() {
  return getenv("NCCOM_TEST_FULL") != nullptr;
}

/// Programs of all ranks, and where they run.
struct Subject {
  std::string name;
  World world;
  encOperation operation;
};

World machine(const std::string& platform, int lnc, std::vector<std::vector<int>> cores) {
  return test::shaped(platform, lnc, cores, {256, 256, 4096});
}

std::vector<World> worlds() {
  return {
      machine("host", 1, {{0, 1, 2}}),
      machine("host", 1, {{0}, {0}, {0}}),
      machine("host", 1, {{0, 1}, {0, 1}}),
      machine("host", 1, {{0}, {0}, {0}, {0}, {0}, {0}, {0}, {0}}),
      machine("trn1.32xlarge", 1, {{0, 1, 2, 3}}),
      machine("trn2.48xlarge", 2, {{0, 1, 2, 3, 4, 5, 6, 7}}),
  };
}

/// This one algorithm's programs, if it composes the task there.
std::optional<Subject> subject(World world, std::optional<enc_alg_type> forced,
                               const encTask& task) {
  world.comm->options.forced = forced;
  world.comm->options.meshBufferBytes = 4096;
  world.comm->options.interRdhBufferBytes = 4096;
  Subject made{"", world, {}};
  for (int rank = 0; rank < world.rank_n(); rank++) {
    auto program = encCompose(world.info(rank), task);
    if (!program.ok()) return std::nullopt;
    made.operation.push_back(std::move(program).value());
  }
  made.name = made.operation[0].algorithm + " " + test::label(world, task);
  return made;
}

/// Everything that composes, each program set once.
std::vector<Subject> subjects() {
  std::vector<Subject> all;
  std::vector<encOp> ops = test::kCollectives;
  ops.push_back(encOp::Permute);
  ops.push_back(encOp::PermuteReduce);
  unsigned turn = 0;
  for (const World& world : worlds()) {
    for (const encOp op : ops) {
      std::vector<encOperation> known;
      for (int alg = -1; alg < static_cast<int>(enc_alg_type::Invalid); alg++) {
        const ncclRedOp_t redOps[] = {ncclSum, ncclAvg, ncclMax};
        const encTask task =
            test::collective(op, turn % 2 == 0 ? 75 : 333, ncclInt32, redOps[turn % 3], 1);
        auto made = subject(
            world, alg < 0 ? std::nullopt : std::optional(static_cast<enc_alg_type>(alg)), task);
        if (!made || std::find(known.begin(), known.end(), made->operation) != known.end()) {
          continue;
        }
        turn++;
        known.push_back(made->operation);
        all.push_back(std::move(*made));
      }
    }
  }
  return all;
}

Subject messages(const World& world) {
  std::vector<encTask> tasks(world.rank_n(), test::collective(encOp::SendRecv, 0, ncclInt8));
  for (int from = 0; from < world.rank_n(); from++) {
    for (const int to : {from, (from + 1) % world.rank_n(), (from + 2) % world.rank_n()}) {
      // The long one first: who awaits its reading would else know of the short one's too.
      for (const uint64_t bytes : {600, 40}) {
        encTask &sender = tasks[from], &receiver = tasks[to];
        sender.sends.push_back({to, bytes, static_cast<uint16_t>(sender.sends.size())});
        receiver.recvs.push_back({from, bytes, static_cast<uint16_t>(receiver.recvs.size())});
      }
    }
  }
  return {"messages " + world.text(), world, test::composeAll(world, tasks)};
}

std::string verdict(const Subject& subject, const encOperation& operation) {
  const enc_comm_info info = subject.world.info(0);
  const std::vector<encOperation> twice{operation, operation};
  for (const bool inPlace : {false, true}) {
    const Status status = encVerify(info, twice, {.inPlace = inPlace});
    if (!status.ok()) return status.error().message;
  }
  return "";
}

/// Executes the operation, two times and once more in place, in orders that seeds decide.
std::string wrongIn(const Subject& subject, const encOperation& operation, uint64_t seeds) {
  for (uint64_t seed = 0; seed < seeds; seed++) {
    std::vector<test::Launch> launches;
    for (const bool inPlace : {seed % 2 == 1, false})
      launches.push_back(test::makeLaunch(subject.world, operation, inPlace));
    const std::vector<test::Launch> before = launches;
    const test::RunResult result = test::interpret(subject.world, launches, seed);
    if (!result.error.empty()) return result.error;
    for (size_t i = 0; i < launches.size(); i++) {
      const std::string wrong = test::compare(subject.world, before[i], launches[i]);
      if (!wrong.empty()) return wrong;
    }
  }
  return "";
}

struct Count {
  int caught = 0, equivalent = 0;
};

/// One mutant of the subject.
void tryOne(const Subject& subject, const Mutation& mutation, std::mt19937_64& random,
            Count& count) {
  encOperation mutant = subject.operation;
  const auto said = mutation.apply(mutant, random);
  if (!said || mutant == subject.operation) return;
  if (!verdict(subject, mutant).empty()) {
    count.caught++;
    return;
  }
  count.equivalent++;
  EXPECT_EQ(wrongIn(subject, mutant, full() ? 40 : 3), "")
      << mutation.name << " escaped in " << subject.name << "\n"
      << *said;
}

TEST(Mutations, AreCaughtOrDoTheSame) {
  std::vector<Subject> all = subjects();
  for (const World& world : {machine("host", 1, {{0, 1, 2}}), machine("host", 1, {{0, 1}, {0}})})
    all.push_back(messages(world));
  std::map<std::string, Count> counts;
  int number = 0;
  for (const Subject& subject : all) {
    ASSERT_EQ(verdict(subject, subject.operation), "") << subject.name;
    std::mt19937_64 random(static_cast<unsigned>(number));
    for (size_t kind = 0; kind < test::mutations().size(); kind++) {
      const Mutation& mutation = test::mutations()[kind];
      if (!full() && (kind + static_cast<size_t>(number)) % 3 != 0) continue;
      for (int i = 0; i < (full() ? 20 : 1); i++)
        tryOne(subject, mutation, random, counts[mutation.name]);
    }
    number++;
  }
  EXPECT_GE(test::mutations().size(), 20u);
  printf("%zu program sets\n%-32s %8s %12s\n", all.size(), "mutation", "caught", "the same");
  for (const Mutation& mutation : test::mutations()) {
    const Count& count = counts[mutation.name];
    printf("%-32s %8d %12d\n", mutation.name, count.caught, count.equivalent);
    EXPECT_GT(count.caught + count.equivalent, 0) << mutation.name << " was never tried";
    EXPECT_LE(count.equivalent * 100, mutation.mayBeEquivalent * (count.caught + count.equivalent))
        << mutation.name;
  }
}

}  // namespace
}  // namespace nccom
