#include "misc/datatype.h"

#include <array>

namespace nccom {
namespace {

struct TypeRow {
  size_t bytes;
  const char* name;
  bool isFloat;
};

constexpr std::array<TypeRow, 12> kTypes{{
    {1, "int8", false},
    {1, "uint8", false},
    {4, "int32", false},
    {4, "uint32", false},
    {8, "int64", false},
    {8, "uint64", false},
    {2, "half", true},
    {4, "float", true},
    {8, "double", true},
    {2, "bfloat16", true},
    {1, "fp8_e4m3", true},
    {1, "fp8_e5m2", true},
}};
static_assert(kTypes.size() == ncclNumTypes);

const TypeRow* row(ncclDataType_t type) {
  const auto index = static_cast<unsigned>(type);
  return index < kTypes.size() ? &kTypes[index] : nullptr;
}

}  // namespace

size_t ncclTypeSize(ncclDataType_t type) {
  return row(type) != nullptr ? row(type)->bytes : 0;
}

const char* ncclTypeName(ncclDataType_t type) {
  return row(type) != nullptr ? row(type)->name : "?";
}

bool ncclTypeIsFloat(ncclDataType_t type) {
  return row(type) != nullptr && row(type)->isFloat;
}

const char* ncclOpName(ncclRedOp_t op) {
  switch (static_cast<int>(op)) {
    case ncclSum:
      return "sum";
    case ncclProd:
      return "prod";
    case ncclMax:
      return "max";
    case ncclMin:
      return "min";
    case ncclAvg:
      return "avg";
    default:
      return "mulsum";
  }
}

}  // namespace nccom
