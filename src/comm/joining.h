// The ranks of this process that are joining communicators: what one of them cannot do ends the
// waits of the others at once, with its reason. Other processes hear through their connections.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "include/nccl.h"
#include "misc/result.h"

namespace nccom {

class Joining {
 public:
  /// Fails a rank; must not block, nor call the Joining back.
  using Fail = std::function<void(const Error&)>;

  /// A rank that is joining; it has ended when the object goes.
  class Member {
   public:
    Member(Joining& joining, const ncclUniqueId& id, Fail failed);
    ~Member();
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

    /// Fails the other ranks of this process that are joining the same communicator, now or later.
    void failOthers(const Error& error);

   private:
    Joining& joining_;
    const std::string key_;
    Fail failed_;
  };

 private:
  struct Group {
    std::vector<Member*> members;
    bool failed = false;
    Error error;  // of the first that failed
  };
  std::mutex mutex_;  // guards groups_, and keeps members while they are failed
  std::map<std::string, Group> groups_;
};

}  // namespace nccom
