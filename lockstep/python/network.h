// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/models/network.h"
#include "lockstep/python/in_python.h"

namespace lockstep {

/// A torch.nn.Module of Python as a network. Its parameters and buffers are Python's own tensors, under Python's names,
/// so what the optimizer changes here is changed there. forward() calls the module as Python would, with its hooks.
///
/// Throws: forward() throws ModelException with the traceback where Python does.
std::shared_ptr<Network> make_python_network(PythonObject module);

}  // namespace lockstep
