// A shared library in this process, loaded once and never unloaded: threads, thread-local
// destructors and tables of a plugin may outlive any object of the host. The only user of
// Boost.DLL.
#pragma once

#include <string>

#include "megatron/status.hpp"
#include "plugin/needed_libraries.hpp"

namespace megatron::plugin {

class DynamicLibrary {
 public:
  // Resolves every symbol now and shows none to other libraries (RTLD_NOW | RTLD_LOCAL). `path`
  // must be absolute. The error's three lines leave out the path.
  static Result<DynamicLibrary> load(const std::string& path);

  // Address of what this very file exports; a symbol that only a library beneath it defines does
  // not count.
  Result<void*> own_symbol(const char* name) const;

 private:
  explicit DynamicLibrary(void* handle) : handle_(handle) {}
  void* handle_;
};

// "libcuda.so.1 not found" with its cause and what to install, without the plugin's path.
Status missing_library(const MissingLibrary& library, const std::string& plugin);

// The loader's own words about the file at `path`, as fact, cause and action.
Status explain_loader_error(const std::string& path, std::string message);

}  // namespace megatron::plugin
