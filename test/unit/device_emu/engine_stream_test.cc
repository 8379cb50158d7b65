// Streams are FIFO, events are places in them.
#include <gtest/gtest.h>

#include <thread>

#include "engine_world.h"

namespace nccom::emu {
namespace {

using std::vector;

/// An operation that ends when somebody raises semaphore 0 of the only rank.
ProgramBuilder gate() {
  return ProgramBuilder(0, 1).wait(-1, 0, 1).total(0, 1);
}

void open(World& world) {
  EXPECT_EQ(emu().semaphoreAdd(world.comm(0), 0, 1), ncclSuccess);
}

struct EventOf {
  explicit EventOf(void* inContext) : context(inContext) {
    EXPECT_EQ(emu().eventCreate(context, &event), ncclSuccess);
  }
  EventOf(const EventOf&) = delete;
  EventOf& operator=(const EventOf&) = delete;
  ~EventOf() { EXPECT_EQ(emu().eventDestroy(context, event), ncclSuccess); }
  void* context;
  void* event = nullptr;
};

TEST(EngineStream, AnEventIsReachedWhenWhatWasBeforeItHasEnded) {
  World world({});
  void* context = world.context(0);
  const EventOf before(context), after(context);
  void* program = world.load(0, gate());
  ASSERT_EQ(emu().eventRecord(context, before.event, world.stream(0)), ncclSuccess);
  EXPECT_EQ(emu().eventQuery(context, before.event), ncclSuccess);
  ASSERT_EQ(launch(world.comm(0), program, {{}, {}, 1, 0}, world.stream(0)), ncclSuccess);
  ASSERT_EQ(emu().eventRecord(context, after.event, world.stream(0)), ncclSuccess);
  EXPECT_EQ(emu().eventQuery(context, after.event), ncclInProgress);
  float ms = -1;
  EXPECT_EQ(emu().eventElapsedTime(context, &ms, before.event, after.event), ncclInProgress);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    open(world);
  });
  EXPECT_EQ(emu().eventSynchronize(context, after.event), ncclSuccess);
  opener.join();
  EXPECT_EQ(emu().eventElapsedTime(context, &ms, before.event, after.event), ncclSuccess);
  EXPECT_GE(ms, 4.0F);
  EXPECT_LT(ms, 20'000.0F);
}

TEST(EngineStream, AnEventThatWasNeverRecordedIsReachedButHasNoTime) {
  World world({});
  void* context = world.context(0);
  const EventOf a(context), b(context);
  EXPECT_EQ(emu().eventQuery(context, a.event), ncclSuccess);
  EXPECT_EQ(emu().eventSynchronize(context, a.event), ncclSuccess);
  float ms = 0;
  EXPECT_EQ(emu().eventElapsedTime(context, &ms, a.event, b.event), ncclInvalidUsage);
  EXPECT_STREQ(emu().lastError(), "elapsed time: the start event was never recorded");
}

TEST(EngineStream, TheLastRecordOfAnEventCounts) {
  World world({});
  void* context = world.context(0);
  const EventOf event(context);
  void* program = world.load(0, gate());
  for (uint64_t op = 1; op <= 2; op++) {
    ASSERT_EQ(launch(world.comm(0), program, {{}, {}, op, 0}, world.stream(0)), ncclSuccess);
    ASSERT_EQ(emu().eventRecord(context, event.event, world.stream(0)), ncclSuccess);
  }
  open(world);
  EXPECT_EQ(emu().eventQuery(context, event.event), ncclInProgress);
  open(world);
  EXPECT_EQ(emu().eventSynchronize(context, event.event), ncclSuccess);
  EXPECT_EQ(world.sync(0), "");
}

TEST(EngineStream, DestroyingAStreamDrainsIt) {
  World world({});
  void* stream = nullptr;
  ASSERT_EQ(emu().streamCreate(world.context(0), 0, &stream), ncclSuccess);
  vector<int32_t> in{7}, out{0};
  void* program = world.load(
      0, ProgramBuilder(0, 1).wait(-1, 0, 1).transfer({input(0)}, {output(0)}, 4).total(0, 1));
  ASSERT_EQ(launch(world.comm(0), program, {{bind(in)}, {bind(out)}, 1, 0}, stream), ncclSuccess);
  std::thread opener([&] { open(world); });
  EXPECT_EQ(emu().streamDestroy(world.context(0), stream), ncclSuccess);
  EXPECT_EQ(out[0], 7);
  opener.join();
  EXPECT_EQ(emu().streamSynchronize(world.context(0), stream), ncclInvalidArgument);
}

TEST(EngineStream, EachDeviceHasADefaultStreamThatStays) {
  World world({});
  void *a = nullptr, *again = nullptr, *b = nullptr;
  ASSERT_EQ(emu().streamDefault(world.context(0), 0, &a), ncclSuccess);
  ASSERT_EQ(emu().streamDefault(world.context(0), 0, &again), ncclSuccess);
  ASSERT_EQ(emu().streamDefault(world.context(0), 1, &b), ncclSuccess);
  EXPECT_EQ(a, again);
  EXPECT_NE(a, b);
  EXPECT_EQ(emu().streamDestroy(world.context(0), a), ncclInvalidUsage);
  EXPECT_EQ(emu().streamDefault(world.context(0), 128, &b), ncclInvalidArgument);
  EXPECT_STREQ(emu().lastError(), "device 128: there are 128");
}

TEST(EngineStream, DeviceSynchronizeWaitsForAllStreamsOfTheDevice) {
  World world({});
  void* other = nullptr;
  ASSERT_EQ(emu().streamCreate(world.context(0), 0, &other), ncclSuccess);
  void* program = world.load(0, gate());
  ASSERT_EQ(launch(world.comm(0), program, {{}, {}, 1, 0}, world.stream(0)), ncclSuccess);
  ASSERT_EQ(launch(world.comm(0), program, {{}, {}, 2, 0}, other), ncclSuccess);
  EXPECT_EQ(emu().deviceSynchronize(world.context(0), 5), ncclSuccess) << "nothing there";
  std::thread opener([&] {
    open(world);
    open(world);
  });
  EXPECT_EQ(emu().deviceSynchronize(world.context(0), 0), ncclSuccess);
  EXPECT_EQ(emu().streamQuery(world.context(0), other), ncclSuccess);
  EXPECT_EQ(emu().streamQuery(world.context(0), world.stream(0)), ncclSuccess);
  opener.join();
  EXPECT_EQ(emu().streamDestroy(world.context(0), other), ncclSuccess);
}

// Operations of several communicators, dealt over streams, with events between them: each must
// find what the one before it in its stream has written.
TEST(EngineStream, ManyStreamsKeepTheirOrder) {
  constexpr int kStreams = 16, kDepth = 50;
  for (const int workers : {0, 2}) {
    WorldOptions options;
    options.engineThreads = workers;
    World world(options);
    void* context = world.context(0);
    vector<void*> streams(kStreams);
    vector<vector<int32_t>> cells(kStreams, vector<int32_t>(kDepth + 1));
    vector<std::unique_ptr<EventOf>> events;
    void* program =
        world.load(0, ProgramBuilder(0, 1).transfer({input(0), input(0, 0, 0, 1)}, {output(0)}, 4));
    int32_t one = 1;
    for (auto& stream : streams)
      ASSERT_EQ(emu().streamCreate(context, 0, &stream), ncclSuccess);
    uint64_t op = 0;
    for (int k = 0; k < kDepth; k++) {
      for (int s = 0; s < kStreams; s++) {
        Call call{{bind(&cells[s][k], 4), bind(&one, 4)}, {bind(&cells[s][k + 1], 4)}, ++op, 0};
        ASSERT_EQ(launch(world.comm(0), program, call, streams[s]), ncclSuccess);
        events.push_back(std::make_unique<EventOf>(context));
        ASSERT_EQ(emu().eventRecord(context, events.back()->event, streams[s]), ncclSuccess);
      }
    }
    for (int s = 0; s < kStreams; s++) {
      void* middle = events[static_cast<size_t>(kDepth / 2 * kStreams + s)]->event;
      EXPECT_EQ(emu().eventSynchronize(context, middle), ncclSuccess);
      EXPECT_EQ(cells[s][kDepth / 2], kDepth / 2);
      EXPECT_EQ(emu().streamSynchronize(context, streams[s]), ncclSuccess);
      EXPECT_EQ(cells[s][kDepth], kDepth);
    }
    for (auto& stream : streams)
      EXPECT_EQ(emu().streamDestroy(context, stream), ncclSuccess);
  }
}

}  // namespace
}  // namespace nccom::emu
