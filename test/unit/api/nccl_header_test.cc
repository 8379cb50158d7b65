// The public header is an ABI: what an application compiled against NCCL 2.30 assumes of it.
#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#include "include/nccl.h"
#include "include/nccom.h"

namespace {

static_assert(sizeof(ncclUniqueId) == 128 && alignof(ncclUniqueId) == 1);
static_assert(std::is_trivially_copyable_v<ncclUniqueId>);

// ncclConfig_t: each field where NCCL 2.30 has it, no more and no less.
static_assert(offsetof(ncclConfig_t, size) == 0);
static_assert(offsetof(ncclConfig_t, magic) == 8);
static_assert(offsetof(ncclConfig_t, version) == 12);
static_assert(offsetof(ncclConfig_t, blocking) == 16);
static_assert(offsetof(ncclConfig_t, cgaClusterSize) == 20);
static_assert(offsetof(ncclConfig_t, minCTAs) == 24);
static_assert(offsetof(ncclConfig_t, maxCTAs) == 28);
static_assert(offsetof(ncclConfig_t, netName) == 32);
static_assert(offsetof(ncclConfig_t, splitShare) == 40);
static_assert(offsetof(ncclConfig_t, trafficClass) == 44);
static_assert(offsetof(ncclConfig_t, commName) == 48);
static_assert(offsetof(ncclConfig_t, collnetEnable) == 56);
static_assert(offsetof(ncclConfig_t, CTAPolicy) == 60);
static_assert(offsetof(ncclConfig_t, shrinkShare) == 64);
static_assert(offsetof(ncclConfig_t, nvlsCTAs) == 68);
static_assert(offsetof(ncclConfig_t, nChannelsPerNetPeer) == 72);
static_assert(offsetof(ncclConfig_t, nvlinkCentricSched) == 76);
static_assert(offsetof(ncclConfig_t, graphUsageMode) == 80);
static_assert(offsetof(ncclConfig_t, numRmaCtx) == 84);
static_assert(offsetof(ncclConfig_t, maxP2pPeers) == 88);
static_assert(offsetof(ncclConfig_t, graphStreamOrdering) == 92);
static_assert(sizeof(ncclConfig_t) == 96);

static_assert(offsetof(ncclSimInfo_t, magic) == 8);
static_assert(offsetof(ncclSimInfo_t, version) == 12);
static_assert(offsetof(ncclSimInfo_t, estimatedTime) == 16);
static_assert(sizeof(ncclSimInfo_t) == 24);

static_assert(offsetof(ncclWaitSignalDesc_t, opCnt) == 0);
static_assert(offsetof(ncclWaitSignalDesc_t, peer) == 4);
static_assert(offsetof(ncclWaitSignalDesc_t, sigIdx) == 8);
static_assert(offsetof(ncclWaitSignalDesc_t, ctx) == 12);
static_assert(sizeof(ncclWaitSignalDesc_t) == 16);

// Enums are passed as int.
static_assert(sizeof(ncclResult_t) == 4 && sizeof(ncclDataType_t) == 4 && sizeof(ncclRedOp_t) == 4);
static_assert(sizeof(ncclScalarResidence_t) == 4 && sizeof(ncclCommMemStat_t) == 4);

static_assert(ncclSuccess == 0 && ncclUnhandledCudaError == 1 && ncclSystemError == 2);
static_assert(ncclInternalError == 3 && ncclInvalidArgument == 4 && ncclInvalidUsage == 5);
static_assert(ncclRemoteError == 6 && ncclInProgress == 7 && ncclTimeout == 8);
static_assert(ncclNumResults == 9);

static_assert(ncclInt8 == 0 && ncclChar == 0 && ncclUint8 == 1 && ncclInt32 == 2 && ncclInt == 2);
static_assert(ncclUint32 == 3 && ncclInt64 == 4 && ncclUint64 == 5);
static_assert(ncclFloat16 == 6 && ncclHalf == 6 && ncclFloat32 == 7 && ncclFloat == 7);
static_assert(ncclFloat64 == 8 && ncclDouble == 8 && ncclBfloat16 == 9);
static_assert(ncclFloat8e4m3 == 10 && ncclFloat8e5m2 == 11 && ncclNumTypes == 12);

static_assert(ncclSum == 0 && ncclProd == 1 && ncclMax == 2 && ncclMin == 3 && ncclAvg == 4);
static_assert(ncclNumOps == 5 && ncclMaxRedOp == 0x7fffffff);
static_assert(ncclScalarDevice == 0 && ncclScalarHostImmediate == 1);
static_assert(ncclStatGpuMemSuspend == 0 && ncclStatGpuMemSuspended == 1);
static_assert(ncclStatGpuMemPersist == 2 && ncclStatGpuMemTotal == 3);

static_assert(NCCL_UNIQUE_ID_BYTES == 128 && NCCL_SPLIT_NOCOLOR == -1);
static_assert(NCCL_SHRINK_DEFAULT == 0 && NCCL_SHRINK_ABORT == 1 && NCCL_REVOKE_DEFAULT == 0);
static_assert(NCCL_SUSPEND_MEM == 1);
static_assert(NCCL_WIN_DEFAULT == 0 && NCCL_WIN_COLL_SYMMETRIC == 1);
static_assert(NCCL_WIN_STRICT_ORDERING == 2 && NCCL_WIN_REQUIRED_ALIGNMENT == 4096);
static_assert(NCCL_CTA_POLICY_DEFAULT == 0 && NCCL_CTA_POLICY_EFFICIENCY == 1);
static_assert(NCCL_CTA_POLICY_ZERO == 2);
static_assert(NCCL_CONFIG_UNDEF_INT == INT_MIN);

static_assert(NCCL_VERSION_CODE == 23007);
static_assert(NCCL_VERSION_CODE == NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH));
static_assert(NCCL_VERSION(2, 8, 4) == 2804 && NCCL_VERSION(2, 9, 6) == 20906);
#if NCCL_VERSION_CODE < NCCL_VERSION(2, 28, 0)
#error "the preprocessor cannot compare versions"
#endif

static_assert(std::is_same_v<ncclStream_t, struct nccomStream*>);
static_assert(std::is_same_v<decltype(&ncclAllReduce), decltype(&pncclAllReduce)>);

TEST(NcclHeader, ConfigInitializerLeavesEveryChoiceUndefined) {
  const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(config.size, sizeof(ncclConfig_t));
  EXPECT_EQ(config.magic, 0xcafebeefU);
  EXPECT_EQ(config.version, 23007U);
  EXPECT_EQ(config.netName, nullptr);
  EXPECT_EQ(config.commName, nullptr);
  for (const int field :
       {config.blocking, config.cgaClusterSize, config.minCTAs, config.maxCTAs, config.splitShare,
        config.trafficClass, config.collnetEnable, config.CTAPolicy, config.shrinkShare,
        config.nvlsCTAs, config.nChannelsPerNetPeer, config.nvlinkCentricSched,
        config.graphUsageMode, config.numRmaCtx, config.maxP2pPeers, config.graphStreamOrdering}) {
    EXPECT_EQ(field, INT_MIN);
  }
}

TEST(NcclHeader, SimInfoInitializerCarriesItsMagic) {
  const ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  EXPECT_EQ(info.size, sizeof(ncclSimInfo_t));
  EXPECT_EQ(info.magic, 0x74685283U);
  EXPECT_EQ(info.version, 23007U);
  EXPECT_EQ(info.estimatedTime, -1.0F);
}

}  // namespace
