#include "enc/verify_clock.h"

#include <algorithm>

namespace nccom {

void encClock::know(int agent, int32_t time) {
  if (of(agent) >= time) return;
  const size_t block = static_cast<size_t>(agent) / kBlock;
  std::vector<encShared<Block>>& blocks = blocks_.own();
  if (block >= blocks.size()) blocks.resize(block + 1);
  blocks[block].own()[static_cast<size_t>(agent) % kBlock] = time;
}

/// The later of both in each place; the one that has all of these, if one has.
encShared<encClock::Block> encClock::later(const encShared<Block>& mine,
                                           const encShared<Block>& theirs) {
  if (!mine || mine == theirs) return theirs;
  if (!theirs) return mine;
  const Block &a = *mine, &b = *theirs;
  Block joined;
  int32_t newToMe = 0, newToThem = 0;
  for (size_t i = 0; i < kBlock; i++) {
    joined[i] = a[i] > b[i] ? a[i] : b[i];
    newToMe |= joined[i] ^ a[i];
    newToThem |= joined[i] ^ b[i];
  }
  if (newToMe == 0) return mine;
  return newToThem == 0 ? theirs : encShared<Block>(joined);
}

void encClock::join(const encClock& other) {
  if (!other.blocks_ || blocks_ == other.blocks_) return;
  if (!blocks_) {
    blocks_ = other.blocks_;
    return;
  }
  const std::vector<encShared<Block>>& theirs = *other.blocks_;
  for (size_t i = 0; i < theirs.size(); i++) {
    const encShared<Block> mine = i < blocks_->size() ? (*blocks_)[i] : encShared<Block>();
    encShared<Block> joined = later(mine, theirs[i]);
    if (joined == mine) continue;
    std::vector<encShared<Block>>& own = blocks_.own();
    if (i >= own.size()) own.resize(theirs.size());
    own[i] = std::move(joined);
  }
}

int encOrder::addWire() {
  ends_.emplace_back();
  ends_.emplace_back();
  return agents_ + static_cast<int>(ends_.size()) - 2;
}

bool encOrder::knowsEnd(const encKnowledge& who, int agent, int32_t time) const {
  if (time == 0) return true;  // nothing has happened there
  // Both ends of a wire count its entries: what has been received has been sent.
  if (agent + 1 == who.agent && isReceiver(who.agent)) return time <= who.time;
  for (const Pupil& pupil : ends_[agent - agents_]) {
    const auto lesson =
        std::lower_bound(pupil.lessons.begin(), pupil.lessons.end(), time,
                         [](const Lesson& one, int32_t wanted) { return one.upTo < wanted; });
    if (lesson != pupil.lessons.end() && knows(who, pupil.agent, lesson->time)) return true;
  }
  return false;
}

void encOrder::acquire(encKnowledge& who, const encKnowledge& released) {
  if (knows(who, released.agent, released.time)) return;
  who.time++;
  learn(who, released);
  if (released.agent < agents_) return;
  note(released.agent, who, released.time);
  if (isReceiver(released.agent)) note(released.agent - 1, who, released.time);
}

void encOrder::learn(encKnowledge& who, const encKnowledge& released) const {
  who.clock.join(released.clock);
  if (released.agent < agents_) who.clock.know(released.agent, released.time);
}

void encOrder::note(int end, const encKnowledge& who, int32_t upTo) {
  std::vector<Pupil>& pupils = ends_[end - agents_];
  auto pupil = std::find_if(pupils.begin(), pupils.end(),
                            [&](const Pupil& one) { return one.agent == who.agent; });
  if (pupil == pupils.end()) pupil = pupils.insert(pupils.end(), {who.agent, {}});
  if (pupil->lessons.empty() || pupil->lessons.back().upTo < upTo) {
    pupil->lessons.push_back({upTo, who.time});
  }
}

}  // namespace nccom
