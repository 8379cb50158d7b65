// One machine that stands in for several hosts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "test/unit/system/ranks.h"

namespace nccom::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr size_t kCount = 50000;

/// An all-reduce over communicators of one process.
int sumOver(const std::vector<int>& devices) {
  const auto n = static_cast<int>(devices.size());
  std::vector<ncclComm_t> comms(devices.size());
  std::vector<float*> buffers(devices.size());
  MUST(ncclCommInitAll(comms.data(), n, devices.data()));
  for (int i = 0; i < n; i++) {
    MUST(ncclMemAlloc(reinterpret_cast<void**>(&buffers[i]), kCount * sizeof(float)));
    std::fill_n(buffers[i], kCount, static_cast<float>(i + 1));
  }
  MUST(ncclGroupStart());
  for (int i = 0; i < n; i++)
    MUST(ncclAllReduce(buffers[i], buffers[i], kCount, ncclFloat, ncclSum, comms[i], nullptr));
  MUST(ncclGroupEnd());
  MUST(nccomStreamSynchronize(nullptr));
  const auto sum = static_cast<float>(n * (n + 1) / 2);
  for (const float* buffer : buffers) {
    for (size_t i = 0; i < kCount; i++) {
      if (buffer[i] != sum) return 1;
    }
  }
  for (ncclComm_t comm : comms)
    MUST(ncclCommDestroy(comm));
  puts("right");
  return 0;
}

Outcome sumOver(const std::string& cluster, const std::vector<int>& devices) {
  Ranks ranks(1, {{"NCCOM_CLUSTER", cluster}, {"NCCL_DEBUG", "INFO"}, {"NCCL_DEBUG_SUBSYS", "ALL"}},
              [&](int, const ncclUniqueId&) { return sumOver(devices); });
  return ranks.wait(60)[0];
}

TEST(Cluster, RanksOfDifferentHostsMeetOverTheNetwork) {
  const Outcome outcome = sumOver("2xtrn2.48xlarge", {0, 1, 64, 65});
  SCOPED_TRACE(outcome.output);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("right"));
  EXPECT_THAT(outcome.output, HasSubstr("via NET/"));
  EXPECT_THAT(outcome.output, HasSubstr("nodes 2"));
}

TEST(Cluster, RanksOfOneHostDoNot) {
  const Outcome outcome = sumOver("2xtrn2.48xlarge", {64, 65, 66, 67});
  SCOPED_TRACE(outcome.output);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.output, Not(HasSubstr("via NET/")));
}

TEST(Cluster, HostsMayDiffer) {
  const Outcome outcome = sumOver("1xtrn1.32xlarge,1xinf2.48xlarge,1xtrn2.3xlarge",
                                  {0, 1, 2, 3, 32, 33, 34, 35, 56, 57, 58, 59});
  SCOPED_TRACE(outcome.output);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("nodes 3"));
}

TEST(Cluster, ProcessesMayHoldRanksOfAnyHost) {
  Ranks ranks(4, {{"NCCOM_CLUSTER", "2xtrn2.48xlarge"}}, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = nullptr;
    int* buffer = nullptr;
    MUST(nccomSetDevice(rank * 32));
    MUST(ncclCommInitRank(&comm, 4, id, rank));
    MUST(ncclMemAlloc(reinterpret_cast<void**>(&buffer), 4 * sizeof(int)));
    buffer[rank] = 10 + rank;
    MUST(ncclAllGather(buffer + rank, buffer, 1, ncclInt, comm, nullptr));
    MUST(nccomStreamSynchronize(nullptr));
    MUST(ncclCommDestroy(comm));
    return buffer[0] == 10 && buffer[1] == 11 && buffer[2] == 12 && buffer[3] == 13 ? 0 : 1;
  });
  for (const Outcome& outcome : ranks.wait(60))
    EXPECT_EQ(outcome.status, 0) << outcome.output;
}

TEST(Cluster, WhatCannotBeReadIsAnError) {
  for (const auto& [cluster, says] :
       {std::pair("3xtrn9", "trn9"), std::pair("0xtrn2.48xlarge", "NCCOM_CLUSTER"),
        std::pair("trn2.48xlarge,", "NCCOM_CLUSTER")}) {
    const Outcome outcome = sumOver(cluster, {0, 1});
    EXPECT_EQ(outcome.status, kFailedStatus);
    EXPECT_THAT(outcome.output, HasSubstr(says));
  }
}

}  // namespace
}  // namespace nccom::test
