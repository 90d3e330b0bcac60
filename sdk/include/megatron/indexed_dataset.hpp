// Megatron's `.bin/.idx` datasets: the layout, a checked reader and a streaming writer.
#pragma once

#include "megatron/indexed_dataset/format.hpp"
#include "megatron/indexed_dataset/reader.hpp"
#include "megatron/indexed_dataset/writer.hpp"
