#include "shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace megatron::ucx {
namespace {

constexpr size_t kPage = 4096;

Status refused(std::string_view what, size_t bytes, int error) {
  return Status::error(
      Code::resource_exhausted, text("cannot ", what, " ", bytes, " bytes of shared memory"),
      text("the system says: ", std::strerror(error)), detail::action_of_errno(error));
}

// A page fault costs more than reducing the page: take all of them at once. Older kernels lack
// MADV_POPULATE_WRITE; there the pages are touched.
void populate(std::byte* data, size_t bytes) {
#ifdef MADV_HUGEPAGE
  ::madvise(data, bytes, MADV_HUGEPAGE);  // advice: most systems keep shared memory in small pages
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
  if (::madvise(data, bytes, MADV_POPULATE_WRITE) == 0) return;
  for (size_t at = 0; at < bytes; at += kPage) {
    static_cast<void>(*static_cast<volatile std::byte*>(data + at));
  }
}

}  // namespace

Result<SharedMemory> SharedMemory::create(const char* label, size_t bytes, Pages pages) {
  SharedMemory memory;
  const size_t size = (bytes + kPage - 1) / kPage * kPage;
  memory.fd_ = FileDescriptor(::memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (memory.fd_.get() < 0) return refused("create", size, errno);
  if (::ftruncate(memory.fd_.get(), static_cast<off_t>(size)) != 0)
    return refused("reserve", size, errno);
  // A mapped file that shrinks kills its readers.
  ::fcntl(memory.fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return map(std::move(memory.fd_), size, pages);
}

Result<SharedMemory> SharedMemory::map(FileDescriptor fd, size_t bytes, Pages pages) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return refused("inspect", bytes, errno);
  if (static_cast<size_t>(info.st_size) < bytes) {
    return Status::error(
        Code::data_loss,
        text("shared memory of another rank has ", static_cast<int64_t>(info.st_size),
             " bytes where ", bytes, " were expected"),
        "ranks disagree on a size", "start all ranks with the same manifest");
  }
  SharedMemory memory;
  memory.size_ = bytes;
  if (bytes > 0) {
    void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (data == MAP_FAILED) return refused("map", bytes, errno);
    memory.data_ = static_cast<std::byte*>(data);
    if (pages == Pages::now) populate(memory.data_, bytes);
  }
  memory.fd_ = std::move(fd);
  return memory;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace megatron::ucx
