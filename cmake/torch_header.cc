// Owns the precompiled header that all targets below the torch line share.
