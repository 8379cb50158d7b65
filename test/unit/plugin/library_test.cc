#include "plugin/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "test/unit/plugin/folders.h"

namespace nccom {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

const std::vector<std::string> kPatterns = {"libnccl-net-*.so", "libnccom-net-*.so"};

std::string pathOf(const LibraryName& wanted) {
  const auto library = findLibrary(wanted);
  return library.ok() ? library.value().path() : library.error().message;
}

TEST(Library, IsFoundInTheFolderByEachPattern) {
  EXPECT_EQ(pathOf({"good", kPatterns, pluginFolder()}), pluginFolder() + "/libnccl-net-good.so");
  EXPECT_EQ(pathOf({"own", kPatterns, pluginFolder()}), pluginFolder() + "/libnccom-net-own.so");
}

TEST(Library, IsFoundByFileName) {
  EXPECT_EQ(pathOf({"libnccl-net-good.so", kPatterns, pluginFolder()}),
            pluginFolder() + "/libnccl-net-good.so");
  EXPECT_EQ(pathOf({pluginFolder() + "/libnccl-net-good.so", kPatterns, ""}),
            pluginFolder() + "/libnccl-net-good.so");
  EXPECT_THAT(pathOf({"libm.so.6", {"*"}, ""}), EndsWith("libm.so.6"));
}

TEST(Library, AnErrorHasEveryPathTried) {
  const auto library = findLibrary({"nosuch", kPatterns, "/some/folder"});
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.error().code, ncclSystemError);
  EXPECT_THAT(library.error().message,
              AllOf(HasSubstr("/some/folder/libnccl-net-nosuch.so: no such file"),
                    HasSubstr("/some/folder/libnccom-net-nosuch.so: no such file"),
                    HasSubstr("libnccl-net-nosuch.so: cannot open shared object file"),
                    HasSubstr("libnccom-net-nosuch.so: cannot open shared object file")));
}

TEST(Library, AFileThatCannotBeLoadedEndsTheSearch) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/libnccl-net-own.so") << "not a library";
  std::filesystem::copy(pluginFolder() + "/libnccom-net-own.so", folder.path());
  EXPECT_THAT(pathOf({"own", kPatterns, folder.path()}),
              AllOf(HasSubstr("libnccl-net-own.so"), HasSubstr("file too short")));
}

TEST(Library, APathIsTakenAsItIs) {
  EXPECT_THAT(pathOf({"/no/such/file", kPatterns, pluginFolder()}),
              AllOf(HasSubstr("/no/such/file"), HasSubstr("No such file")));
  EXPECT_THAT(pathOf({"./good", kPatterns, pluginFolder()}), HasSubstr("./good"));
}

TEST(Library, MayBeTheProgramItself) {
  const auto program = findLibrary({"STATIC_PLUGIN", kPatterns, ""});
  ASSERT_TRUE(program.ok()) << program.error().message;
  EXPECT_NE(program.value().symbol("malloc"), nullptr);
  EXPECT_EQ(program.value().symbol("no_such_symbol"), nullptr);
}

TEST(Library, KnowsItsOwnFolder) {
  EXPECT_TRUE(std::filesystem::is_directory(ownFolder())) << ownFolder();
}

}  // namespace
}  // namespace nccom
