// A wrong command line, in the house's three lines with a near name.
#pragma once

#include <CLI/App.hpp>

#include "megatron/status.hpp"

namespace megatron::cli {

// `app` after it threw `error`. INVALID_ARGUMENT; help and version requests are not errors and are
// not for this function.
Status explain_parse_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace megatron::cli
