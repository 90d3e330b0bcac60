#include "plugin/elf_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

namespace megatron::plugin {
namespace {

#if defined(__x86_64__)
constexpr uint16_t kHostMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kHostMachine = EM_AARCH64;
#elif defined(__powerpc64__)
constexpr uint16_t kHostMachine = EM_PPC64;
#elif defined(__riscv)
constexpr uint16_t kHostMachine = EM_RISCV;
#else
#error "name this machine's ELF number here"
#endif
constexpr unsigned char kHostByteOrder =
    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
// Longer reads mean a damaged size field: real tables of a plugin have some kilobytes.
constexpr uint64_t kLongestRead = uint64_t{64} << 20;

constexpr std::string_view kCopyAgain = "copy or build the file again";
constexpr std::string_view kRebuildHere = "build the plugin for this machine";

Status truncated(std::string_view cause) {
  return Status::error(Code::data_loss, "truncated ELF file", cause, kCopyAgain);
}

std::string hex_bytes(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (!out.empty()) out += ' ';
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

}  // namespace

std::string machine_name(uint16_t machine) {
  switch (machine) {
    case EM_386:
      return "x86 (32 bits)";
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "aarch64";
    case EM_PPC64:
      return "ppc64";
    case EM_RISCV:
      return "riscv";
    default:
      return text("machine ", machine);
  }
}

Result<ElfFile> ElfFile::open(const std::string& path) {
  // O_NONBLOCK: a FIFO by that name must not stop the scan.
  ElfFile file{megatron::FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK))};
  struct stat info = {};
  if (file.fd_.get() < 0 || ::fstat(file.fd_.get(), &info) != 0) {
    const int error = errno;
    return Status::error(
        megatron::detail::code_of_errno(error), "the file cannot be opened",
        text("the system says: ", std::strerror(error)),
        error == EACCES ? "change the file's permissions" : "correct the path, or build the file");
  }
  if (!S_ISREG(info.st_mode)) {
    return Status::error(Code::invalid_argument, "not a file", "it is a folder, a device or a pipe",
                         "name the plugin's .so file");
  }
  file.size_ = static_cast<uint64_t>(info.st_size);
  MGT_RETURN_IF_ERROR(file.read_header());
  return file;
}

Status ElfFile::read_header() {
  const uint64_t first_size = std::min<uint64_t>(size_, SELFMAG);
  MGT_ASSIGN_OR_RETURN(const std::string magic, read(0, first_size));
  if (magic != ELFMAG) {
    return Status::error(
        Code::invalid_argument, "not an ELF file",
        magic.empty() ? "it is empty" : text("it starts with the bytes ", hex_bytes(magic)),
        "name the plugin's .so file, as megatron_add_plugin() builds it");
  }
  if (size_ < sizeof(Elf64_Ehdr)) {
    return truncated(text("its header needs ", sizeof(Elf64_Ehdr), " bytes, it has ", size_));
  }
  MGT_ASSIGN_OR_RETURN(const std::string bytes, read(0, sizeof(Elf64_Ehdr)));
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);

  if (header.e_ident[EI_CLASS] != ELFCLASS64) {
    return Status::error(Code::invalid_argument, "not a 64-bit ELF file",
                         text("its class is ", static_cast<unsigned>(header.e_ident[EI_CLASS]),
                              ", this host loads class 2 (64 bits)"),
                         kRebuildHere);
  }
  if (header.e_ident[EI_DATA] != kHostByteOrder || header.e_machine != kHostMachine) {
    return Status::error(
        Code::invalid_argument, "built for another machine",
        text("it is for ",
             header.e_ident[EI_DATA] != kHostByteOrder ? "the other byte order"
                                                       : machine_name(header.e_machine),
             ", this host is ", machine_name(kHostMachine)),
        kRebuildHere);
  }
  if (header.e_type != ET_DYN) {
    return Status::error(Code::invalid_argument, "not a shared library",
                         text("its ELF type is ", header.e_type, ", a shared library has ", ET_DYN),
                         "build it with megatron_add_plugin()");
  }
  return read_segments(header);
}

Status ElfFile::read_segments(const Elf64_Ehdr& header) {
  if (header.e_phnum == 0 || header.e_phentsize != sizeof(Elf64_Phdr)) {
    return Status::error(
        Code::data_loss, "damaged ELF file",
        text("it has ", header.e_phnum, " program headers of ", header.e_phentsize, " bytes each"),
        kCopyAgain);
  }
  auto bytes = read(header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr));
  if (!bytes.ok()) return std::move(bytes).status();
  segments_.resize(header.e_phnum);
  std::memcpy(segments_.data(), bytes->data(), bytes->size());
  for (const auto& segment : segments_) {
    if (segment.p_type != PT_LOAD) continue;
    if (segment.p_offset > size_ || segment.p_filesz > size_ - segment.p_offset) {
      return truncated(text("a segment of ", segment.p_filesz, " bytes begins at byte ",
                            segment.p_offset, ", the file has ", size_));
    }
  }
  return {};
}

Result<std::string> ElfFile::read(uint64_t offset, uint64_t size) const {
  if (offset > size_ || size > size_ - offset || size > kLongestRead) {
    return truncated(
        text("a table of ", size, " bytes begins at byte ", offset, ", the file has ", size_));
  }
  std::string bytes(size, '\0');
  for (uint64_t done = 0; done < size;) {
    const ssize_t n =
        ::pread(fd_.get(), bytes.data() + done, size - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return Status::error(Code::data_loss, "the file cannot be read",
                           text("the system says: ", std::strerror(errno)), kCopyAgain);
    }
    if (n == 0) return truncated(text("the file became shorter than ", size_, " bytes"));
    done += static_cast<uint64_t>(n);
  }
  return bytes;
}

Result<std::string> ElfFile::read_at_address(uint64_t address, uint64_t size) const {
  for (const auto& segment : segments_) {
    if (segment.p_type != PT_LOAD || address < segment.p_vaddr) continue;
    const uint64_t inside = address - segment.p_vaddr;
    if (inside > segment.p_filesz || size > segment.p_filesz - inside) continue;
    return read(segment.p_offset + inside, size);
  }
  return Status::error(Code::data_loss, "damaged ELF file",
                       text("no segment holds the ", size, " bytes at address ", address),
                       kCopyAgain);
}

}  // namespace megatron::plugin
