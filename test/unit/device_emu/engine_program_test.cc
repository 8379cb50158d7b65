// What the device refuses to load, and how it counts its cores.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "engine_world.h"
#include "plugins/device_emu/cores.h"

namespace nccom::emu {
namespace {

using testing::HasSubstr;

class EngineProgram : public testing::Test {
 protected:
  EngineProgram() : world_(options()) {}
  static WorldOptions options() {
    WorldOptions options;
    options.nRanks = 2;
    options.scratchBytes = 100;
    options.nConnections = 1;
    return options;
  }
  /// "" if it can be loaded.
  std::string refusal(ProgramBuilder program,
                      const std::function<void(nccomProgram_v1&)>& change = {}) {
    auto* const block = const_cast<nccomProgram_v1*>(program.build());
    if (change) change(*block);
    void* loaded = nullptr;
    const ncclResult_t code = emu().programLoad(world_.comm(0), block, nullptr, &loaded);
    if (code == ncclSuccess) return "";
    EXPECT_EQ(code, ncclInvalidArgument);
    return emu().lastError();
  }
  World world_;
};

TEST_F(EngineProgram, ItsHeadIsChecked) {
  const ProgramBuilder good = ProgramBuilder(0, 2).inc(1, 0);
  EXPECT_EQ(refusal(good), "");
  EXPECT_THAT(refusal(good, [](auto& head) { head.magic++; }), HasSubstr("magic"));
  EXPECT_THAT(refusal(good, [](auto& head) { head.version = NCCOM_PROGRAM_VERSION + 1; }),
              HasSubstr("version " + std::to_string(NCCOM_PROGRAM_VERSION + 1)));
  EXPECT_THAT(refusal(good, [](auto& head) { head.rank = 1; }), HasSubstr("for rank 1 of 2"));
  EXPECT_THAT(refusal(good, [](auto& head) { head.nRanks = 3; }), HasSubstr("for rank 0 of 3"));
  EXPECT_THAT(refusal(good, [](auto& head) { head.nQueues = 65; }), HasSubstr("65 queues"));
  EXPECT_THAT(refusal(good, [](auto& head) { head.dataType = 12; }), HasSubstr("data type 12"));
  EXPECT_THAT(refusal(good, [](auto& head) { head.redOp = ncclAvg; }), HasSubstr("operator 4"));
  EXPECT_THAT(refusal(good, [](auto& head) { head.nDescs = 1000; }), HasSubstr("table of desc"));
  EXPECT_THAT(refusal(good, [](auto& head) { head.descs += 4; }), HasSubstr("8-byte aligned"));
  EXPECT_THAT(refusal(good, [](auto& head) { head.steps = ~0U - 7; }), HasSubstr("step names"));
}

TEST_F(EngineProgram, EveryIndexIsChecked) {
  const auto program = [] { return ProgramBuilder(0, 2); };
  EXPECT_THAT(refusal(program().inc(2, 0)), HasSubstr("rank 2 of 2"));
  EXPECT_THAT(refusal(program().inc(-1, 0)), HasSubstr("rank -1 of 2"));
  EXPECT_THAT(refusal(program().inc(1, 8)), HasSubstr("semaphore 8 of 8 of rank 1"));
  EXPECT_THAT(refusal(program().inc(1, 0, -1)), HasSubstr("increment by -1"));
  EXPECT_THAT(refusal(program().wait(1, 8, 0)), HasSubstr("semaphore 8 of 8 of rank 0"));
  EXPECT_THAT(refusal(program().wait(1, 3, 1).queue().wait(1, 3, 2)),
              HasSubstr("queues 0 and 1 wait for semaphore 3"));
  EXPECT_EQ(refusal(program().wait(1, 3, 1).wait(1, 3, 2)), "");
  EXPECT_THAT(refusal(program().inc(1, 0).total(8, 1)), HasSubstr("semaphore 8"));
  EXPECT_THAT(refusal(program().net(true, 1)), HasSubstr("connection 1 of 1"));
  EXPECT_THAT(refusal(program().inc(1, 0), [](auto& head) { head.nSteps = 0; }),
              HasSubstr("step 0 of 0"));
  EXPECT_THAT(refusal(program().post(1, 1, 0, 4)), HasSubstr("but not number 0"));
  EXPECT_THAT(refusal(program().block(2).post(1, 0, 0, 4)), HasSubstr("posted 2 times"));
  EXPECT_THAT(refusal(program().transfer({posted(1, 1)}, {output(0)}, 4)),
              HasSubstr("message 1 of rank 1 but not 0"));
  EXPECT_THAT(refusal(program().post(2, 0, 0, 4)), HasSubstr("rank 2 of 2"));
  EXPECT_THAT(refusal(program().post(1, 0, 0, 513, true)),
              HasSubstr("a message of 513 bytes by value: at most 512"));
  EXPECT_EQ(refusal(program().post(1, 0, 0, 512, true)), "");
  EXPECT_THAT(refusal(program()
                          .transfer({posted(1, 1)}, {output(0)}, 4)
                          .transfer({posted(1, 0)}, {output(0)}, 4)),
              HasSubstr("message 0 of rank 1 in queue 0 after message 1"));
  EXPECT_THAT(refusal(program()
                          .transfer({posted(1, 0)}, {output(0)}, 4)
                          .queue()
                          .transfer({posted(1, 1)}, {output(0)}, 4)),
              HasSubstr("want them in order, in one queue"));
}

TEST_F(EngineProgram, EveryAddressIsChecked) {
  const auto copy = [](nccomAddress_v1 from, nccomAddress_v1 to, uint64_t bytes,
                       uint64_t repeat = 1) {
    return ProgramBuilder(0, 2).block(repeat).transfer({from}, {to}, bytes);
  };
  EXPECT_EQ(refusal(copy(scratch(1), scratch(0), 100)), "");
  EXPECT_THAT(refusal(copy(scratch(1, 1), scratch(0), 100)),
              HasSubstr("byte 101 of rank 1's scratch, which has 100"));
  EXPECT_EQ(refusal(copy(input(0), scratch(0, 0, 10), 10, 10)), "");
  EXPECT_THAT(refusal(copy(input(0), scratch(0, 0, 10), 10, 11)), HasSubstr("byte 110"));
  EXPECT_THAT(refusal(copy(input(0, 10, -1), scratch(0), 1, 12)), HasSubstr("not in any buffer"));
  EXPECT_THAT(refusal(copy(input(0, 0, INT64_MAX), scratch(0), 1, 3)),
              HasSubstr("not in any buffer"));
  EXPECT_THAT(refusal(copy(input(1, 0, 0, 1), scratch(0), 1)), HasSubstr("only the first"));
  EXPECT_THAT(refusal(copy(input(0), posted(1, 0), 1)), HasSubstr("as destination"));
  EXPECT_THAT(refusal(ProgramBuilder(0, 2).transfer({}, {output(0)}, 1)), HasSubstr("0 sources"));
  EXPECT_THAT(refusal(ProgramBuilder(0, 2).transfer({input(0), input(1)}, {output(0)}, 6)),
              HasSubstr("multiple of the element's 4"));
  EXPECT_THAT(
      refusal(ProgramBuilder(0, 2, ncclFloat32).transfer({input(0)}, {output(0)}, 4).divided()),
      HasSubstr("only integers are divided"));
}

TEST_F(EngineProgram, ALaunchWithoutACollectiveNumberCannotUsePeersBuffers) {
  void* loaded = world_.load(0, ProgramBuilder(0, 2).transfer({input(1)}, {scratch(0)}, 4));
  EXPECT_EQ(launch(world_.comm(0), loaded, {{}, {}, 1, 0}, world_.stream(0)), ncclInvalidArgument);
  EXPECT_THAT(emu().lastError(), HasSubstr("needs a collective number"));
}

TEST_F(EngineProgram, AnInputThatIsGivenByValueIsShortAndOfACollective) {
  ProgramBuilder program = ProgramBuilder(0, 2).transfer({input(0)}, {output(0)}, 4);
  void* loaded = world_.load(0, program.givesValue());
  std::vector<std::byte> in(NCCOM_VALUE_BYTES + 1), out(4);
  EXPECT_EQ(launch(world_.comm(0), loaded, {{bind(in)}, {bind(out)}, 1, 1}, world_.stream(0)),
            ncclInvalidArgument);
  EXPECT_THAT(emu().lastError(),
              HasSubstr("at most 512 bytes; it has number 1 and 1 inputs of 513"));
  in.resize(4);
  EXPECT_EQ(launch(world_.comm(0), loaded, {{bind(in)}, {bind(out)}, 1, 0}, world_.stream(0)),
            ncclInvalidArgument);
  EXPECT_THAT(emu().lastError(), HasSubstr("has number 0"));
}

TEST(EngineCores, AQuotaIsRoundedUp) {
  EXPECT_EQ(quotaOf("max 100000"), 0U);
  EXPECT_EQ(quotaOf("100000 100000"), 1U);
  EXPECT_EQ(quotaOf("150000 100000"), 2U);
  EXPECT_EQ(quotaOf("1000 100000"), 1U);
  EXPECT_EQ(quotaOf("-1 100000"), 0U);
  EXPECT_EQ(quotaOf(""), 0U);
  EXPECT_GE(availableCores(), 1U);
}

TEST(EngineConfig, IsChecked) {
  nccomDeviceConfig_v1 config = deviceConfig({});
  void* context = nullptr;
  config.size = 8;
  EXPECT_EQ(emu().init(&config, &context), ncclInvalidArgument);
  config = deviceConfig({});
  config.nDevices = 0;
  EXPECT_EQ(emu().init(&config, &context), ncclInvalidArgument);
  EXPECT_THAT(emu().lastError(), HasSubstr("0 devices (want at least 1)"));
  config = deviceConfig({});
  config.cma = 2;
  EXPECT_EQ(emu().init(&config, &context), ncclInvalidArgument);
  EXPECT_THAT(emu().lastError(), HasSubstr("cma 2 (want -1, 0 or 1)"));
}

}  // namespace
}  // namespace nccom::emu
