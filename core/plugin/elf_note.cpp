#include "plugin/elf_note.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

namespace megatron::plugin {
namespace {

constexpr std::string_view kOwner{MGT_NOTE_OWNER, sizeof(MGT_NOTE_OWNER)};  // with its NUL
// No linker writes more; a larger size is damage and must not become an allocation.
constexpr uint64_t kLargestNoteSegment = uint64_t{1} << 20;

Status truncated_note(std::string_view cause) {
  return Status::error(Code::data_loss, "truncated plugin note", cause,
                       "copy or build the file again");
}

uint64_t aligned(uint64_t size, uint64_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}

// Keeps what a file says from steering the reader's terminal.
template <size_t N>
void clean(char (&field)[N]) {
  field[N - 1] = '\0';
  const auto end = std::find(field, field + N, '\0');
  std::replace_if(
      field, end, [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  std::fill(end, field + N, '\0');
}

Result<mgt_note_desc> parse_descriptor(std::string_view bytes) {
  mgt_note_desc desc;
  if (bytes.size() < sizeof desc) {
    return truncated_note(
        text("its descriptor has ", bytes.size(), " bytes, the first version has ", sizeof desc));
  }
  std::memcpy(&desc, bytes.data(), sizeof desc);
  clean(desc.name);
  clean(desc.version);
  clean(desc.sdk_version);
  clean(desc.compiler);
  return desc;
}

// Walks the notes of one segment; nullopt when none is ours. Notes are padded to 4 bytes, or to 8
// in segments of that alignment.
std::optional<Result<mgt_note_desc>> find_in_segment(std::string_view segment, uint64_t alignment) {
  Elf64_Nhdr header;
  while (segment.size() >= sizeof header) {
    std::memcpy(&header, segment.data(), sizeof header);
    const uint64_t owner_end = sizeof header + uint64_t{header.n_namesz};
    const uint64_t desc_begin = aligned(owner_end, alignment);
    const uint64_t desc_end = desc_begin + header.n_descsz;
    const bool ours = owner_end <= segment.size() && header.n_type == MGT_NOTE_TYPE &&
                      segment.substr(sizeof header, header.n_namesz) == kOwner;
    if (desc_end > segment.size()) {
      if (!ours) return std::nullopt;
      return truncated_note(text("its descriptor of ", header.n_descsz,
                                 " bytes reaches beyond the segment of ", segment.size()));
    }
    if (ours) return parse_descriptor(segment.substr(desc_begin, header.n_descsz));
    segment.remove_prefix(std::min<uint64_t>(segment.size(), aligned(desc_end, alignment)));
  }
  return std::nullopt;
}

}  // namespace

Result<mgt_note_desc> read_note(const ElfFile& file) {
  for (const auto& segment : file.segments()) {
    if (segment.p_type != PT_NOTE) continue;
    if (segment.p_offset > file.size() || segment.p_filesz > file.size() - segment.p_offset ||
        segment.p_filesz > kLargestNoteSegment) {
      return truncated_note(text("a note segment of ", segment.p_filesz, " bytes begins at byte ",
                                 segment.p_offset, ", the file has ", file.size()));
    }
    MGT_ASSIGN_OR_RETURN(const std::string bytes, file.read(segment.p_offset, segment.p_filesz));
    if (auto found = find_in_segment(bytes, segment.p_align == 8 ? 8 : 4)) return std::move(*found);
  }
  return Status::error(Code::not_found, "not a megatron plugin",
                       text("it has no note '", MGT_NOTE_SECTION, "'"),
                       "build it with megatron_add_plugin() and end its source with "
                       "MEGATRON_PLUGIN");
}

Result<mgt_note_desc> read_note(const std::string& path) {
  MGT_ASSIGN_OR_RETURN(const ElfFile file, ElfFile::open(path));
  return read_note(file);
}

}  // namespace megatron::plugin
