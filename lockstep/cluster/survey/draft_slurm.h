// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/cluster/survey/draft.h"

namespace lockstep {

// The parts of a draft that Slurm tells. Each notes the keys that it sets, with their sources, and the gaps.

/// Slurm's name of the cluster, as `detect.slurm_cluster` has it: in lower case.
std::string slurm_name(const MachineFacts& facts);

/// [node], [devices] and what a job asks for: [sbatch].
void draft_nodes(ProfileDraft& draft, const MachineFacts& facts, const ChosenQueue& queue);

/// [slurm], [partition.*] and [qos.*].
void draft_queues(ProfileDraft& draft, const MachineFacts& facts, const ChosenQueue& queue);

/// The account that jobs are charged to.
void draft_account(ProfileDraft& draft, const MachineFacts& facts);

}  // namespace lockstep
