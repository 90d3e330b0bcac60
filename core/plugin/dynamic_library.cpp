#include "plugin/dynamic_library.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <link.h>
#include <signal.h>

#define BOOST_DLL_USE_STD_FS
#include <array>
#include <boost/dll/shared_library.hpp>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <system_error>
#include <vector>

namespace megatron::plugin {
namespace {

constexpr std::string_view kNoFile = ": cannot open shared object file: No such file or directory";
constexpr std::string_view kUndefined = ": undefined symbol: ";

// Where well-known libraries come from; for others the name must do.
struct Provider {
  std::string_view library;  // up to its version
  std::string_view package;
};
constexpr Provider kProviders[] = {
    {"libcuda.so", "the NVIDIA driver"},
    {"libcudart.so", "the CUDA runtime"},
    {"libcublas", "the CUDA toolkit"},
    {"libnvrtc.so", "the CUDA toolkit"},
    {"libcudnn", "cuDNN"},
    {"libnccl.so", "NCCL"},
    {"libucp.so", "UCX"},
    {"libmpi.so", "Open MPI"},
    {"libopenblas.so", "OpenBLAS"},
};

std::string provider_of(std::string_view library) {
  for (const auto& provider : kProviders)
    if (library.starts_with(provider.library)) return std::string(provider.package);
  return text("the package that provides ", library);
}

std::string demangled(const std::string& symbol) {
  int failed = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &failed), &std::free);
  return failed == 0 ? text(name.get(), " (", symbol, ")") : symbol;
}

// dlerror reports and clears; null when there was no error.
std::string last_loader_error() {
  const char* message = ::dlerror();
  return message == nullptr ? "the dynamic loader gave no reason" : message;
}

// Loading a library may run code of its own; some take signals of the process for their debuggers.
// They belong to the host: the destructor gives back what was taken since the constructor.
class SignalKeeper {
 public:
  SignalKeeper() {
    for (int s = 1; s < NSIG; ++s) ::sigaction(s, nullptr, &actions_[static_cast<size_t>(s)]);
  }
  SignalKeeper(const SignalKeeper&) = delete;
  SignalKeeper& operator=(const SignalKeeper&) = delete;
  ~SignalKeeper() {
    for (int s = 1; s < NSIG; ++s) ::sigaction(s, &actions_[static_cast<size_t>(s)], nullptr);
  }

 private:
  std::array<struct sigaction, NSIG> actions_{};
};

// Keeps every library loaded: Boost's objects would close them. Leaked on purpose.
void keep_forever(boost::dll::shared_library library) {
  static auto& libraries = *new std::vector<boost::dll::shared_library>;
  libraries.push_back(std::move(library));
}

}  // namespace

Status missing_library(const MissingLibrary& library, const std::string& plugin) {
  const std::string by =
      library.needed_by == plugin ? "" : text(", which ", library.needed_by, " needs,");
  return Status::error(Code::unavailable, text(library.name, " not found"),
                       text("the dynamic loader finds it", by,
                            " neither by RUNPATH or LD_LIBRARY_PATH nor in the system's folders"),
                       text("install ", provider_of(library.name),
                            ", or add the library's folder to LD_LIBRARY_PATH"));
}

Status explain_loader_error(const std::string& path, std::string message) {
  // glibc begins with the file that it blames: the plugin, or a library beneath it.
  if (message.ends_with(kNoFile)) {
    const std::string library = message.substr(0, message.size() - kNoFile.size());
    if (library != path) return missing_library({library, path}, path);
  }
  if (const size_t at = message.find(kUndefined); at != std::string::npos) {
    std::string symbol = message.substr(at + kUndefined.size());
    symbol = symbol.substr(0, symbol.find_first_of(", \t"));  // ", version X"
    return Status::error(
        Code::failed_precondition, text("undefined symbol ", demangled(symbol)),
        text(message.substr(0, at) == path ? "the plugin" : message.substr(0, at),
             " uses it, and no library that it names defines it"),
        "link the library that defines it: name it under PACKAGES of megatron_add_plugin()");
  }
  if (message.starts_with(path + ": ")) message.erase(0, path.size() + 2);
  return Status::error(Code::failed_precondition, "the dynamic loader rejects the file",
                       text("it says: ", message),
                       "rebuild the plugin on this system, or install what it lacks");
}

Result<DynamicLibrary> DynamicLibrary::load(const std::string& path) {
  MGT_CHECK(path.starts_with('/'), "a relative path would depend on the current directory");
  const SignalKeeper signals;
  boost::dll::shared_library library;
  std::error_code error;  // meaningless (always EBADF); the reason is in dlerror
  library.load(path, error, boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local);
  if (error) return explain_loader_error(path, last_loader_error());
  DynamicLibrary loaded(library.native());
  keep_forever(std::move(library));
  return loaded;
}

Result<void*> DynamicLibrary::own_symbol(const char* name) const {
  const auto missing = [&](std::string_view cause) {
    return Status::error(Code::failed_precondition, text("no entry point '", name, "'"), cause,
                         "end the plugin's source with MEGATRON_PLUGIN(…), outside any namespace");
  };
  ::dlerror();
  void* const address = ::dlsym(handle_, name);
  if (address == nullptr) return missing("the file does not export it");

  // dlsym also looks into the libraries beneath; take only what the plugin itself says.
  link_map *own = nullptr, *definer = nullptr;
  Dl_info info = {};
  if (::dlinfo(handle_, RTLD_DI_LINKMAP, &own) != 0 ||
      ::dladdr1(address, &info, reinterpret_cast<void**>(&definer), RTLD_DL_LINKMAP) == 0) {
    return missing("the dynamic loader cannot tell which file defines it");
  }
  if (own != definer) {
    return missing(text("only a library that the file depends on exports it: ", info.dli_fname));
  }
  return address;
}

}  // namespace megatron::plugin
