// `preprocess`: text to Megatron's .bin/.idx datasets.
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>

#include "cli/command.hpp"
#include "cli/numbers.hpp"
#include "cli/stop_signals.hpp"
#include "data/preprocess.hpp"
#include "train/experiment.hpp"
#include "train/sections.hpp"

namespace megatron::cli {
namespace {

constexpr int64_t kMostWorkers = 1024;

struct PreprocessArguments {
  data::PreprocessOptions options;
  std::string tokenizer;
  std::vector<std::string> tokenizer_options;
  std::string text_documents;  // "" = jsonl
};

void draw_progress(const data::PreprocessProgress& p) {
  const double done = p.bytes_total > 0 ? 100.0 * static_cast<double>(p.bytes_done) /
                                              static_cast<double>(p.bytes_total)
                                        : 100.0;
  std::fprintf(stderr, "\r\033[2K %5.1f %%  %lld documents, %lld tokens", done,
               static_cast<long long>(p.documents), static_cast<long long>(p.tokens));
  std::fflush(stderr);
}

// An experiment of a tokenizer alone.
Result<std::unique_ptr<train::Experiment>> tokenizer_of(const PreprocessArguments& arguments,
                                                        plugin::Registry& registry) {
  const config::CommandLineSection section{.name = "tokenizer",
                                           .plugin_option = "--tokenizer",
                                           .plugin = arguments.tokenizer,
                                           .key_option = {.name = "--tokenizer-option",
                                                          .section = "tokenizer",
                                                          .example = "vocab_size=50257"},
                                           .assignments = arguments.tokenizer_options};
  auto sections = train::experiment_sections(false);
  std::erase_if(sections, [](const config::SectionSchema& s) { return s.name != "tokenizer"; });
  MGT_ASSIGN_OR_RETURN(const auto manifest, config::Manifest::of_command_line(section));
  return train::Experiment::load(manifest, registry, std::move(sections));
}

Status run_preprocess(const PreprocessArguments& arguments, const Context& context) {
  MGT_ASSIGN_OR_RETURN(plugin::Registry registry, open_registry(context, serial_services()));
  MGT_ASSIGN_OR_RETURN(const auto experiment, tokenizer_of(arguments, registry));
  MGT_ASSIGN_OR_RETURN(const auto tokenizer, experiment->tokenizer());
  auto options = arguments.options;
  if (!arguments.text_documents.empty()) {
    options.format = data::InputFormat::text;
    options.document = arguments.text_documents == "line"        ? data::RecordKind::line
                       : arguments.text_documents == "paragraph" ? data::RecordKind::paragraph
                                                                 : data::RecordKind::file;
  }
  options.stop = &stop_on_signals("", Waits::interrupted);
  const bool terminal = isatty(STDERR_FILENO) != 0;
  auto result = data::preprocess(options, *tokenizer,
                                 terminal ? draw_progress : data::PreprocessProgressFn());
  if (terminal) std::fputs("\r\033[2K", stderr);
  MGT_ASSIGN_OR_RETURN(const auto report, std::move(result));
  for (const auto& d : report.datasets) {
    std::cout << text(d.prefix, ".bin/.idx: ", d.documents, " documents, ", d.tokens, " tokens (",
                      dtype_name(report.dtype), ")");
    if (d.empty_documents > 0)
      std::cout << text("; ", d.empty_documents, " empty documents left out");
    std::cout << "\n";
  }
  if (report.bad_records > 0) std::cout << text(report.bad_records, " bad records left out\n");
  return {};
}

}  // namespace

void add_preprocess(CLI::App& app, Context& context) {
  auto a = std::make_shared<PreprocessArguments>();
  CLI::App* command =
      app.add_subcommand("preprocess", "Turn text into a token dataset (.bin and .idx)");
  command->add_option("--input", a->options.inputs, "Files, read one after the other")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--output-prefix", a->options.output_prefix,
                   "Datasets become PREFIX_<key>_document.{bin,idx}")
      ->required()
      ->type_name("PREFIX");
  command->add_option("--tokenizer", a->tokenizer, "Tokenizer plugin")
      ->required()
      ->type_name("NAME");
  command
      ->add_option("--tokenizer-option", a->tokenizer_options, "An option of the tokenizer plugin")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  auto* keys = command->add_option("--json-keys", a->options.json_keys,
                                   "Keys of a jsonl line to take; a dataset each");
  keys->type_name("KEY");
  command
      ->add_option("--text", a->text_documents,
                   "The input is plain text; what is a document: file, line or paragraph")
      ->check(CLI::IsMember({"file", "line", "paragraph"}))
      ->excludes(keys)
      ->type_name("DOCUMENT");
  command->add_flag("--append-eod", a->options.append_eod,
                    "End each document with the tokenizer's end-of-document id");
  command->add_flag("--skip-bad-records", a->options.skip_bad_records,
                    "Count bad lines instead of stopping at the first");
  command->add_flag("--foreign-ids", a->options.foreign_ids,
                    "Take ids beyond the tokenizer's vocabulary, as Megatron-LM does");
  command->add_flag("--overwrite", a->options.overwrite, "Replace datasets that exist");
  add_integer(*command, "--workers", a->options.workers, 0, kMostWorkers,
              "Encoding threads; 0 = one a CPU that this process may use");
  command->callback(
      [a, &context] { context.action = [a, &context] { return run_preprocess(*a, context); }; });
}

}  // namespace megatron::cli
