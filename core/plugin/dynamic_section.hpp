// What a shared library asks of the dynamic loader, read without loading it.
#pragma once

#include <string>
#include <vector>

#include "megatron/status.hpp"
#include "plugin/elf_file.hpp"

namespace megatron::plugin {

struct DynamicSection {
  std::vector<std::string> needed;  // DT_NEEDED, in order
  std::string rpath;                // DT_RPATH; the loader ignores it beside a RUNPATH
  std::string runpath;              // DT_RUNPATH
  bool no_default_folders = false;  // DF_1_NODEFLIB
};

Result<DynamicSection> read_dynamic_section(const ElfFile& file);

}  // namespace megatron::plugin
