#include "enc/mesh_event.h"

#include <algorithm>
#include <utility>

namespace nccom {

using Event = enc_mesh_event_type;

const enc_mesh_event* enc_alg_mesh_subtype::find(enc_mesh_event_type type) const {
  const auto found = std::find_if(events.begin(), events.end(),
                                  [&](const enc_mesh_event& e) { return e.evt_type == type; });
  return found == events.end() ? nullptr : &*found;
}

bool enc_alg_mesh_subtype::takes(enc_op_type op, uint64_t bytes) const {
  const auto i = static_cast<size_t>(op);
  return composes(op) && bytes <= op_max_limit[i] &&
         (op_min_limit[i] == 0 || bytes > op_min_limit[i]);
}

void enc_alg_mesh_subtype::limit(const encWindow& window, encOpMask ops) {
  for (size_t i = 0; i < kEncOps; i++) {
    if ((ops & opMask(static_cast<enc_op_type>(i))) == 0) continue;
    op_max_limit[i] = window.op_max_limit[i];
    op_min_limit[i] = window.op_min_limit[i];
    op_max_limit_sbuf[i] = window.op_max_limit_sbuf[i];
    op_min_limit_sbuf[i] = window.op_min_limit_sbuf[i];
  }
}

enc_mesh_event encMeshEvent(enc_mesh_event_type type, encMeshTrigger trigger,
                            std::vector<int> sources, std::vector<int> destinations) {
  enc_mesh_event event;
  event.evt_type = type;
  event.valid = trigger == encMeshTrigger::Dma || !sources.empty() || !destinations.empty();
  event.trigger = event.valid ? trigger : encMeshTrigger::Empty;
  event.wait_val = static_cast<int>(sources.size());
  event.src_neighbor_grp = std::move(sources);
  event.dst_neighbor_grp = std::move(destinations);
  return event;
}

Status encAddMeshEvent(enc_alg_mesh_subtype& subtype, enc_mesh_event event) {
  if (subtype.find(event.evt_type) != nullptr) {
    return fail(ncclInternalError, "subtype %s has event %s twice: want each type at most once",
                subtype.name.c_str(), encMeshEventName(event.evt_type));
  }
  if (subtype.num_events() == kMaxMeshEvents) {
    return fail(ncclInternalError, "subtype %s: event %s would be number %d: want at most %d",
                subtype.name.c_str(), encMeshEventName(event.evt_type), kMaxMeshEvents + 1,
                kMaxMeshEvents);
  }
  if (event.proxy_wait_val > 0 && event.wait_val == 0) {
    return fail(ncclInternalError,
                "subtype %s: event %s waits for the proxy, and for nobody's arrival: want one at "
                "least",
                subtype.name.c_str(), encMeshEventName(event.evt_type));
  }
  subtype.events.push_back(std::move(event));
  return Ok{};
}

Status encAddMeshSubtype(enc_alg_mesh& mesh, enc_alg_mesh_subtype subtype) {
  if (mesh.mesh_subtype.size() == static_cast<size_t>(kMaxMeshSubtypes)) {
    return fail(ncclInternalError, "subtype %s: all %d slots of the mesh are taken",
                subtype.name.c_str(), kMaxMeshSubtypes);
  }
  if (subtype.events.empty()) {
    return fail(ncclInternalError, "subtype %s has no events: its slot would count as free",
                subtype.name.c_str());
  }
  mesh.mesh_subtype.push_back(std::move(subtype));
  return Ok{};
}

Status encCheckMeshLimits(const enc_alg_mesh_subtype& subtype, uint64_t bufferBytes) {
  for (size_t op = 0; op < kEncOps; op++) {
    const uint64_t limit = std::max(subtype.op_max_limit[op], subtype.op_max_limit_sbuf[op]);
    if (limit <= bufferBytes) continue;
    return fail(ncclInternalError,
                "subtype %s takes %s of up to %llu bytes: want at most the %llu of the channel "
                "buffer",
                subtype.name.c_str(), toText(static_cast<enc_op_type>(op)),
                static_cast<unsigned long long>(limit),
                static_cast<unsigned long long>(bufferBytes));
  }
  return Ok{};
}

Status encAppendFnBarriers(enc_alg_mesh& mesh, const std::vector<int>& others) {
  for (enc_alg_mesh_subtype& subtype : mesh.mesh_subtype) {
    for (const Event type :
         {Event::EVT_FUNCTION_BARRIER_FIRST_COLL, Event::EVT_FUNCTION_BARRIER_LAST_COLL}) {
      TRY(encAddMeshEvent(subtype, encMeshEvent(type, encMeshTrigger::Direct, others, others)));
    }
  }
  return Ok{};
}

Result<const enc_alg_mesh_subtype*> encMeshSubtypeFor(const enc_alg_mesh& mesh, enc_op_type op,
                                                      uint64_t bytes, bool singleStep) {
  const enc_alg_mesh_subtype* last = nullptr;
  for (const enc_alg_mesh_subtype& subtype : mesh.mesh_subtype) {
    const bool isOther =
        subtype.is_two_step_pod_mesh || subtype.is_latency_opt || subtype.is_bw_opt;
    if (isOther || subtype.is_single_step_mesh != singleStep || !subtype.composes(op)) continue;
    if (subtype.takes(op, bytes)) return &subtype;
    last = &subtype;
  }
  if (last != nullptr) return last;
  return fail(ncclInvalidArgument, "a %s of %d groups has no %ssubtype for %s",
              toText(mesh.mesh_type), mesh.num_groups, singleStep ? "single-step " : "",
              toText(op));
}

namespace {

bool contains(const std::vector<int>& list, int member) {
  return std::find(list.begin(), list.end(), member) != list.end();
}

Status checkEvent(const std::vector<enc_alg_mesh>& meshes, size_t slot, size_t number) {
  const auto event = [&](size_t member) -> const enc_mesh_event& {
    return meshes[member].mesh_subtype[slot].events[number];
  };
  for (size_t a = 0; a < meshes.size(); a++) {
    for (size_t b = 0; b < meshes.size(); b++) {
      const bool tells = contains(event(a).dst_neighbor_grp, static_cast<int>(b));
      const bool hears = contains(event(b).src_neighbor_grp, static_cast<int>(a));
      if (tells == hears && event(a).evt_type == event(b).evt_type) continue;
      return fail(ncclInternalError, "subtype %s event %zu: member %zu %s %s, member %zu %s %s",
                  meshes[a].mesh_subtype[slot].name.c_str(), number, a,
                  tells ? "raises" : "does not raise", encMeshEventName(event(a).evt_type), b,
                  hears ? "awaits" : "does not await", encMeshEventName(event(b).evt_type));
    }
  }
  return Ok{};
}

}  // namespace

Status encCheckMeshes(const std::vector<enc_alg_mesh>& meshes) {
  for (size_t member = 1; member < meshes.size(); member++) {
    if (meshes[member].mesh_subtype.size() != meshes[0].mesh_subtype.size()) {
      return fail(ncclInternalError, "member %zu has %zu subtypes: want %zu as member 0", member,
                  meshes[member].mesh_subtype.size(), meshes[0].mesh_subtype.size());
    }
  }
  for (size_t slot = 0; !meshes.empty() && slot < meshes[0].mesh_subtype.size(); slot++) {
    const size_t events = meshes[0].mesh_subtype[slot].events.size();
    for (size_t member = 1; member < meshes.size(); member++) {
      if (meshes[member].mesh_subtype[slot].events.size() == events) continue;
      return fail(ncclInternalError, "subtype %s of member %zu has %zu events: want %zu",
                  meshes[0].mesh_subtype[slot].name.c_str(), member,
                  meshes[member].mesh_subtype[slot].events.size(), events);
    }
    for (size_t number = 0; number < events; number++)
      TRY(checkEvent(meshes, slot, number));
  }
  return Ok{};
}

}  // namespace nccom
