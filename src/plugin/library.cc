#include "plugin/library.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <utility>

namespace nccom {
namespace {

std::string dlerrorText() {
  const char* text = dlerror();
  return text != nullptr ? text : "no reason given";
}

/// The names of the file, without a folder.
std::vector<std::string> fileNames(const LibraryName& wanted) {
  if (wanted.name.starts_with("lib") && wanted.name.ends_with(".so")) return {wanted.name};
  std::vector<std::string> out;
  for (std::string pattern : wanted.patterns) {
    out.push_back(pattern.replace(pattern.find('*'), 1, wanted.name));
  }
  return out;
}

}  // namespace

void Library::Closer::operator()(void* handle) const {
  dlclose(handle);
}

Library::Library(void* handle, const std::string& name) : handle_(handle), path_(name) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name[0] != '\0') {
    path_ = map->l_name;
  }
}

Result<Library> Library::open(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return fail(ncclSystemError, "%s", dlerrorText().c_str());
  return Library(handle, path);
}

Result<Library> Library::program() {
  void* handle = dlopen(nullptr, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return fail(ncclSystemError, "%s", dlerrorText().c_str());
  return Library(handle, "the program itself");
}

void* Library::symbol(const std::string& name) const {
  return dlsym(handle_.get(), name.c_str());
}

Result<Library> findLibrary(const LibraryName& wanted) {
  if (wanted.name == "STATIC_PLUGIN") return Library::program();
  if (wanted.name.find('/') != std::string::npos) return Library::open(wanted.name);
  const std::vector<std::string> names = fileNames(wanted);
  std::string tried;
  const auto remember = [&tried](const std::string& why) {
    tried += (tried.empty() ? "" : "; ") + why;
  };
  for (const std::string& name : names) {
    if (wanted.folder.empty()) break;
    const std::string path = wanted.folder + "/" + name;
    if (access(path.c_str(), F_OK) == 0) return Library::open(path);
    remember(path + ": no such file");
  }
  for (const std::string& name : names) {
    Result<Library> library = Library::open(name);
    if (library.ok()) return library;
    remember(library.error().message);
  }
  return fail(ncclSystemError, "%s", tried.c_str());
}

std::string ownFolder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&ownFolder), &info) == 0 || info.dli_fname == nullptr) {
    return {};
  }
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

}  // namespace nccom
