// SPDX-License-Identifier: Apache-2.0
#pragma once

extern "C" {
int roctxRangePushA(const char* message);
int roctxRangePop();
}
