#include "options.hpp"

#include <filesystem>

namespace megatron::gpt {
namespace {

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// What people write by habit: a file instead of the prefix, or Megatron's list of weights and
// prefixes.
Status check_data_path(const std::string& path) {
  if (path.empty()) {
    return invalid_argument("data_path is empty", "it must name a dataset",
                            "give the common prefix of its .bin and .idx file");
  }
  if (exists(path + ".idx")) return {};
  const std::string fact = text("data_path = \"", path, "\" names no dataset");
  const auto extension = std::filesystem::path(path).extension();
  if (extension == ".bin" || extension == ".idx") {
    return invalid_argument(
        fact, text("it names one file of the pair; ", path, ".idx does not exist"),
        text("leave out the extension: data_path = \"", path.substr(0, path.size() - 4), "\""));
  }
  if (path.find_first_of(" ,\t") != std::string::npos) {
    return Status::error(Code::unimplemented, fact,
                         text(path,
                              ".idx does not exist, and a blend of several datasets is not "
                              "supported yet"),
                         "give one prefix; merge datasets beforehand to train on several");
  }
  return Status::error(Code::not_found, fact, text(path, ".idx does not exist"),
                       "correct the prefix, or write the dataset with `megatron-host preprocess`");
}

}  // namespace

Result<Options> read_options(const Config& config) {
  Options options;
  options.data_path = config.string("data_path");
  MGT_RETURN_IF_ERROR(check_data_path(options.data_path));
  MGT_ASSIGN_OR_RETURN(options.split, parse_split(config.string("split")));
  options.eod_mask_loss = config.boolean("eod_mask_loss");
  options.reset_position_ids = config.boolean("reset_position_ids");
  options.add_extra_token_to_sequence = config.boolean("add_extra_token_to_sequence");
  options.drop_last_partial_validation_sequence =
      config.boolean("drop_last_partial_validation_sequence");
  return options;
}

}  // namespace megatron::gpt
