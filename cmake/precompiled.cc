// SPDX-License-Identifier: Apache-2.0
// The source of a precompiled header that many targets share. See LockstepPrecompiled.cmake.
