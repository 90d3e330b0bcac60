#include "checkpoint/checkpoint.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "base/hash.hpp"
#include "megatron/file.hpp"

namespace megatron::checkpoint {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr std::string_view kTracker = "latest_checkpointed_iteration.txt";
constexpr std::string_view kPrefix = "iter_";
constexpr std::string_view kManifest = "manifest.json";
constexpr const char* kOwnHash = "manifest_xxh3_128";
constexpr std::string_view kFiles[] = {"model.safetensors", "optimizer.safetensors", "config.toml"};

std::string folder_name(int64_t iteration) {
  std::string digits = std::to_string(iteration);
  if (digits.size() < 7) digits.insert(0, 7 - digits.size(), '0');
  return text(kPrefix, digits);
}

Status system_error(std::string_view what, const std::string& path, const std::error_code& error) {
  return errno_status(what, path, error.value());
}

// Of the last part of a path; none when it is no checkpoint's name.
std::optional<int64_t> iteration_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t iteration = 0;
  const char* end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + kPrefix.size(), end, iteration);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return iteration;
}

// Iterations of the folders below `directory`, newest first; none when it does not exist.
Result<std::vector<int64_t>> iterations(const std::string& directory) {
  std::vector<int64_t> out;
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  if (error == std::errc::no_such_file_or_directory) return out;
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (const auto iteration = iteration_of(entry->path())) out.push_back(*iteration);
  }
  if (error) return system_error("read", directory, error);
  std::sort(out.rbegin(), out.rend());
  return out;
}

Status sync_folder(const std::string& path) {
  const FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) return errno_status("open", path, errno);
  return ::fsync(folder.get()) == 0 ? Status() : errno_status("write", path, errno);
}

Status remove_folder(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? system_error("remove", path, error) : Status();
}
Status rename_folder(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  return error ? system_error("rename", from, error) : Status();
}

// Checksum of a manifest without its own entry, in one spelling.
std::string own_hash(Json manifest) {
  manifest.erase(kOwnHash);
  return hash_hex(manifest.dump());
}

// Gives the complete folder its name. A run that was resumed from before this iteration writes it
// again: the two change places at once, so that there is one under the name at any moment.
Status move_into_place(const std::string& staging, const std::string& folder,
                       const CheckpointWriter::Warn& warn) {
  if (::renameat2(AT_FDCWD, staging.c_str(), AT_FDCWD, folder.c_str(), RENAME_NOREPLACE) == 0)
    return {};
  std::string replaced = staging;
  if (::renameat2(AT_FDCWD, staging.c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE) != 0) {
    // A file system that can do neither: for a moment only the folder ".replaced" is complete.
    replaced = folder + ".replaced";
    MGT_RETURN_IF_ERROR(remove_folder(replaced));
    std::error_code error;
    const bool again = fs::exists(folder, error);
    if (error) return system_error("inspect", folder, error);
    if (again) MGT_RETURN_IF_ERROR(rename_folder(folder, replaced));
    MGT_RETURN_IF_ERROR(rename_folder(staging, folder));
  }
  if (const Status status = remove_folder(replaced); !status.ok()) warn(status.message());
  return {};
}

// A checkpoint that is not sound: why, and that an older one may be.
Status unsound(const std::string& folder, std::string_view cause) {
  return Status::error(Code::data_loss, text("checkpoint '", folder, "' is incomplete or damaged"),
                       cause, "resume from an older checkpoint of the run");
}

constexpr std::string_view kOtherModel = "it was written by another model or another optimizer";
constexpr std::string_view kUseItsModel =
    "load it with the model and optimizer that its config.toml names";

Result<TensorReader> find_tensor(const SafetensorsReader& reader, const std::string& folder,
                                 std::string_view name, const std::vector<int64_t>& shape) {
  const auto it = reader.tensors().find(name);
  const auto type = [](DType dtype, const std::vector<int64_t>& dims) {
    std::string s;
    for (const int64_t d : dims) s += text(s.empty() ? "" : ", ", d);
    return text(dtype_name(dtype), "[", s, "]");
  };
  if (it == reader.tensors().end()) {
    return Status::error(Code::not_found,
                         text("checkpoint '", folder, "' has no tensor '", name, "'"), kOtherModel,
                         kUseItsModel);
  }
  if (it->second.dtype != DType::f32 || it->second.shape != shape) {
    return Status::error(Code::failed_precondition,
                         text("tensor '", name, "' of checkpoint '", folder, "' is ",
                              type(it->second.dtype, it->second.shape)),
                         text("the run's model asks for ", type(DType::f32, shape)),
                         "use the model of the checkpoint's config.toml");
  }
  return TensorReader(&reader, std::string(name));
}

Status check_tensors(const SafetensorsReader& reader, const std::string& folder,
                     const std::vector<TensorShape>& run) {
  std::set<std::string_view> names;
  for (const auto& t : run) {
    MGT_RETURN_IF_ERROR(find_tensor(reader, folder, t.name, t.shape).status());
    names.insert(t.name);
  }
  for (const auto& [name, entry] : reader.tensors()) {
    if (names.contains(name)) continue;
    return Status::error(
        Code::failed_precondition,
        text("checkpoint '", folder, "' has tensor '", name, "', for which the run has no place"),
        kOtherModel, kUseItsModel);
  }
  return {};
}

SafetensorsHeader header_of(const std::vector<TensorShape>& tensors) {
  SafetensorsHeader header;
  header.set_metadata("format", "megatron-host");
  for (const auto& t : tensors) header.declare(t.name, DType::f32, t.shape);
  return header;
}

}  // namespace

CheckpointWriter::CheckpointWriter(const std::string& directory, const Progress& progress,
                                   const Contents& contents)
    : directory_(directory),
      folder_(text(directory, "/", folder_name(progress.iteration))),
      staging_(folder_ + ".incomplete"),
      progress_(progress),
      model_(header_of(contents.parameters)),
      optimizer_(header_of(contents.optimizer_states)) {
  for (const auto& t : contents.parameters) parameters_.insert(t.name);
}

Status CheckpointWriter::begin() {
  std::error_code error;
  fs::create_directories(directory_, error);
  if (error) return system_error("create", directory_, error);
  MGT_RETURN_IF_ERROR(remove_folder(staging_));
  fs::create_directory(staging_, error);
  if (error) return system_error("create", staging_, error);
  MGT_RETURN_IF_ERROR(SafetensorsFile::create(staging_ + "/model.safetensors", model_));
  return SafetensorsFile::create(staging_ + "/optimizer.safetensors", optimizer_);
}

Status CheckpointWriter::open() {
  MGT_ASSIGN_OR_RETURN(model_file_, SafetensorsFile::open(staging_ + "/model.safetensors", model_));
  MGT_ASSIGN_OR_RETURN(optimizer_file_,
                       SafetensorsFile::open(staging_ + "/optimizer.safetensors", optimizer_));
  return {};
}

Status CheckpointWriter::write(std::string_view name, int64_t first,
                               std::span<const float> elements) {
  auto& file = parameters_.contains(name) ? model_file_ : optimizer_file_;
  return file->write(name, static_cast<uint64_t>(first) * sizeof(float), std::as_bytes(elements));
}

Status CheckpointWriter::sync() {
  MGT_RETURN_IF_ERROR(model_file_->sync());
  return optimizer_file_->sync();
}

Result<std::string> CheckpointWriter::commit(const std::string& config, int64_t keep,
                                             const Warn& warn) {
  MGT_RETURN_IF_ERROR(write_file(staging_ + "/config.toml", config));
  Json files = Json::object();
  for (const std::string_view file : kFiles) {
    const std::string path = text(staging_, "/", file);
    std::error_code error;
    const auto bytes = fs::file_size(path, error);
    if (error) return system_error("read", path, error);
    MGT_ASSIGN_OR_RETURN(const std::string hash, hash_file(path));
    files[std::string(file)] = {{"bytes", bytes}, {"xxh3_128", hash}};
  }
  Json manifest = {{"format", kFormat},
                   {"iteration", progress_.iteration},
                   {"consumed_samples", progress_.consumed_samples},
                   {"evaluation_due", progress_.evaluation_due},
                   {"files", files}};
  manifest[kOwnHash] = own_hash(manifest);
  MGT_RETURN_IF_ERROR(write_file(text(staging_, "/", kManifest), manifest.dump(2) + "\n"));
  MGT_RETURN_IF_ERROR(sync_folder(staging_));
  MGT_RETURN_IF_ERROR(move_into_place(staging_, folder_, warn));
  MGT_RETURN_IF_ERROR(sync_folder(directory_));
  MGT_RETURN_IF_ERROR(write_file(text(directory_, "/", kTracker), text(progress_.iteration, "\n")));
  if (const Status status = remove_older(keep, warn); !status.ok()) warn(status.message());
  return folder_;
}

Status CheckpointWriter::discard() const { return remove_folder(staging_); }

// Newer ones are damaged leftovers that this run fell back from; they do not count.
Status CheckpointWriter::remove_older(int64_t keep, const Warn& warn) const {
  if (keep == 0) return {};
  MGT_ASSIGN_OR_RETURN(const auto saved, iterations(directory_));
  int64_t kept = 0;
  for (const int64_t iteration : saved) {
    if (iteration > progress_.iteration || ++kept <= keep) continue;
    const Status status = remove_folder(text(directory_, "/", folder_name(iteration)));
    if (!status.ok()) warn(status.message());
  }
  return {};
}

Result<bool> Checkpoint::is_one(const std::string& folder) {
  for (const std::string_view file : {kManifest, kFiles[0], kFiles[1]}) {
    const std::string path = text(folder, "/", file);
    std::error_code error;
    const bool found = fs::exists(path, error);
    if (error) return system_error("inspect", path, error);
    if (found) return true;
  }
  return false;
}

Result<Checkpoint> Checkpoint::open(const std::string& folder) {
  Checkpoint out;
  out.folder_ = folder;
  const auto manifest_text = read_file(text(folder, "/", kManifest));
  if (!manifest_text.ok()) return unsound(folder, manifest_text.status().diagnosis());
  const Json manifest = Json::parse(*manifest_text, nullptr, false);
  try {
    if (!manifest.is_object()) return unsound(folder, "manifest.json is not a JSON object");
    if (manifest.at(kOwnHash).get<std::string>() != own_hash(manifest))
      return unsound(folder, "manifest.json does not match its own checksum");
    if (manifest.at("format").get<int>() != kFormat) {
      return Status::error(
          Code::unimplemented,
          text("checkpoint '", folder, "' has the format ", manifest.at("format").dump()),
          text("this host reads format ", kFormat), "use the host version that wrote it");
    }
    out.progress_ = {manifest.at("iteration").get<int64_t>(),
                     manifest.at("consumed_samples").get<int64_t>(),
                     manifest.value("evaluation_due", false)};
    const auto named = iteration_of(absolute_path(folder));
    if (named && *named != out.progress_.iteration) {
      return Status::error(
          Code::data_loss, text("checkpoint '", folder, "' has the name of another iteration"),
          text("its manifest.json is of iteration ", out.progress_.iteration),
          text("name it ", folder_name(out.progress_.iteration), ", or remove it"));
    }
    const Json& files = manifest.at("files");
    for (const std::string_view file : kFiles) {
      const Json& record = files.at(std::string(file));
      const std::string path = text(folder, "/", file);
      std::error_code error;
      const auto size = fs::file_size(path, error);
      if (error) return unsound(folder, text(file, ": ", error.message()));
      if (size != record.at("bytes").get<uint64_t>()) {
        return unsound(folder, text(file, " has ", size, " bytes, the manifest says ",
                                    record.at("bytes").dump()));
      }
      MGT_ASSIGN_OR_RETURN(const std::string hash, hash_file(path));
      if (hash != record.at("xxh3_128").get<std::string>())
        return unsound(folder, text(file, " does not match its checksum"));
    }
  } catch (const nlohmann::json::exception& e) {
    const std::string_view what = e.what();  // "[json.exception.name.id] text"
    return unsound(folder, text("manifest.json: ", what.substr(what.find("] ") + 2)));
  }
  MGT_ASSIGN_OR_RETURN(out.model_, SafetensorsReader::open(folder + "/model.safetensors"));
  MGT_ASSIGN_OR_RETURN(out.optimizer_, SafetensorsReader::open(folder + "/optimizer.safetensors"));
  return out;
}

Result<Checkpoint> Checkpoint::open_newest(const std::string& directory,
                                           const std::function<void(std::string_view)>& warn) {
  int damaged = 0;
  MGT_ASSIGN_OR_RETURN(const auto saved, iterations(directory));
  for (const int64_t iteration : saved) {
    auto checkpoint = open(text(directory, "/", folder_name(iteration)));
    // One of a newer host is sound: it must not be taken for damaged and written over.
    if (checkpoint.ok() || checkpoint.status().code() == Code::unimplemented) return checkpoint;
    warn(checkpoint.status().message());
    ++damaged;
  }
  std::error_code error;
  const bool exists = fs::is_directory(directory, error);
  return Status::error(Code::not_found, text("there is no sound checkpoint in '", directory, "'"),
                       !exists        ? "the folder does not exist"
                       : damaged == 0 ? "it holds no folder iter_NNNNNNN"
                       : damaged == 1 ? "its only checkpoint is damaged"
                                      : text("all of its ", damaged, " checkpoints are damaged"),
                       "check the path, or start the run anew");
}

Result<std::string> Checkpoint::config() const { return read_file(folder_ + "/config.toml"); }

Result<TensorReader> Checkpoint::parameter(std::string_view name,
                                           const std::vector<int64_t>& shape) const {
  return find_tensor(model_, folder_, name, shape);
}
Result<TensorReader> Checkpoint::optimizer_state(std::string_view name,
                                                 const std::vector<int64_t>& shape) const {
  return find_tensor(optimizer_, folder_, name, shape);
}

Status Checkpoint::check_fits(const Contents& run, bool with_optimizer) const {
  MGT_RETURN_IF_ERROR(check_tensors(model_, folder_, run.parameters));
  return with_optimizer ? check_tensors(optimizer_, folder_, run.optimizer_states) : Status();
}

}  // namespace megatron::checkpoint
