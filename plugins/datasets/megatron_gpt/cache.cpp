#include "cache.hpp"

#define XXH_INLINE_ALL
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <new>

#include "megatron/file.hpp"

namespace megatron::gpt {
namespace {

constexpr char kMagic[8] = {'M', 'G', 'T', 'G', 'P', 'T', 'I', 'X'};
constexpr uint32_t kVersion = 1;  // of the layout and of the building rules: part of the key too

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t reserved;
  char key[32];
  struct {
    uint64_t bytes;
    uint64_t width;
  } columns[4];
  uint64_t checksum;  // of the header up to here and of all columns, paddings left out
};
static_assert(sizeof(Header) == 120);

constexpr size_t padding(size_t bytes) { return (8 - bytes % 8) % 8; }

std::array<const Column*, 4> columns_of(const GptIndex& index) {
  return {&index.documents, &index.start_document, &index.start_offset, &index.shuffle};
}

uint64_t checksum(const Header& header, const std::array<std::span<const std::byte>, 4>& columns) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, &header, offsetof(Header, checksum));
  for (const auto& c : columns) XXH3_64bits_update(&state, c.data(), c.size());
  return XXH3_64bits_digest(&state);
}

Status damaged(const std::string& path, std::string_view cause) {
  return Status::error(Code::data_loss, text(path, ": damaged index cache"), cause,
                       "none needed; delete the file if this is said again");
}

// Sizes must agree with each other, or a reader would leave a column.
bool consistent(const Header& h, uint64_t file_size) {
  uint64_t at = sizeof(Header);
  for (const auto& c : h.columns) {
    if ((c.width != 4 && c.width != 8) || c.bytes % c.width != 0 || c.bytes > file_size)
      return false;
    at += c.bytes + padding(c.bytes);
  }
  const auto rows = [&](int i) { return h.columns[i].bytes / h.columns[i].width; };
  return at == file_size && rows(1) == rows(2) && rows(1) == rows(3) + 1;
}

Status too_large(const IndexPlan& plan, std::string_view cause) {
  return Status::error(Code::resource_exhausted,
                       text("an index of ", plan.samples, " samples takes ",
                            index_bytes(plan) / 1'000'000, " MB of memory; the split's ",
                            plan.tokens_per_epoch, " tokens repeat ", plan.epochs, " times in it"),
                       cause, "lower the iterations or the batch size, or use more data");
}

Result<GptIndex> build_in_memory(const IndexPlan& plan, Lengths lengths) {
  const int64_t memory = int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  if (index_bytes(plan) > memory)
    return too_large(plan, text("this machine has ", memory / 1'000'000, " MB"));
  try {
    return build_index(plan, lengths);
  } catch (const std::bad_alloc&) {
    return too_large(plan, "that much is not free");
  }
}

}  // namespace

std::string index_key(const IndexPlan& plan, Lengths lengths) {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  const std::string numbers =
      text("megatron_gpt ", kVersion, " first=", plan.range.first, " count=", plan.range.count,
           " epochs=", plan.epochs, " samples=", plan.samples, " sequence=", plan.sequence_length,
           " extra=", plan.extra, " separate=", plan.separate_last,
           " before=", plan.samples_before_last, " seed=", plan.seed);
  XXH3_128bits_update(&state, numbers.data(), numbers.size());
  const auto range = lengths.bytes(plan.range.first, plan.range.count);
  XXH3_128bits_update(&state, range.data(), range.size());
  const auto digest = XXH3_128bits_digest(&state);
  char key[33];
  std::snprintf(key, sizeof key, "%016llx%016llx", static_cast<unsigned long long>(digest.high64),
                static_cast<unsigned long long>(digest.low64));
  return key;
}

Result<GptIndex> load_index(const std::string& path, const std::string& key) {
  MGT_ASSIGN_OR_RETURN(auto mapped, MappedFile::open(path));
  const auto file = std::make_shared<const MappedFile>(std::move(mapped));
  const auto bytes = file->bytes();
  if (bytes.size() < sizeof(Header)) return damaged(path, "it ends inside its header");
  const auto header = file->load<Header>(0);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0)
    return damaged(path, "it does not start with MGTGPTIX");
  if (header.version != kVersion)
    return damaged(path, text("its version is ", header.version, ", not ", kVersion));
  if (std::string_view(header.key, sizeof header.key) != key)
    return damaged(path, "it describes other data than its name says");
  if (!consistent(header, bytes.size())) {
    return damaged(path, text("its ", bytes.size(), " bytes do not fit the sizes in its header"));
  }
  std::array<std::span<const std::byte>, 4> columns;
  size_t at = sizeof(Header);
  for (size_t i = 0; i < columns.size(); ++i) {
    columns[i] = bytes.subspan(at, header.columns[i].bytes);
    at += columns[i].size() + padding(columns[i].size());
  }
  if (checksum(header, columns) != header.checksum) return damaged(path, "its checksum is wrong");
  const auto column = [&](size_t i) {
    return Column(columns[i], static_cast<uint32_t>(header.columns[i].width), file);
  };
  return GptIndex{column(0), column(1), column(2), column(3)};
}

Status store_index(const std::string& path, const std::string& key, const GptIndex& index) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  MGT_CHECK(key.size() == sizeof header.key);
  std::memcpy(header.key, key.data(), key.size());
  std::array<std::span<const std::byte>, 4> columns;
  for (size_t i = 0; i < columns.size(); ++i) {
    columns[i] = columns_of(index)[i]->bytes();
    header.columns[i] = {columns[i].size(), columns_of(index)[i]->width()};
  }
  header.checksum = checksum(header, columns);

  MGT_ASSIGN_OR_RETURN(auto file, PendingFile::create(path));
  MGT_RETURN_IF_ERROR(file.write_value(header));
  for (const auto& column : columns) {
    constexpr std::array<std::byte, 8> kZeros{};
    MGT_RETURN_IF_ERROR(file.write(column));
    MGT_RETURN_IF_ERROR(file.write(std::span(kZeros).first(padding(column.size()))));
  }
  return file.commit();
}

std::string IndexCache::path_of(const std::string& key) const {
  return text(folder_, "/", key, ".gptindex");
}

Result<GptIndex> IndexCache::get(const IndexPlan& plan, Lengths lengths) const {
  const auto key = index_key(plan, lengths);
  const auto path = path_of(key);
  auto loaded = load_index(path, key);
  if (loaded.ok()) return loaded;
  if (loaded.status().code() != Code::not_found)
    host_.warning(text(loaded.status().message(), "\n  the index is built again"));

  MGT_ASSIGN_OR_RETURN(GptIndex index, build_in_memory(plan, lengths));
  std::error_code ignored;  // store_index says what is wrong with the folder
  std::filesystem::create_directories(folder_, ignored);
  if (const auto stored = store_index(path, key, index); !stored.ok()) {
    host_.warning(text(stored.message(), "\n  the index is kept in memory only"));
  }
  return index;
}

}  // namespace megatron::gpt
