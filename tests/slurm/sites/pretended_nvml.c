/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands for libnvidia-ml.so.1 of a node with two devices. PRETENDED_NVML is a folder; its file named like the node that
 * Slurm runs this on says what is wrong there: `lost`, `rows`, `hot` or `hangs`. Without such a file all is well. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kDevices = 2, kOk = 0, kIsLost = 15 };

static int is(const char* fault) {
  char path[512], said[32] = "";
  const char* folder = getenv("PRETENDED_NVML");
  const char* node = getenv("SLURMD_NODENAME");
  if (folder == NULL || node == NULL) return 0;
  snprintf(path, sizeof path, "%s/%s", folder, node);
  FILE* file = fopen(path, "r");
  if (file == NULL) return 0;
  if (fscanf(file, "%31s", said) != 1) said[0] = 0;
  fclose(file);
  return strcmp(said, fault) == 0;
}

int nvmlInit_v2(void) {
  while (is("hangs")) pause();
  return kOk;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = kDevices;
  return kOk;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = (void*)(size_t)(index + 1);
  return index == 1 && is("lost") ? kIsLost : kOk;
}
int nvmlDeviceGetPciInfo_v3(void* device, unsigned* pci) { /* legacy_bus_id[16], domain, bus, device, … */
  memset(pci, 0, 68);
  pci[5] = 0x10 * (unsigned)(size_t)device;
  return kOk;
}
int nvmlDeviceGetUtilizationRates(void* device, unsigned* rates) { return device && rates ? kOk : 1; }
int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* memory) {
  memset(memory, 0, 3 * sizeof *memory);
  return device ? kOk : 1;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* power) { return *power = 0, device ? kOk : 1; }
int nvmlDeviceGetTemperature(void* device, unsigned sensor, unsigned* degrees) { return *degrees = sensor, device ? kOk : 1; }
int nvmlDeviceGetRemappedRows(void* device, unsigned* corrected, unsigned* uncorrected, unsigned* waits, unsigned* failed) {
  *corrected = *uncorrected = *failed = 0;
  *waits = device == (void*)1 && is("rows");
  return kOk;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  *reasons = device == (void*)1 && is("hot") ? 0x40 : 0x1;
  return kOk;
}
