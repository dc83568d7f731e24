# SPDX-License-Identifier: Apache-2.0
"""The Python side of Lockstep's trainer, for recipes that name a model, a loss or a data set in Python."""
