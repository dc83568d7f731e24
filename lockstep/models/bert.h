// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/models/network.h"

namespace lockstep {

/// Makes a masked language model with the names and initialisation of Hugging Face's BertForMaskedLM. The decoder's
/// weights are the word embeddings. Every id is text, so none stands for padding (pad_token_id=None there), and all are
/// of type 0.
///
/// Shape: its forward takes I64 [N, length], and returns [N, length, vocabulary].
/// Throws: Error(kData) if a sample is not [length] or longer than max_positions; Error(kRecipe) for a setting out of
/// range.
std::shared_ptr<Network> make_bert(const NetworkOptions& options);

}  // namespace lockstep
