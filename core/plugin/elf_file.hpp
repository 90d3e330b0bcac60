// Reads an ELF file that nobody trusts: every offset is checked and nothing is mapped, so a damaged
// file or one that shrinks while we read gives an error, never a fault.
#pragma once

#include <elf.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "megatron/file.hpp"
#include "megatron/status.hpp"

namespace megatron::plugin {

class ElfFile {
 public:
  // Accepts shared libraries for this machine whose segments lie inside the file: a truncated one
  // would raise SIGBUS in dlopen. The error's three lines leave out the path; the caller names it.
  static Result<ElfFile> open(const std::string& path);

  const std::vector<Elf64_Phdr>& segments() const { return segments_; }
  uint64_t size() const { return size_; }

  // `size` bytes from `offset`; an error when the file ends before.
  Result<std::string> read(uint64_t offset, uint64_t size) const;
  // The same by the address that the bytes have once they are loaded.
  Result<std::string> read_at_address(uint64_t address, uint64_t size) const;

 private:
  explicit ElfFile(megatron::FileDescriptor fd) : fd_(std::move(fd)) {}
  Status read_header();
  Status read_segments(const Elf64_Ehdr& header);

  megatron::FileDescriptor fd_;
  uint64_t size_ = 0;
  std::vector<Elf64_Phdr> segments_;
};

// "x86-64" for EM_X86_64, …; "machine 4711" for what we have no name for.
std::string machine_name(uint16_t machine);

}  // namespace megatron::plugin
