#include "comm/joining.h"

#include <algorithm>
#include <utility>

namespace nccom {

namespace {

std::string keyOf(const ncclUniqueId& id) {
  return {id.internal, sizeof id.internal};
}

}  // namespace

bool isConsequence(const Error& error) {
  return error.code == ncclRemoteError || error.code == ncclInternalError ||
         error.code == ncclTimeout;
}

Joining::Hold::Hold(Joining& joining, const ncclUniqueId& id) : joining_(joining), key_(keyOf(id)) {
  const std::lock_guard lock(joining_.mutex_);
  joining_.groups_[key_].holds++;
}

Joining::Hold::~Hold() {
  const std::lock_guard lock(joining_.mutex_);
  const auto found = joining_.groups_.find(key_);
  if (--found->second.holds == 0) joining_.groups_.erase(found);
}

Joining::Member::Member(Joining& joining, const ncclUniqueId& id, Fail failed)
    : joining_(joining), key_(keyOf(id)), failed_(std::move(failed)), hold_(joining, id) {
  const std::lock_guard lock(joining_.mutex_);
  Group& group = joining_.groups_[key_];
  group.members.push_back(this);
  if (group.failed) failed_(group.error);
}

Joining::Member::~Member() {
  const std::lock_guard lock(joining_.mutex_);
  std::erase(joining_.groups_[key_].members, this);
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
