// The loader's search for libraries, answered without loading: it must agree with dlopen.
#include "plugin/needed_libraries.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "folders.hpp"
#include "support/temp_folder.hpp"

namespace megatron::plugin {
namespace {

const std::string kNeedy = kBadFolder + "/megatron-optimizer-library_absent.so";

TEST(NeededLibraries, EveryPluginOfTheBuildHasThemAll) {
  const LoaderEnvironment environment = system_loader_environment();
  for (const Target& target : targets()) {
    const auto missing = find_missing_library(target.path(), environment);
    EXPECT_FALSE(missing.has_value()) << target.path() << " needs " << missing->name;
  }
}

TEST(NeededLibraries, AnAbsentOneIsNamed) {
  const auto missing = find_missing_library(kNeedy, system_loader_environment());
  ASSERT_TRUE(missing.has_value());
  EXPECT_EQ(missing->name, "libmegatron_absent.so.1");
  EXPECT_EQ(missing->needed_by, kNeedy);
  EXPECT_EQ(::dlopen(kNeedy.c_str(), RTLD_NOW | RTLD_LOCAL), nullptr);
}

TEST(NeededLibraries, AnyOfTheLoadersPlacesWillDo) {
  const std::string place = kBadFolder + "/absent";
  const LoaderEnvironment nothing = system_loader_environment();
  LoaderEnvironment path = nothing, folder = nothing, cache = nothing, loaded = nothing;
  path.library_path = {"/nowhere", place};
  folder.default_folders = {place};
  for (const auto& usual : nothing.default_folders) folder.default_folders.push_back(usual);
  cache.cache["libmegatron_absent.so.1"] = {place + "/libmegatron_absent.so.1"};
  loaded.loaded.insert("libmegatron_absent.so.1");
  for (const LoaderEnvironment* environment : {&path, &folder, &cache, &loaded})
    EXPECT_FALSE(find_missing_library(kNeedy, *environment).has_value());
}

// The loader passes over a file that is no library of this machine.
TEST(NeededLibraries, AFileOfThatNameIsNotEnough) {
  const test::TempFolder folder;
  std::filesystem::copy("/proc/self/cmdline", folder / "libmegatron_absent.so.1");
  LoaderEnvironment environment = system_loader_environment();
  environment.library_path = {folder.path()};
  EXPECT_TRUE(find_missing_library(kNeedy, environment).has_value());
}

}  // namespace
}  // namespace megatron::plugin
