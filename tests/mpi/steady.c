/*
 * steady SECONDS [BYTES [all]]: every rank sends checked messages around a ring, or, if `all` is there, to all others at once. Rank 0 says how
 * long the longest round took.
 *
 * What `tests/mpi/run` disturbs: a rank that is stopped, a cable that is out, a process that is killed. Exits with 1 if a byte was wrong.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **arguments)
{
	double seconds = count > 1 ? atof(arguments[1]) : 10, longest = 0;
	int bytes = count > 2 ? atoi(arguments[2]) : 20000, rank, ranks, going = 1;
	long rounds = 0, wrong = 0, all_wrong = 0;

	MPI_Init(&count, &arguments);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	int all = count > 3;
	unsigned char *out = malloc((size_t)bytes * ranks), *in = malloc((size_t)bytes * ranks);
	double start = MPI_Wtime();
	fprintf(stderr, "rank %d pid %d\n", rank, getpid());
	for (unsigned i = 0; going; i++) {
		int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
		double began = MPI_Wtime();
		memset(out, (i + rank) & 255, (size_t)bytes * ranks);
		memset(in, (i + left + 1) & 255, bytes);
		for (int from = 0; all && from < ranks; from++)
			memset(in + (size_t)from * bytes, (i + from + 1) & 255, bytes);
		if (all)
			MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
		else
			MPI_Sendrecv(out, bytes, MPI_BYTE, right, 3, in, bytes, MPI_BYTE, left, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (int from = all ? 0 : left; from < (all ? ranks : left + 1); from++)
			for (int k = 0; k < bytes; k++)
				wrong += in[(all ? (size_t)from * bytes : 0) + k] != ((i + from) & 255);
		if (rank == 0)
			going = MPI_Wtime() - start < seconds;
		MPI_Bcast(&going, 1, MPI_INT, 0, MPI_COMM_WORLD);
		double took = MPI_Wtime() - began;
		if (took > longest)
			longest = took;
		rounds++;
		if (rank == 0 && rounds == 10)
			fprintf(stderr, "they speak\n");
	}
	MPI_Reduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		fprintf(stderr, "end: %ld rounds, longest %.3f s, %ld bytes wrong\n", rounds, longest, all_wrong);
	MPI_Finalize();
	return all_wrong != 0;
}
