// Is what a plugin's entry point returned usable? Checked once, so that no caller has to test a
// slot.
#pragma once

#include "megatron/abi/plugin.h"
#include "megatron/status.hpp"

namespace megatron::plugin {

// Compares the plugin with the note that was accepted, and its table and options with what the host
// calls. Every failure is the plugin's fault; the error's three lines leave out the path.
Status check_plugin(const mgt_plugin* plugin, const mgt_note_desc& note);

}  // namespace megatron::plugin
