// Stands in for the file of this name in CUDA's toolkit, which has nothing to say to the host's compiler alone.
#pragma once
