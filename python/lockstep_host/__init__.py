# SPDX-License-Identifier: Apache-2.0
"""What Lockstep's trainer says in Python while a Python hosts it."""
