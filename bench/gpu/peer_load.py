# SPDX-License-Identifier: Apache-2.0
"""Loads an exported snapshot with torch.load, without saying on which device tensors should go."""
import torch
from torch.utils._pytree import tree_leaves

import peer

asked = peer.arguments(weights="")
tensors = [each for each in tree_leaves(torch.load(asked.weights, weights_only=True)) if isinstance(each, torch.Tensor)]
peer.say(tensors=len(tensors), devices=sorted({str(each.device) for each in tensors}))
