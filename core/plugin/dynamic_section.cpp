#include "plugin/dynamic_section.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace megatron::plugin {
namespace {

// The NUL-terminated string at `offset` of the table; empty beyond its end.
std::string string_at(std::string_view table, uint64_t offset) {
  if (offset >= table.size()) return {};
  table.remove_prefix(offset);
  return std::string(table.substr(0, std::min(table.find('\0'), table.size())));
}

std::vector<Elf64_Dyn> parse_entries(std::string_view bytes) {
  std::vector<Elf64_Dyn> entries;
  Elf64_Dyn entry;
  for (; bytes.size() >= sizeof entry; bytes.remove_prefix(sizeof entry)) {
    std::memcpy(&entry, bytes.data(), sizeof entry);
    if (entry.d_tag == DT_NULL) break;
    entries.push_back(entry);
  }
  return entries;
}

}  // namespace

Result<DynamicSection> read_dynamic_section(const ElfFile& file) {
  const auto segment = std::find_if(file.segments().begin(), file.segments().end(),
                                    [](const Elf64_Phdr& s) { return s.p_type == PT_DYNAMIC; });
  if (segment == file.segments().end()) {
    return Status::error(Code::data_loss, "damaged ELF file", "it has no dynamic section",
                         "build the file again");
  }
  MGT_ASSIGN_OR_RETURN(const std::string bytes, file.read(segment->p_offset, segment->p_filesz));
  const auto entries = parse_entries(bytes);

  uint64_t strings_address = 0, strings_size = 0;
  for (const auto& e : entries) {
    if (e.d_tag == DT_STRTAB) strings_address = e.d_un.d_ptr;
    if (e.d_tag == DT_STRSZ) strings_size = e.d_un.d_val;
  }
  MGT_ASSIGN_OR_RETURN(const std::string strings,
                       file.read_at_address(strings_address, strings_size));

  DynamicSection section;
  for (const auto& e : entries) {
    if (e.d_tag == DT_NEEDED) section.needed.push_back(string_at(strings, e.d_un.d_val));
    if (e.d_tag == DT_RPATH) section.rpath = string_at(strings, e.d_un.d_val);
    if (e.d_tag == DT_RUNPATH) section.runpath = string_at(strings, e.d_un.d_val);
    if (e.d_tag == DT_FLAGS_1) section.no_default_folders = (e.d_un.d_val & DF_1_NODEFLIB) != 0;
  }
  return section;
}

}  // namespace megatron::plugin
