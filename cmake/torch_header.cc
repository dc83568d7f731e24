// SPDX-License-Identifier: Apache-2.0
// Owns the precompiled header that all targets below the torch line share.
