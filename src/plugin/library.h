// A shared library as an owned object, and where a plugin's file is looked for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "misc/result.h"

namespace nccom {

/// An open library; closed by the destructor. Whoever uses its code or data keeps it.
class Library {
 public:
  /// `path` as dlopen takes it: a name without '/' is looked for by the loader.
  ///
  /// @error  ncclSystemError  in dlopen's words
  static Result<Library> open(const std::string& path);

  /// The program itself, with the libraries it was started with.
  static Result<Library> program();

  /// Null if there is none.
  void* symbol(const std::string& name) const;

  /// The file it was found in.
  const std::string& path() const { return path_; }

 private:
  struct Closer {
    void operator()(void* handle) const;
  };
  Library(void* handle, const std::string& name);

  std::unique_ptr<void, Closer> handle_;
  std::string path_;
};

struct LibraryName {
  std::string name;                   // as the user gave it
  std::vector<std::string> patterns;  // file names with the place of the name as '*'
  std::string folder;                 // looked into before the loader's path; empty: not
};

/// Opens the library that a name stands for: STATIC_PLUGIN is the program itself; a name with '/'
/// is that file; a name like "lib*.so" is that file, any other each of the patterns; these in
/// `folder` first, then where the loader looks. A file that is in `folder` and cannot be loaded
/// ends the search.
///
/// @error  ncclSystemError  nothing could be loaded; the text has each path tried, and why not
Result<Library> findLibrary(const LibraryName& wanted);

/// The folder of the file that this code is in: plugins are installed beside the library.
std::string ownFolder();

}  // namespace nccom
