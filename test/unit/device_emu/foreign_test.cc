#include "plugins/device_emu/foreign.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "test/unit/device_emu/forked.h"

namespace nccom::emu {
namespace {

uint64_t addressOf(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

uint8_t patternAt(size_t i) {
  return static_cast<uint8_t>(i * 31 + (i >> 8) * 7 + 1);
}

bool mayAttach() {
  const uint64_t word = 7;
  Pipe end;
  const Child child([&] { return end.receive<char>().has_value(); });
  return cmaProbe({child.pid(), addressOf(&word), word}).ok();
}

TEST(CrossMemory, ReadsAndWritesAnySizeAtAnyAlignment) {
  if (!mayAttach()) GTEST_SKIP() << "cross-memory attach is not permitted here";
  constexpr size_t kBytes = 300'000;
  constexpr size_t kMargin = 17;
  std::vector<uint8_t> data(kBytes + 2 * kMargin);
  for (size_t i = 0; i < data.size(); i++)
    data[i] = patternAt(i);
  Pipe toChild;
  Pipe fromChild;
  Child child([&] {  // its copy of data starts as ours; it checks what it is told was written
    fromChild.send('r');
    while (const auto size = toChild.receive<size_t>()) {
      if (*size == 0) return true;
      bool good = true;
      for (size_t i = 0; i < data.size(); i++) {
        const bool written = i >= kMargin && i < kMargin + *size;
        good = good && data[i] == static_cast<uint8_t>(written ? ~patternAt(i) : patternAt(i));
        data[i] = patternAt(i);
      }
      fromChild.send(good);
    }
    return false;
  });
  ASSERT_TRUE(fromChild.receive<char>());

  for (const size_t size :
       {size_t{1}, size_t{3}, size_t{4095}, size_t{4096}, size_t{4097}, size_t{65'537}, kBytes}) {
    for (const size_t offset : {size_t{0}, size_t{1}, size_t{13}}) {
      std::vector<uint8_t> got(size + 2, 0xEE);
      const Status read =
          cmaRead(child.pid(), addressOf(data.data()) + offset, got.data() + 1, size);
      ASSERT_TRUE(read.ok()) << read.error().message;
      EXPECT_TRUE(std::equal(got.begin() + 1, got.end() - 1,
                             data.begin() + static_cast<ptrdiff_t>(offset)));
      EXPECT_EQ(got.front(), 0xEE);
      EXPECT_EQ(got.back(), 0xEE);
    }
    std::vector<uint8_t> inverted(size);
    for (size_t i = 0; i < size; i++)
      inverted[i] = static_cast<uint8_t>(~patternAt(kMargin + i));
    const Status written =
        cmaWrite(child.pid(), addressOf(data.data()) + kMargin, inverted.data(), size);
    ASSERT_TRUE(written.ok()) << written.error().message;
    toChild.send(size);
    EXPECT_EQ(fromChild.receive<bool>(), true) << "size " << size;
  }
  EXPECT_TRUE(cmaRead(child.pid(), 0, nullptr, 0).ok());
  toChild.send(size_t{0});
  EXPECT_TRUE(child.succeeded());
}

TEST(CrossMemory, ProbeKnowsTheRightProcessByItsWord) {
  if (!mayAttach()) GTEST_SKIP() << "cross-memory attach is not permitted here";
  const uint64_t word = 0x1122334455667788;
  Pipe end;
  Child child([&] { return end.receive<char>().has_value(); });
  EXPECT_TRUE(cmaProbe({child.pid(), addressOf(&word), word}).ok());
  const Status other = cmaProbe({child.pid(), addressOf(&word), word + 1});
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, ncclRemoteError);
  EXPECT_NE(other.error().message.find("another value"), std::string::npos)
      << other.error().message;
  const Status unmapped = cmaProbe({child.pid(), 64, word});
  ASSERT_FALSE(unmapped.ok());
  EXPECT_NE(unmapped.error().message.find("not mapped"), std::string::npos);
  EXPECT_FALSE(cmaProbe({0, addressOf(&word), word}).ok());
  end.send('e');
  EXPECT_TRUE(child.succeeded());
}

TEST(CrossMemory, NamesThePeerThatEnded) {
  if (!mayAttach()) GTEST_SKIP() << "cross-memory attach is not permitted here";
  Child child([] { return true; });
  const pid_t pid = child.pid();
  ASSERT_TRUE(child.succeeded());
  char byte = 0;
  const Status read = cmaRead(pid, addressOf(&byte), &byte, 1);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ncclRemoteError);
  EXPECT_NE(read.error().message.find(std::to_string(pid)), std::string::npos);
  EXPECT_NE(read.error().message.find("ended"), std::string::npos);
}

TEST(CrossMemory, NamesTheAddressThatIsNotMapped) {
  if (!mayAttach()) GTEST_SKIP() << "cross-memory attach is not permitted here";
  // Two pages, the second of them away: the transfer stops in the middle.
  void* const pages =
      mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(munmap(static_cast<char*>(pages) + 4096, 4096), 0);
  std::vector<char> to(8192);
  const Status read = cmaRead(getpid(), addressOf(pages), to.data(), to.size());
  ASSERT_FALSE(read.ok());
  char address[32];
  snprintf(address, sizeof address, "0x%lx", static_cast<unsigned long>(addressOf(pages) + 4096));
  EXPECT_NE(read.error().message.find(address), std::string::npos) << read.error().message;
  EXPECT_EQ(read.error().code, ncclSystemError);
  munmap(pages, 4096);
}

// ---- system calls that a test decides
// -------------------------------------------------------------

template <int kErrno>
ssize_t failing(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long) {
  errno = kErrno;
  return -1;
}

// Interrupted every other time, and never more than 1000 bytes.
int interruptions = 0;
ssize_t halting(pid_t, const iovec* here, unsigned long, const iovec* there, unsigned long,
                unsigned long) {
  if (++interruptions % 2 == 1) {
    errno = EINTR;
    return -1;
  }
  const size_t part = std::min<size_t>(here->iov_len, 1000);
  memcpy(here->iov_base, there->iov_base, part);
  return static_cast<ssize_t>(part);
}

TEST(CrossMemory, GoesOnAfterPartialTransfersAndSignals) {
  std::vector<uint8_t> from(12'345);
  for (size_t i = 0; i < from.size(); i++)
    from[i] = patternAt(i);
  std::vector<uint8_t> to(from.size());
  ASSERT_TRUE(cmaRead(1, addressOf(from.data()), to.data(), to.size(), {halting, halting}).ok());
  EXPECT_EQ(from, to);
}

TEST(CrossMemory, SaysWhoForbidsIt) {
  uint64_t word = 5;
  const CmaCheck check = {getpid(), addressOf(&word), word};
  const Status forbidden = cmaProbe(check, {failing<EPERM>, failing<EPERM>});
  ASSERT_FALSE(forbidden.ok());
  EXPECT_EQ(forbidden.error().code, ncclSystemError);
  EXPECT_NE(forbidden.error().message.find("ptrace_scope"), std::string::npos);
  EXPECT_NE(forbidden.error().message.find("readv"), std::string::npos);

  const Status missing = cmaProbe(check, {failing<ENOSYS>, failing<ENOSYS>});
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("kernel"), std::string::npos);

  interruptions = 0;
  const Status writing = cmaProbe(check, {halting, failing<EPERM>});
  ASSERT_FALSE(writing.ok());
  EXPECT_NE(writing.error().message.find("writev"), std::string::npos) << writing.error().message;

  const Status dead = cmaProbe(check, {failing<ESRCH>, failing<ESRCH>});
  ASSERT_FALSE(dead.ok());
  EXPECT_EQ(dead.error().code, ncclRemoteError);
}

TEST(CrossMemory, AdmitsPeersWithOrWithoutYama) {
  EXPECT_TRUE(cmaAdmitPeers().ok());
}

}  // namespace
}  // namespace nccom::emu
