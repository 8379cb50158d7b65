#include "tools/nccom/schedule_run.h"

#include <algorithm>
#include <map>

#include "enc/builder.h"
#include "tool_test_util.h"
#include "tools/nccom/schedule_tasks.h"

namespace nccom {
namespace {

Result<std::vector<encProgram>> programsOf(const std::string& platform, int ranks,
                                           const std::string& op, const std::string& alg,
                                           const std::string& bytes) {
  ScheduleOptions options;
  options.world.platform = platform;
  options.world.ranks = ranks;
  options.op = op;
  options.alg = alg;
  TaskOptions task;
  task.bytes = bytes;
  const ScheduleCase asked = TRY(makeCase(options, true));
  const ScheduleTasks tasks = TRY(makeTasks(asked, task));
  return composeAll(asked, tasks);
}

encProgram programOf(int rank, std::vector<std::vector<encDesc>> queues) {
  encProgram program;
  program.rank = rank;
  program.nRanks = 2;
  for (std::vector<encDesc>& descs : queues) {
    encQueue queue;
    queue.blocks.push_back({1, std::move(descs)});
    program.queues.push_back(std::move(queue));
  }
  return program;
}

encDesc copyOf(int from, int to) {
  return encTransfer(encStep::Copy, {from, encBuffer::Input, 0, 0, 0},
                     {to, encBuffer::Output, 0, 0, 0}, 8);
}

TEST(ScheduleRun, ATransferTakesAStepAndAWaitUntilItIsRaised) {
  const std::vector<encProgram> programs = {
      programOf(0, {{copyOf(0, 1), copyOf(0, 1), encInc(encStep::Send, 1, 5)}}),
      programOf(1, {{encWait(encStep::RecvCopy, 0, 5, 1), copyOf(1, 1)}})};
  ASSERT_OK(run, runSchedule(programs, 100));
  EXPECT_EQ(run.steps, 3);
  ASSERT_EQ(run.spans.size(), 4);
  const RunSpan& wait = run.spans[2];
  EXPECT_EQ(wait.kind, RunSpanKind::Wait);
  EXPECT_EQ(wait.rank, 1);
  EXPECT_EQ(wait.begin, 0);
  EXPECT_EQ(wait.end, 2);
  EXPECT_EQ(run.spans[3].begin, 2);
}

TEST(ScheduleRun, QueuesOfARankRunSideBySide) {
  const std::vector<encProgram> programs = {
      programOf(0, {{copyOf(0, 1)}, {copyOf(0, 0)}, {copyOf(0, 1), copyOf(0, 1)}})};
  ASSERT_OK(run, runSchedule(programs, 100));
  EXPECT_EQ(run.steps, 2);
}

TEST(ScheduleRun, NamesWhoWaitsForEver) {
  const std::vector<encProgram> programs = {programOf(0, {{copyOf(0, 0)}}),
                                            programOf(1, {{encWait(encStep::Sync, 0, 7, 1)}})};
  const Result<ScheduleRun> run = runSchedule(programs, 100);
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.error().code, ncclInternalError);
  expectPart(run.error().message, "rank 1 queue 0 waits for ever: sync wait s7 >= 1");
}

TEST(ScheduleRun, EveryTransferIsRunOnceInTheOrderOfItsQueue) {
  for (const char* alg : {"ring", "kangaring"}) {
    for (const char* op : {"all_reduce", "all_gather", "reduce_scatter"}) {
      ASSERT_OK(programs, programsOf("trn2.48xlarge", 16, op, alg, "16M"));
      ASSERT_OK(run, runSchedule(programs, SIZE_MAX));
      EXPECT_FALSE(run.isCut);
      std::map<std::pair<int, size_t>, int64_t> ends;
      size_t transfers = 0;
      for (const RunSpan& span : run.spans) {
        if (span.kind == RunSpanKind::Net) continue;
        int64_t& end = ends[{span.rank, span.queue}];
        EXPECT_GE(span.begin, end);
        end = span.end;
        if (span.kind != RunSpanKind::Transfer) continue;
        EXPECT_EQ(span.end, span.begin + 1);
        transfers++;
      }
      size_t expected = 0;
      for (const encProgram& program : programs) {
        for (const encQueue& queue : program.queues) {
          for (const encBlock& block : queue.blocks) {
            expected +=
                block.repeat * static_cast<size_t>(std::count_if(
                                   block.descs.begin(), block.descs.end(), [](const encDesc& desc) {
                                     return desc.type == encDescType::Transfer;
                                   }));
          }
        }
      }
      EXPECT_EQ(transfers, expected) << alg << " " << op;
    }
  }
}

TEST(ScheduleRun, ARingOfOnePassTakesAStepAHop) {
  for (const int ranks : {2, 4, 8, 16}) {
    ASSERT_OK(programs, programsOf("trn2.48xlarge", ranks, "broadcast", "ring", "4"));
    ASSERT_OK(run, runSchedule(programs, SIZE_MAX));
    EXPECT_GE(run.steps, ranks - 1);
    EXPECT_LE(run.steps, ranks);
  }
}

TEST(ScheduleRun, NetworkEntriesGoFromTheSenderToTheReceiver) {
  ASSERT_OK(programs, programsOf("2xtrn1.32xlarge", 4, "all_reduce", "ring", "64K"));
  ASSERT_OK(run, runSchedule(programs, SIZE_MAX));
  size_t entries = 0, sends = 0;
  for (const RunSpan& span : run.spans) {
    if (span.kind != RunSpanKind::Net) continue;
    entries++;
    EXPECT_NE(span.rank / 2, span.peer / 2);
    EXPECT_EQ(span.desc->type, encDescType::NetSend);
    EXPECT_EQ(programs[span.rank].connections[span.desc->connection].peer, span.peer);
  }
  for (const encProgram& program : programs) {
    for (const encQueue& queue : program.queues) {
      for (const encBlock& block : queue.blocks) {
        for (const encDesc& desc : block.descs)
          sends += desc.type == encDescType::NetSend ? block.repeat : 0;
      }
    }
  }
  EXPECT_GT(entries, 0U);
  EXPECT_EQ(entries, sends);
}

TEST(ScheduleRun, ACutRunHasWholeStepsOfTheSameRun) {
  ASSERT_OK(programs, programsOf("trn2.48xlarge", 16, "all_reduce", "ring", "1M"));
  ASSERT_OK(whole, runSchedule(programs, SIZE_MAX));
  ASSERT_OK(cut, runSchedule(programs, 100));
  EXPECT_TRUE(cut.isCut);
  EXPECT_LE(cut.spans.size(), 100U);
  EXPECT_LT(cut.steps, whole.steps);
  const auto transfersBefore = [](const ScheduleRun& run, int64_t time) {
    return std::count_if(run.spans.begin(), run.spans.end(), [&](const RunSpan& span) {
      return span.kind == RunSpanKind::Transfer && span.end <= time;
    });
  };
  EXPECT_EQ(transfersBefore(cut, cut.steps), transfersBefore(whole, cut.steps));
}

}  // namespace
}  // namespace nccom
