/* An all-reduce between four processes of one machine, from beginning to end.
 *
 *   cc all_reduce.c $(pkg-config --cflags --libs libnccom) && ./a.out
 */
#include <nccl.h>
#include <nccom.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS 4
#define COUNT 1000

/* Every call says what went wrong: the call, the rank, what it expected and what it found. */
static void check(ncclResult_t result) {
  if (result == ncclSuccess) return;
  fprintf(stderr, "%s: %s\n", ncclGetErrorString(result), ncclGetLastError(NULL));
  exit(1);
}

static int run(int rank, ncclUniqueId id) {
  ncclComm_t comm;
  float* buffer;
  int wrong = 0;

  check(nccomSetDevice(rank)); /* one logical NeuronCore a rank */
  check(ncclCommInitRank(&comm, RANKS, id, rank));
  check(ncclMemAlloc((void**)&buffer, COUNT * sizeof(float)));
  for (int i = 0; i < COUNT; i++)
    buffer[i] = (float)(rank + i);

  check(ncclAllReduce(buffer, buffer, COUNT, ncclFloat, ncclSum, comm, NULL));
  check(nccomStreamSynchronize(NULL));

  for (int i = 0; i < COUNT; i++)
    wrong += buffer[i] != (float)(RANKS * i + RANKS * (RANKS - 1) / 2);
  printf("rank %d: %d wrong\n", rank, wrong);
  check(ncclMemFree(buffer));
  check(ncclCommDestroy(comm));
  return wrong != 0;
}

int main(void) {
  ncclUniqueId id;
  int failed = 0;

  check(ncclGetUniqueId(&id)); /* allowed before fork(): it uses no device */
  for (int rank = 0; rank < RANKS; rank++) {
    if (fork() == 0) return run(rank, id);
  }
  for (int rank = 0; rank < RANKS; rank++) {
    int status = 1;
    wait(&status);
    failed |= status != 0;
  }
  return failed;
}
