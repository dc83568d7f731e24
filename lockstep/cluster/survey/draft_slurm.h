// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/cluster/survey/draft.h"

namespace lockstep {

// Draft the parts of a profile that Slurm knows. Each function adds keys with their sources, and the gaps.

/// Returns Slurm's name of the cluster in lower case, for `detect.slurm_cluster`.
std::string slurm_name(const MachineFacts& facts);

/// Drafts [node], [devices] and [sbatch].
void draft_nodes(ProfileDraft& draft, const MachineFacts& facts, const ChosenQueue& queue);

/// [slurm], [partition.*] and [qos.*].
void draft_queues(ProfileDraft& draft, const MachineFacts& facts, const ChosenQueue& queue);

/// Drafts the account to which jobs are charged.
void draft_account(ProfileDraft& draft, const MachineFacts& facts);

}  // namespace lockstep
