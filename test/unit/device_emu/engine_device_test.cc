// What the core sees of device plugins, with the emulated one linked in.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "engine_world.h"
#include "plugin/device.h"

namespace nccom {
namespace {

using testing::HasSubstr;

nccomDeviceConfig_v1 config() {
  return emu::deviceConfig({});
}

TEST(Device, ForwardsToThePluginAndItsWords) {
  auto opened = Device::open(emu::emu(), config());
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  Device& device = *opened.value();
  EXPECT_EQ(device.name(), "emu");
  auto* const in = static_cast<int32_t*>(device.memAlloc(0, 64).value());
  in[0] = 42;
  auto comm = device.commCreate(emu::commConfig({}, 0)).value();
  const auto handle = comm->exportHandle().value();
  const int32_t sameHost = 1;
  ASSERT_TRUE(comm->connect({&handle, 1}, {&sameHost, 1}, 1000).ok());
  EXPECT_EQ(comm->scratch().value().bytes, 65536U);
  emu::ProgramBuilder builder =
      emu::ProgramBuilder(0, 1).transfer({emu::input(0)}, {emu::output(0, 4)}, 4);
  void* program = comm->programLoad(builder.build()).value();
  const nccomBufferBinding_v1 buffer{in, 64};
  nccomLaunch_v1 launch{};
  launch.inputs = launch.outputs = &buffer;
  launch.nInputs = launch.nOutputs = 1;
  launch.divisor = 1;
  launch.opCount = launch.collective = 1;
  launch.name = "Copy";
  void* stream = device.streamDefault(0).value();
  ASSERT_TRUE(comm->launch(program, launch, stream).ok());
  ASSERT_TRUE(device.streamSynchronize(stream).ok());
  EXPECT_EQ(in[1], 42);
  EXPECT_TRUE(comm->error().ok());
  EXPECT_THAT(comm->report(), HasSubstr("rank 0 of 1: its last operation is 1 (Copy), ended"));
  EXPECT_TRUE(comm->abort(ncclSystemError, "no more").ok());
  EXPECT_EQ(comm->error().error().message, "no more");
  EXPECT_EQ(comm->launch(program, launch, stream).error().message, "no more");
  EXPECT_TRUE(comm->programUnload(program).ok());
  EXPECT_EQ(comm->hostIndex(0).error().message, "rank 0: connection 0 of 0");
  EXPECT_TRUE(device.memFree(in).ok());
  EXPECT_FALSE(device.memFree(in).ok());
}

TEST(Device, AnIncompleteTableIsRefusedByTheNameOfWhatItLacks) {
  nccomDevice_v1 table = emu::emu();
  table.commReport = nullptr;
  const auto opened = Device::open(table, config());
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, ncclInvalidUsage);
  EXPECT_THAT(opened.error().message, HasSubstr("lacks commReport"));
}

TEST(Device, APluginThatIsNotThereIsAnErrorWithThePathsThatWereTried) {
  const auto opened = Device::open("nosuch", config());
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, ncclSystemError);
  EXPECT_THAT(opened.error().message, HasSubstr("device plugin 'nosuch'"));
  EXPECT_THAT(opened.error().message, HasSubstr("libnccom-device-nosuch.so"));
  EXPECT_THAT(opened.error().message, HasSubstr("cannot open shared object file"));
}

TEST(Device, ALibraryThatIsNoDevicePluginIsAnError) {
  Dl_info libc{};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&strtol), &libc), 0);
  const auto opened = Device::open(libc.dli_fname, config());
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, ncclInvalidUsage);
  EXPECT_THAT(opened.error().message, HasSubstr("does not export nccomDevicePlugin_v1"));
}

}  // namespace
}  // namespace nccom
