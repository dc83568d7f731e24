// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/models/network.h"
#include "lockstep/python/in_python.h"

namespace lockstep {

/// Makes a network of a Python torch.nn.Module. Its parameters and buffers are Python's own tensors, under Python's
/// names, so the optimizer's changes here are seen there. forward() calls the module as Python would, with its hooks.
/// `steps` is a lockstep_host.steps.Steps, which makes the network one that is WithOwnSteps, or None.
///
/// Throws: forward() throws ModelException with the traceback if Python does.
std::shared_ptr<Network> make_python_network(PythonObject module, PythonObject steps);

}  // namespace lockstep
