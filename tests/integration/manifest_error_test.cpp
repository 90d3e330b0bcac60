// What a user reads who slipped, in full: where, what, why and what to do.
#include <gtest/gtest.h>

#include "integration/experiment.hpp"

namespace megatron::test {
namespace {

struct Slip {
  const char* name;
  const char* from;  // a piece of the manifest, and what the user wrote instead
  const char* to;
  const char* message;
  int code = 2;
};
void PrintTo(const Slip& row, std::ostream* out) { *out << row.name; }

// DIR and PLUGINS stand for folders.
std::string complaint(const Experiment& experiment, std::vector<std::string> arguments, int code) {
  arguments.insert(arguments.begin(), "--print-config");  // nothing may be trained by accident
  Command command = experiment.command(arguments);
  command.environment["MEGATRON_PLUGIN_PATH"] = kPlugins;
  command.environment["MEGATRON_PLUGIN_PATH_ONLY"] = "1";
  const Outcome o = run(command);
  EXPECT_EQ(o.exit_code, code) << o;
  EXPECT_EQ(o.out, "");
  return replaced(replaced(o.err, experiment.folder(), "DIR"), kPlugins, "PLUGINS");
}

const Slip kSlips[] = {
    {"UnknownKey", "train_iters = 20", "train_itres = 20",
     R"(error: tiny.toml:2:1: unknown key 'train_itres' in [train]
  [train] has no such key
  fix: write train_iters
)"},
    {"KeyOfAPlugin", "num_layers = 2", "num_layres = 2",
     R"(error: tiny.toml:13:1: unknown key 'num_layres' in [model]
  neither [model] nor its plugin 'gpt' has such a key
  fix: write num_layers
)"},
    {"KeyOfAnotherSection", "lr = 1e-2", "lr = 1e-2\nseed = 5",
     R"(error: tiny.toml:28:1: unknown key 'seed' in [optimizer]
  neither [optimizer] nor its plugin 'adamw' has such a key
  fix: move it to [train]
)"},
    {"WrongType", "train_iters = 20", "train_iters = \"20\"",
     R"(error: tiny.toml:2:15: train.train_iters = "20" is not an integer
  'train_iters' takes an integer, and this is a string
  fix: write train_iters = 20
)"},
    {"OutOfRange", "hidden_dropout = 0.1", "hidden_dropout = 1.0",
     R"(error: tiny.toml:17:18: model.hidden_dropout = 1.0 is out of range
  'hidden_dropout' must be at least 0 and below 1
  fix: write a value in this range; the default is 0.1
)"},
    {"NoSuchChoice", "\"cosine\"", "\"cosin\"",
     R"(error: tiny.toml:28:18: optimizer.lr_decay_style = "cosin" is not one of the choices
  choices: "constant", "linear", "cosine", "inverse-square-root", "WSD"
  fix: write "cosine"
)"},
    {"MissingKey", "train_iters = 20\n", "",
     R"(error: tiny.toml:1:1: key 'train_iters' is missing in [train]
  [train] requires it: iterations (optimizer steps)
  fix: add train_iters = <an integer at least 1 and at most 10000000000>
)"},
    {"MissingKeyOfAPlugin", "seq_length = 16\n", "",
     R"(error: tiny.toml:11:1: key 'seq_length' is missing in [model]
  plugin 'gpt' of [model] requires it: tokens of a training sequence
  fix: add seq_length = <an integer at least 1 and at most 16777216>
)"},
    {"UnknownSection", "[data]", "[dta]",
     R"(error: tiny.toml: section [data] is missing
  its required keys: 'plugin'
  fix: add [data] with these keys
tiny.toml:23:2: unknown section 'dta'
  sections: train, model, tokenizer, data, optimizer, checkpoint, device, parallel, comm
  fix: write [data]
)"},
    {"SeveralAtOnce", "seq_length = 16\nhidden_dropout = 0.1", "seq_lenth = 16\nhidden_dropout = 2",
     R"(error: tiny.toml:16:1: unknown key 'seq_lenth' in [model]
  neither [model] nor its plugin 'gpt' has such a key
  fix: write seq_length
tiny.toml:17:18: model.hidden_dropout = 2 is out of range
  'hidden_dropout' must be at least 0 and below 1
  fix: write a value in this range; the default is 0.1
)"},
    {"Syntax", "num_layers = 2", "num_layers =",
     R"(error: tiny.toml:13:13: not valid TOML: num_layers =
  Error while parsing key-value pair: expected value, saw '\n'
  fix: correct the line (https://toml.io); strings need quotes
)"},
    {"KeyTwice", "seq_length = 16", "seq_length = 16\nseq_length = 16",
     R"(error: tiny.toml:17:14: not valid TOML: seq_length = 16
  Error while parsing key-value pair: cannot redefine existing integer 'seq_length'
  fix: correct the line (https://toml.io); strings need quotes
)"},
    {"IncludeOfNothing", "[train]", "include = [\"absent.toml\"]\n[train]",
     R"(error: tiny.toml:1:12: cannot include absent.toml
  DIR/absent.toml does not exist
  fix: correct the path; it is relative to the including file
)"},
    {"IncludeOfItself", "[train]", "include = [\"circle.toml\"]\n[train]",
     R"(error: circle.toml:1:12: tiny.toml includes itself
  the includes form a cycle: tiny.toml -> circle.toml -> tiny.toml
  fix: remove one of these includes
)"},
    {"ErrorInAnIncludedFile", "[train]", "include = [\"fault.toml\"]\n[train]",
     R"(error: fault.toml:2:8: train.seed = -1 is out of range
  'seed' must be at least 0
  fix: write a value in this range; the default is 1234
)"},
    {"UnknownPlugin", "\"mock\"", "\"mokc\"",
     R"(error: dataset plugin 'mokc' not found
  searched, in this order: PLUGINS (MEGATRON_PLUGIN_PATH)
  fix: did you mean 'mock'?
  while reading tiny.toml:24:10: [data]
)",
     3},
    {"PluginOfAnotherKind", "\"mock\"", "\"adamw\"",
     R"(error: dataset plugin 'adamw' not found
  searched, in this order: PLUGINS (MEGATRON_PLUGIN_PATH)
  fix: 'adamw' is the name of a plugin of another kind: optimizer; name it there
  while reading tiny.toml:24:10: [data]
)",
     3},
};

class ManifestError : public testing::TestWithParam<Slip> {};
TEST_P(ManifestError, SaysWhereWhatWhyAndWhatToDo) {
  const Slip& slip = GetParam();
  std::string manifest(kTinyGpt);
  const size_t at = manifest.find(slip.from);
  ASSERT_NE(at, std::string::npos);
  const Experiment experiment(manifest.replace(at, std::string_view(slip.from).size(), slip.to));
  write_file(experiment / "circle.toml", "include = [\"tiny.toml\"]\n");
  write_file(experiment / "fault.toml", "[train]\nseed = -1\n");
  EXPECT_EQ(complaint(experiment, {}, slip.code), slip.message);
}
INSTANTIATE_TEST_SUITE_P(All, ManifestError, testing::ValuesIn(kSlips),
                         [](const auto& row) { return row.param.name; });

struct Words {
  const char* name;
  std::vector<std::string> words;
  const char* message;
  int code = 2;
};
void PrintTo(const Words& row, std::ostream* out) { *out << row.name; }

const Words kWords[] = {
    {"UnknownKey",
     {"--set", "train.train_itres=3"},
     R"(error: --set train.train_itres=3: unknown key 'train_itres' in [train]
  [train] has no such key
  fix: write train_iters
)"},
    {"WrongType",
     {"--set", "train.train_iters=three"},
     R"(error: --set train.train_iters=three: train.train_iters = "three" is not an integer
  'train_iters' takes an integer, and this is a string
  fix: write an integer
)"},
    {"OutOfRange",
     {"--set", "optimizer.lr=-1"},
     R"(error: --set optimizer.lr=-1: optimizer.lr = -1 is out of range
  'lr' must be at least 0
  fix: write a value in this range
)"},
    {"UnknownSection",
     {"--set", "tain.train_iters=3"},
     R"(error: --set tain.train_iters=3: unknown section 'tain'
  sections: train, model, tokenizer, data, optimizer, checkpoint, device, parallel, comm
  fix: write [train]
)"},
    {"UnknownPlugin",
     {"--set", "model.plugin=gtp"},
     R"(error: model plugin 'gtp' not found
  searched, in this order: PLUGINS (MEGATRON_PLUGIN_PATH)
  fix: did you mean 'gpt'?
  while reading --set model.plugin=gtp: [model]
)",
     3},
    {"ValueMissing",
     {"--set"},
     R"(error: wrong command line for `megatron-host run`
  --set: 1 required SECTION.KEY=VALUE missing
  fix: see `megatron-host run --help`
)"},
    {"UnknownOption",
     {"--ovrewrite"},
     R"(error: unknown option '--ovrewrite'
  known: --set, --ranks, --print-config, --resume, --overwrite, --help, --version, --plugin, --plugin-path, --log-level
  fix: did you mean '--overwrite'?
)"},
    {"OneWordTooMany",
     {"other.toml"},
     R"(error: unexpected argument 'other.toml'
  `megatron-host run` has no place for it
  fix: see `megatron-host run --help`
)"},
};

class CommandLineError : public testing::TestWithParam<Words> {};
TEST_P(CommandLineError, SaysWhatWhyAndWhatToDo) {
  EXPECT_EQ(complaint(Experiment(), GetParam().words, GetParam().code), GetParam().message);
}
INSTANTIATE_TEST_SUITE_P(Run, CommandLineError, testing::ValuesIn(kWords),
                         [](const auto& row) { return row.param.name; });

TEST(CommandLineErrors, NotAnAssignment) {
  for (const char* word : {"train.train_iters", "train_iters=3", ""}) {
    EXPECT_EQ(complaint(Experiment(), {"--set", word}, 2)
                  .find(text("error: --set ", word,
                             ": not an assignment\n  --set takes SECTION.KEY=VALUE\n")),
              0u);
  }
}

}  // namespace
}  // namespace megatron::test
