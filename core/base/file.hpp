// Whole files in and out. Large or mapped files: megatron/file.hpp of the sdk.
#pragma once

#include <string>
#include <string_view>

#include "megatron/status.hpp"

namespace megatron {

// All bytes of a file, also of /proc. Not of a device or a pipe, which may have no end.
Result<std::string> read_file(const std::string& path);

// The file holds either its old content or all of `bytes`, also after a power cut: temporary file
// in the same folder, fsync, rename, fsync of the folder.
Status write_file(const std::string& path, std::string_view bytes);

// What the system refused, as fact, cause and action: "cannot open PATH".
Status errno_status(std::string_view what, std::string_view path, int error);

// The path from "/", without ".", ".." and a "/" at the end; relative ones start at `folder`, by
// default the current directory. An empty path stays empty.
std::string absolute_path(std::string_view path, std::string_view folder = {});

}  // namespace megatron
