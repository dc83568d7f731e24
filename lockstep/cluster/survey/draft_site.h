// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/survey/draft.h"

namespace lockstep {

// Drafts the parts of a profile that come from files, and from a compute node if one was asked.

/// [network]
void draft_network(ProfileDraft& draft, const MachineFacts& facts);

/// [storage]
void draft_storage(ProfileDraft& draft, const MachineFacts& facts);

/// [modules], [container], [software]
void draft_software(ProfileDraft& draft, const MachineFacts& facts);

}  // namespace lockstep
