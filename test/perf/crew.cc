#include "test/perf/crew.h"

#include <algorithm>

namespace nccom::perf {

// join(first) adds this thread's part; the last to arrive calls finish() for the process. A result
// stays until every thread has it: the next meeting ends only after all have come to it.
template <class Join, class Finish>
double Crew::meet(Join join, Finish finish) {
  std::unique_lock lock(mutex_);
  join(arrived_ == 0);
  if (++arrived_ == threads_) {
    result_ = finish();
    arrived_ = 0;
    meetings_++;
    met_.notify_all();
    return result_;
  }
  met_.wait(lock, [this, meeting = meetings_] { return meetings_ != meeting; });
  return result_;
}

void Crew::barrier() {
  meet([](bool /*first*/) {},
       [this] {
         processes_.barrier();
         return 0.0;
       });
}

double Crew::combine(double value, Combine how) {
  const auto join = [&](bool first) {
    if (first) {
      partial_ = value;
    } else if (how == Combine::Sum) {
      partial_ += value;
    } else {
      partial_ = how == Combine::Min ? std::min(partial_, value) : std::max(partial_, value);
    }
  };
  return meet(join, [&] { return processes_.combine(partial_, how); });
}

double Crew::sum(double value) {
  return combine(value, Combine::Sum);
}

double Crew::average(double value, Average how, int thread) {
  switch (how) {
    case Average::Rank0:
      return combine(processes_.rank() == 0 && thread == 0 ? value : 0, Combine::Sum);
    case Average::Min:
      return combine(value, Combine::Min);
    case Average::Max:
      return combine(value, Combine::Max);
    case Average::Mean:
      break;
  }
  return combine(value, Combine::Sum) / (threads_ * processes_.size());
}

}  // namespace nccom::perf
