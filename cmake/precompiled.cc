// SPDX-License-Identifier: Apache-2.0
// Owns a precompiled header that many targets share: LockstepPrecompiled.cmake.
