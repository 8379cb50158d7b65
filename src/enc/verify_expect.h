// What outputs must hold in the end, from the definitions of NCCL's functions.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "enc/verify_contents.h"
#include "enc/verify_world.h"

namespace nccom {

/// Bytes of an OUTPUT, and what they must hold when the rank's program has ended.
struct encExpectation {
  uint16_t index = 0;
  int64_t begin = 0, end = 0;
  encContents::Id content = 0;
  int64_t source = 0;  // offset in the INPUT that `begin` comes from
};

class encExpectations {
 public:
  encExpectations(const encVerifyWorld& world, encContents& contents);

  /// Of a rank's outputs after `operation`. Messages are matched over all operations.
  std::vector<encExpectation> of(int operation, int rank);

 private:
  struct Numbered {
    int operation = 0;
    encMessage message;
  };
  struct Pair {
    std::vector<Numbered> sends, recvs;  // in order
  };
  /// Contents that many ranks expect alike.
  struct Operation {
    encContents::Id sum = -1;
    std::vector<encContents::Id> inputs;  // [rank]
  };

  encContents::Id input(int operation, int rank);
  encContents::Id sum(int operation);
  std::vector<encExpectation> parts(int operation, int64_t bytes, int64_t source);
  std::vector<encExpectation> messages(int operation, int rank);
  std::vector<encExpectation> permuted(int operation, int rank, int64_t bytes);

  const encVerifyWorld& world_;
  encContents& contents_;
  std::vector<Operation> operations_;
  std::map<std::pair<int, int>, Pair> messages_;  // {to, from}
};

}  // namespace nccom
