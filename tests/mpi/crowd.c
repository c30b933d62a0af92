/*
 * Many ranks: what starting them takes, by the clock, and what memory each has once it has spoken with ranks of all hosts. Any number of ranks.
 *
 *   mpicc -O1 -o crowd crowd.c && mpiexec -n 128 ./crowd
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Seconds after which a hanging rank is ended. */
#define LIMIT 240
/* Rounds in which a rank speaks with one at twice the distance of the round before. */
#define ROUNDS 8

/* Memory of this process, shared pages by their part, in MB. */
static double pss(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	char line[200];
	long kb = 0;

	while (file && fgets(line, sizeof line, file) && sscanf(line, "Pss: %ld", &kb) != 1)
		;
	if (file)
		fclose(file);
	return kb / 1024.0;
}

int main(int count, char **arguments)
{
	double begin, own[3], most[3], sum = 0;
	int rank, ranks, failures = 0;

	alarm(LIMIT);
	begin = MPI_Wtime();
	MPI_Init(&count, &arguments);
	own[0] = MPI_Wtime() - begin;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	begin = MPI_Wtime();
	MPI_Barrier(MPI_COMM_WORLD);
	own[1] = MPI_Wtime() - begin;
	for (int round = 0, far = 1; round < ROUNDS && far < ranks; round++, far *= 2) {
		int to = (rank + far) % ranks, from = (rank - far + ranks) % ranks;
		int sent[64], got[64];

		for (int i = 0; i < 64; i++)
			sent[i] = rank + i;
		memset(got, 0, sizeof got);
		MPI_Sendrecv(sent, 64, MPI_INT, to, round, got, 64, MPI_INT, from, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (int i = 0; i < 64; i++)
			failures += got[i] != from + i;
	}
	/* All are there when each looks at its own. */
	MPI_Barrier(MPI_COMM_WORLD);
	own[2] = pss();
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Reduce(own, most, 3, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	MPI_Reduce(own + 2, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (!rank)
		printf("crowd: %d ranks, start %.2f s, the first barrier %.2f s, memory %.2f MB a rank and %.2f at most, %d failures\n", ranks,
		       most[0], most[1], sum / ranks, most[2], failures);
	MPI_Finalize();
	return failures != 0;
}
