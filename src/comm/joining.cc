#include "comm/joining.h"

#include <algorithm>
#include <utility>

namespace nccom {

Joining::Member::Member(Joining& joining, const ncclUniqueId& id, Fail failed)
    : joining_(joining), key_(id.internal, sizeof id.internal), failed_(std::move(failed)) {
  const std::lock_guard lock(joining_.mutex_);
  Group& group = joining_.groups_[key_];
  group.members.push_back(this);
  if (group.failed) failed_(group.error);
}

Joining::Member::~Member() {
  const std::lock_guard lock(joining_.mutex_);
  const auto found = joining_.groups_.find(key_);
  std::erase(found->second.members, this);
  if (found->second.members.empty()) joining_.groups_.erase(found);
}

void Joining::Member::failOthers(const Error& error) {
  const std::lock_guard lock(joining_.mutex_);
  Group& group = joining_.groups_[key_];
  if (group.failed) return;
  group.failed = true;
  group.error = error;
  for (Member* member : group.members) {
    if (member != this) member->failed_(error);
  }
}

}  // namespace nccom
