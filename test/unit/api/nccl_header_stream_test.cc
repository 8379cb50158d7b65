// A source written for another opaque stream type: the API takes that type.
#include <gtest/gtest.h>

#include <type_traits>

#define NCCL_STREAM_T struct CUstream_st*
#include "include/nccl.h"
#include "include/nccom.h"

namespace {

TEST(NcclHeader, TakesTheStreamTypeThatTheClientNames) {
  using Broadcast =
      ncclResult_t (*)(void*, size_t, ncclDataType_t, int, ncclComm_t, struct CUstream_st*);
  EXPECT_TRUE((std::is_same_v<ncclStream_t, struct CUstream_st*>));
  EXPECT_TRUE((std::is_same_v<decltype(&ncclBcast), Broadcast>));
  EXPECT_TRUE(
      (std::is_same_v<decltype(&nccomStreamCreate), ncclResult_t (*)(struct CUstream_st**)>));
}

}  // namespace
