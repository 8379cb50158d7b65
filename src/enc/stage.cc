#include "enc/stage.h"

#include <algorithm>

namespace nccom {

encAddress encPages::at(int rank, uint64_t offset) const {
  int64_t place = base + static_cast<int64_t>(offset);
  if (!places.empty()) {
    place = base + places[offset / pieceBytes] + static_cast<int64_t>(offset % pieceBytes);
  }
  return {rank, buffer, index, place, stride};
}

uint64_t encPages::run(uint64_t offset, uint64_t bytes) const {
  if (places.empty()) return bytes;
  size_t piece = offset / pieceBytes;
  uint64_t found = pieceBytes - offset % pieceBytes;
  while (found < bytes && piece + 1 < places.size() &&
         places[piece + 1] == places[piece] + static_cast<int64_t>(pieceBytes)) {
    found += pieceBytes;
    piece++;
  }
  return std::min(found, bytes);
}

encAddress encSpan::at(uint64_t from) const {
  if (pages_ != nullptr) return pages_->at(rank_, offset_ + from);
  encAddress result = address_;
  result.offset += static_cast<int64_t>(from);
  return result;
}

uint64_t encSpan::run(uint64_t from, uint64_t bytes) const {
  return pages_ != nullptr ? pages_->run(offset_ + from, bytes) : bytes;
}

encPart encStage::part(int member) const {
  const uint64_t begin = std::min(messageBytes, static_cast<uint64_t>(member) * partBytes);
  return {begin, std::min(messageBytes - begin, partBytes)};
}

}  // namespace nccom
