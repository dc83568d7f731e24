// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

enum hipError_t {
  hipSuccess = 0,
  hipErrorOutOfMemory = 2,
  hipErrorNotInitialized = 3,
  hipErrorInsufficientDriver = 35,
  hipErrorInvalidDeviceFunction = 98,
  hipErrorNoDevice = 100,
  hipErrorNoBinaryForGpu = 209,
  hipErrorECCNotCorrectable = 214,
  hipErrorOperatingSystem = 304,
  hipErrorLaunchFailure = 719,
  hipErrorUnknown = 999,
};

enum hipStreamCaptureMode {
  hipStreamCaptureModeGlobal,
  hipStreamCaptureModeThreadLocal,
  hipStreamCaptureModeRelaxed,
};

struct hipUUID {
  char bytes[16];
};

struct hipDeviceProp_t {
  char name[256];
  hipUUID uuid;
  std::size_t totalGlobalMem;
  int major;
  int minor;
  int pciBusID;
  int pciDeviceID;
  int pciDomainID;
  char gcnArchName[256];
};

hipError_t hipGetDeviceCount(int* count);
hipError_t hipGetDeviceProperties(hipDeviceProp_t* properties, int device);
hipError_t hipDriverGetVersion(int* version);
hipError_t hipRuntimeGetVersion(int* version);
hipError_t hipSetDevice(int device);
hipError_t hipMemGetInfo(std::size_t* free, std::size_t* total);
hipError_t hipDeviceSynchronize();
hipError_t hipGetLastError();
const char* hipGetErrorString(hipError_t error);
