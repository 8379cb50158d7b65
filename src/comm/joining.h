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

/// Whether a rank's failure may be but what another one's did to it.
bool isConsequence(const Error& error);

class Joining {
 public:
  /// Fails a rank; must not block, nor call the Joining back.
  using Fail = std::function<void(const Error&)>;

  /// Keeps in mind what has failed of an id: for ranks that are to join together, of which the last
  /// may start when the first have ended.
  class Hold {
   public:
    Hold(Joining& joining, const ncclUniqueId& id);
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    Joining& joining_;
    const std::string key_;
  };

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
    const Hold hold_;
  };

 private:
  struct Group {
    int holds = 0;
    std::vector<Member*> members;
    bool failed = false;
    Error error;  // of the first that failed
  };
  std::mutex mutex_;  // guards groups_, and keeps members while they are failed
  std::map<std::string, Group> groups_;
};

}  // namespace nccom
