// The stamp of a plugin, read from its ELF note without loading the file: no foreign code runs
// before the host knows what the file is (megatron/abi/note.h).
#pragma once

#include <string>

#include "megatron/abi/note.h"
#include "megatron/status.hpp"
#include "plugin/elf_file.hpp"

namespace megatron::plugin {

// The fields that this host knows; texts hold printable ASCII only and end in NUL. Errors: no note
// (NOT_FOUND), truncated note (DATA_LOSS). Their three lines leave out the path.
Result<mgt_note_desc> read_note(const ElfFile& file);

// The same with the file's own errors: not an ELF file, another machine, truncated, ….
Result<mgt_note_desc> read_note(const std::string& path);

}  // namespace megatron::plugin
