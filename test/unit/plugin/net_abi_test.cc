// The layouts that plugins built elsewhere have: offsets on LP64, from the ABI's published order.
#include <gtest/gtest.h>

#include <cstddef>

#include "include/plugin/nccl_net.h"

namespace {

TEST(NetAbi, PropertiesV8HaveTheirLayout) {
  EXPECT_EQ(offsetof(ncclNetProperties_v8_t, name), 0U);
  EXPECT_EQ(offsetof(ncclNetProperties_v8_t, pciPath), 8U);
  EXPECT_EQ(offsetof(ncclNetProperties_v8_t, guid), 16U);
  EXPECT_EQ(offsetof(ncclNetProperties_v8_t, ptrSupport), 24U);
  EXPECT_EQ(offsetof(ncclNetProperties_v8_t, regIsGlobal), 28U);
  EXPECT_EQ(offsetof(ncclNetProperties_v8_t, speed), 32U);
  EXPECT_EQ(offsetof(ncclNetProperties_v8_t, port), 36U);
  EXPECT_EQ(offsetof(ncclNetProperties_v8_t, latency), 40U);
  EXPECT_EQ(offsetof(ncclNetProperties_v8_t, maxComms), 44U);
  EXPECT_EQ(offsetof(ncclNetProperties_v8_t, maxRecvs), 48U);
  EXPECT_EQ(offsetof(ncclNetProperties_v8_t, netDeviceType), 52U);
  EXPECT_EQ(offsetof(ncclNetProperties_v8_t, netDeviceVersion), 56U);
  EXPECT_EQ(sizeof(ncclNetProperties_v8_t), 64U);
}

TEST(NetAbi, DeviceHandleV8HasItsLayout) {
  EXPECT_EQ(offsetof(ncclNetDeviceHandle_v8_t, netDeviceType), 0U);
  EXPECT_EQ(offsetof(ncclNetDeviceHandle_v8_t, netDeviceVersion), 4U);
  EXPECT_EQ(offsetof(ncclNetDeviceHandle_v8_t, handle), 8U);
  EXPECT_EQ(offsetof(ncclNetDeviceHandle_v8_t, size), 16U);
  EXPECT_EQ(offsetof(ncclNetDeviceHandle_v8_t, needsProxyProgress), 24U);
  EXPECT_EQ(sizeof(ncclNetDeviceHandle_v8_t), 32U);
}

TEST(NetAbi, TableV8HasItsLayout) {
  constexpr size_t kSlot = sizeof(void*);
  EXPECT_EQ(offsetof(ncclNet_v8_t, name), 0 * kSlot);
  EXPECT_EQ(offsetof(ncclNet_v8_t, init), 1 * kSlot);
  EXPECT_EQ(offsetof(ncclNet_v8_t, devices), 2 * kSlot);
  EXPECT_EQ(offsetof(ncclNet_v8_t, getProperties), 3 * kSlot);
  EXPECT_EQ(offsetof(ncclNet_v8_t, listen), 4 * kSlot);
  EXPECT_EQ(offsetof(ncclNet_v8_t, connect), 5 * kSlot);
  EXPECT_EQ(offsetof(ncclNet_v8_t, accept), 6 * kSlot);
  EXPECT_EQ(offsetof(ncclNet_v8_t, regMr), 7 * kSlot);
  EXPECT_EQ(offsetof(ncclNet_v8_t, regMrDmaBuf), 8 * kSlot);
  EXPECT_EQ(offsetof(ncclNet_v8_t, deregMr), 9 * kSlot);
  EXPECT_EQ(offsetof(ncclNet_v8_t, isend), 10 * kSlot);
  EXPECT_EQ(offsetof(ncclNet_v8_t, irecv), 11 * kSlot);
  EXPECT_EQ(offsetof(ncclNet_v8_t, iflush), 12 * kSlot);
  EXPECT_EQ(offsetof(ncclNet_v8_t, test), 13 * kSlot);
  EXPECT_EQ(offsetof(ncclNet_v8_t, closeSend), 14 * kSlot);
  EXPECT_EQ(offsetof(ncclNet_v8_t, closeRecv), 15 * kSlot);
  EXPECT_EQ(offsetof(ncclNet_v8_t, closeListen), 16 * kSlot);
  EXPECT_EQ(offsetof(ncclNet_v8_t, getDeviceMr), 17 * kSlot);
  EXPECT_EQ(offsetof(ncclNet_v8_t, irecvConsumed), 18 * kSlot);
  EXPECT_EQ(sizeof(ncclNet_v8_t), 19 * kSlot);
}

TEST(NetAbi, ConstantsHaveTheirValues) {
  EXPECT_EQ(NCCL_NET_HANDLE_MAXSIZE, 128);
  EXPECT_EQ(NCCL_NET_MAX_REQUESTS, 32);
  EXPECT_EQ(NCCL_PTR_HOST, 1);
  EXPECT_EQ(NCCL_PTR_CUDA, 2);
  EXPECT_EQ(NCCL_PTR_DMABUF, 4);
  EXPECT_EQ(NCCL_LOG_WARN, 2);
  EXPECT_EQ(NCCL_LOG_TRACE, 5);
  EXPECT_EQ(NCCL_NET, 16);
  EXPECT_EQ(NCCL_DESTROY, 65536);
  EXPECT_EQ(sizeof(ncclDebugLogLevel), sizeof(int));
}

}  // namespace
