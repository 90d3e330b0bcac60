#include "plugin/loader_cache.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/file.hpp"

namespace megatron::plugin {
namespace {

constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";
constexpr std::string_view kOldMagic = "ld.so-1.7.0";

// Layouts of glibc's sysdeps/generic/dl-cache.h.
struct Header {
  char magic[20];
  uint32_t entry_count;
  uint32_t strings_size;
  uint32_t unused[5];
};
static_assert(sizeof(Header) == 48);

struct Entry {
  int32_t flags;
  uint32_t name;  // both: offset of a NUL-terminated text from the header
  uint32_t path;
  uint32_t os_version;
  uint64_t hardware;
};
static_assert(sizeof(Entry) == 24);

struct OldHeader {
  char magic[12];
  uint32_t entry_count;
};
constexpr size_t kOldEntrySize = 12;

std::string_view text_at(std::string_view bytes, uint32_t offset) {
  if (offset >= bytes.size()) return {};
  bytes.remove_prefix(offset);
  const size_t end = bytes.find('\0');
  return end == std::string_view::npos ? std::string_view() : bytes.substr(0, end);
}

// The part in the newer format, which lies behind the older table, aligned to 8 bytes.
std::string_view newer_part(std::string_view bytes) {
  OldHeader old;
  if (!bytes.starts_with(kOldMagic) || bytes.size() < sizeof old) return bytes;
  std::memcpy(&old, bytes.data(), sizeof old);
  const uint64_t end = sizeof old + uint64_t{old.entry_count} * kOldEntrySize;
  return bytes.substr(std::min<uint64_t>(bytes.size(), (end + 7) / 8 * 8));
}

}  // namespace

LoaderCache parse_loader_cache(std::string_view bytes) {
  LoaderCache cache;
  bytes = newer_part(bytes);
  Header header;
  if (!bytes.starts_with(kMagic) || bytes.size() < sizeof header) return cache;
  std::memcpy(&header, bytes.data(), sizeof header);
  std::string_view table = bytes.substr(sizeof header);
  Entry entry;
  for (uint32_t i = 0; i < header.entry_count && table.size() >= sizeof entry; ++i) {
    std::memcpy(&entry, table.data(), sizeof entry);
    table.remove_prefix(sizeof entry);
    const auto name = text_at(bytes, entry.name), path = text_at(bytes, entry.path);
    if (!name.empty() && !path.empty()) cache[std::string(name)].emplace_back(path);
  }
  return cache;
}

LoaderCache read_loader_cache(const std::string& path) {
  const auto bytes = read_file(path);
  return bytes.ok() ? parse_loader_cache(*bytes) : LoaderCache();
}

}  // namespace megatron::plugin
