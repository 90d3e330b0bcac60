// The stamp of every plugin of the build, what it exports, and files that nobody should trust.
#include "plugin/elf_note.hpp"

#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <random>

#include "base/file.hpp"
#include "folders.hpp"
#include "megatron/abi/plugin.h"
#include "plugin/compatibility.hpp"
#include "plugin/dynamic_section.hpp"
#include "plugin/kind.hpp"
#include "plugin/needed_libraries.hpp"
#include "support/temp_folder.hpp"

namespace megatron::plugin {
namespace {

using test::TempFolder;

template <class T>
T at(std::string_view bytes, size_t offset) {
  T value{};
  MGT_CHECK(offset + sizeof value <= bytes.size());
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// Names that the dynamic loader would offer to others. Read from the section table, which the code
// under test never looks at.
std::vector<std::string> exported_symbols(std::string_view file) {
  std::vector<std::string> names;
  const auto header = at<Elf64_Ehdr>(file, 0);
  const auto section = [&](size_t i) {
    return at<Elf64_Shdr>(file, header.e_shoff + i * sizeof(Elf64_Shdr));
  };
  for (size_t i = 0; i < header.e_shnum; ++i) {
    const auto table = section(i);
    if (table.sh_type != SHT_DYNSYM) continue;
    const auto strings = section(table.sh_link);
    for (size_t s = 0; s < table.sh_size / sizeof(Elf64_Sym); ++s) {
      const auto symbol = at<Elf64_Sym>(file, table.sh_offset + s * sizeof(Elf64_Sym));
      if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_BIND(symbol.st_info) == STB_LOCAL) continue;
      names.emplace_back(file.data() + strings.sh_offset + symbol.st_name);
    }
  }
  return names;
}

class BuiltPlugin : public testing::TestWithParam<Target> {};
INSTANTIATE_TEST_SUITE_P(All, BuiltPlugin, testing::ValuesIn(targets()),
                         [](const auto& row) { return row.param.kind + "_" + row.param.name; });

TEST_P(BuiltPlugin, ExportsOneSymbol) {
  const auto file = read_file(GetParam().path());
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_THAT(exported_symbols(*file), testing::ElementsAre(MGT_PLUGIN_ENTRY));
}

TEST_P(BuiltPlugin, HasANoteThatThisHostAccepts) {
  const auto note = read_note(GetParam().path());
  ASSERT_TRUE(note.ok()) << note.status().message();
  EXPECT_EQ(kind_name(note->kind), GetParam().kind);
  EXPECT_EQ(note->name, GetParam().name);
  EXPECT_NE(std::string(note->version), "");
  EXPECT_NE(std::string(note->compiler), "");
  EXPECT_EQ(note->tier, GetParam().kind == "device" ? MGT_TIER_EXACT : MGT_TIER_STABLE);
  const Status compatible = check_compatibility(*note, this_host());
  EXPECT_TRUE(compatible.ok()) << compatible.message();
}

// ---- one plugin, damaged on purpose

class DamagedFile : public testing::Test {
 protected:
  DamagedFile() {
    std::filesystem::copy(original_, path_);
    bytes_ = read_file(path_).value();
  }
  void write(std::string_view bytes) const {
    const Status written = write_file(path_, bytes);
    MGT_CHECK(written.ok(), written.message());
  }
  std::string message(std::string_view bytes) const {
    write(bytes);
    return std::string(read_note(path_).status().message());
  }
  template <class T>
  std::string with(size_t offset, T value) const {
    return std::string(bytes_).replace(offset, sizeof value, reinterpret_cast<const char*>(&value),
                                       sizeof value);
  }
  size_t note_offset() const {
    const size_t owner = bytes_.find(std::string_view(MGT_NOTE_OWNER, sizeof(MGT_NOTE_OWNER)));
    return owner - offsetof(mgt_note, owner);
  }
  const std::string original_ = kGoodFolder + "/megatron-tokenizer-null.so";
  TempFolder folder_;
  const std::string path_ = folder_ / "plugin.so";
  std::string bytes_;
};

TEST_F(DamagedFile, EachRefusalHasItsReason) {
  EXPECT_EQ(message(bytes_), "");
  EXPECT_EQ(message(""),
            "not an ELF file\n  it is empty\n  fix: name the plugin's .so file, as "
            "megatron_add_plugin() builds it");
  EXPECT_EQ(message("#!/bin/sh\n"),
            "not an ELF file\n  it starts with the bytes 23 21 2f 62\n  fix: name the plugin's .so "
            "file, as megatron_add_plugin() builds it");
  EXPECT_EQ(message(bytes_.substr(0, 40)),
            "truncated ELF file\n  its header needs 64 bytes, it has 40\n  fix: copy or build the "
            "file again");
  EXPECT_THAT(message(bytes_.substr(0, 100)),
              testing::StartsWith("truncated ELF file\n  a table of "));
  EXPECT_THAT(message(bytes_.substr(0, note_offset())),
              testing::StartsWith("truncated ELF file\n  a segment of "));
  EXPECT_EQ(message(with(EI_CLASS, char{1})),
            "not a 64-bit ELF file\n  its class is 1, this host loads class 2 (64 bits)\n  fix: "
            "build the plugin for this machine");
  EXPECT_THAT(message(with(offsetof(Elf64_Ehdr, e_machine), uint16_t{EM_RISCV})),
              testing::StartsWith("built for another machine\n  it is for riscv, this host is "));
  EXPECT_EQ(message(with(offsetof(Elf64_Ehdr, e_type), uint16_t{ET_REL})),
            "not a shared library\n  its ELF type is 1, a shared library has 3\n  fix: build it "
            "with megatron_add_plugin()");
  EXPECT_EQ(message(with(note_offset() + offsetof(mgt_note, owner), 'm')),
            "not a megatron plugin\n  it has no note '.note.megatron'\n  fix: build it with "
            "megatron_add_plugin() and end its source with MEGATRON_PLUGIN");
  EXPECT_EQ(message(with(note_offset() + offsetof(mgt_note, desc_size), uint32_t{8})),
            text("truncated plugin note\n  its descriptor has 8 bytes, the first version has ",
                 sizeof(mgt_note_desc), "\n  fix: copy or build the file again"));
  EXPECT_THAT(message(with(note_offset() + offsetof(mgt_note, desc_size), ~uint32_t{0})),
              testing::StartsWith("truncated plugin note\n  its descriptor of 4294967295 bytes "
                                  "reaches beyond the segment of "));
}

// A terminal must not be steered by a file that is only listed.
TEST_F(DamagedFile, TextsArePrintableAndEnd) {
  const size_t name = note_offset() + offsetof(mgt_note, desc) + offsetof(mgt_note_desc, name);
  std::string bytes = bytes_;
  bytes.replace(name, 48, "\x1b[31mred\n" + std::string(39, 'x'));
  write(bytes);
  const auto note = read_note(path_);
  ASSERT_TRUE(note.ok()) << note.status().message();
  EXPECT_EQ(note->name, "?[31mred?" + std::string(38, 'x'));
}

// Random damage where it hurts most: headers and note. Any answer is right that is an answer; the
// sanitizers of the dev preset watch. The seed is fixed and each iteration starts from the
// original.
TEST_F(DamagedFile, RandomDamageIsAnErrorOrANote) {
  std::mt19937_64 random(4711);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const size_t headers =
      sizeof(Elf64_Ehdr) + at<Elf64_Ehdr>(bytes_, 0).e_phnum * sizeof(Elf64_Phdr);
  const LoaderEnvironment environment = system_loader_environment();
  int accepted = 0, refused = 0;
  const FileDescriptor file(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
  const auto put = [&](std::string_view bytes, size_t offset) {
    const auto size = static_cast<ssize_t>(bytes.size());
    MGT_CHECK(::pwrite(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)) == size);
  };
  for (int i = 0; i < 4000; ++i) {
    struct Edit {
      size_t offset, size;
    };
    std::vector<Edit> edits;
    for (size_t n = 1 + below(3); n > 0; --n) {
      const size_t where = below(4);
      size_t offset = where < 2    ? below(headers)
                      : where == 2 ? note_offset() + below(sizeof(mgt_note))
                                   : below(bytes_.size());
      const size_t size = size_t{1} << below(4);
      offset = std::min(offset, bytes_.size() - size);
      uint64_t value = random();
      if (below(3) == 0) value = below(2) == 0 ? 0 : ~uint64_t{0};
      if (below(3) == 0) value = below(bytes_.size() * 2);
      put({reinterpret_cast<const char*>(&value), size}, offset);
      edits.push_back({offset, size});
    }
    if (i % 8 == 0) {
      const size_t cut = below(2) == 0 ? below(headers + 64) : below(bytes_.size());
      MGT_CHECK(::ftruncate(file.get(), static_cast<off_t>(cut)) == 0);
    }
    const auto note = read_note(path_);
    ++(note.ok() ? accepted : refused);
    if (note.ok()) {
      EXPECT_LT(std::strlen(note->name), sizeof note->name);
      EXPECT_LE(check_compatibility(*note, this_host()).message().size(), 4096u);
    } else {
      EXPECT_THAT(std::string(note.status().message()), testing::HasSubstr("\n  fix: ")) << i;
    }
    if (const auto elf = ElfFile::open(path_); elf.ok())
      static_cast<void>(read_dynamic_section(*elf));
    static_cast<void>(find_missing_library(path_, environment));
    if (i % 8 == 0) put(bytes_, 0);
    for (const Edit& e : edits) put(std::string_view(bytes_).substr(e.offset, e.size), e.offset);
  }
  EXPECT_GT(accepted, 400);
  EXPECT_GT(refused, 400);
  EXPECT_TRUE(read_file(path_).value() == bytes_) << "an edit was not taken back";
}

}  // namespace
}  // namespace megatron::plugin
