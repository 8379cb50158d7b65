/* Only has versions that are no longer known. */
const int ncclNetPlugin_v2 = 0;
const int ncclNetPlugin_v3 = 0;
