/*
 * Many messages at once, each of which a program may have: MPI's progress rule is that what a posted receive matches arrives, however much
 * stands before it, and that posting does not wait for what is posted later. Judges itself; any even number of ranks from 2.
 *
 *   mpicc -O1 -o many many.c && mpiexec -n 4 ./many [FACTOR]
 *
 * FACTOR (default 1) makes all numbers larger; with 5 they are those that once were tried by hand.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Seconds after which a hanging rank is ended: many times what the program takes. */
#define LIMIT 240
/* Tags of what is sent many times over, and of what is waited for. */
enum { TAGS = 1000, WANTED = 2000 };

static int rank, ranks, failures;

#define CHECK(condition)                                                                                       \
	do {                                                                                                   \
		if (!(condition) && failures++ < 20)                                                           \
			fprintf(stderr, "rank %d, %s:%d: not so: %s\n", rank, __func__, __LINE__, #condition); \
	} while (0)

static void *room(size_t count, size_t bytes)
{
	void *memory = calloc(count, bytes);

	if (!memory)
		MPI_Abort(MPI_COMM_WORLD, 3);
	return memory;
}

static void said(const char *what, double start)
{
	if (!rank)
		printf("%-28s %.2f s\n", what, MPI_Wtime() - start);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* The other of a pair. */
static int partner(void)
{
	return rank ^ 1;
}

/* Messages that nobody has asked for, and behind them the one that is waited for; then all of them, in their order. */
static void behind(int count, int bytes, const char *what)
{
	double start = MPI_Wtime();
	char *all = room(rank & 1 ? count : 1, bytes), one = 0;

	if (rank & 1) {
		MPI_Request *requests = room(count + 1, sizeof *requests);

		for (int i = 0; i < count; i++) {
			char *message = all + (size_t)i * bytes;

			memset(message, i % 113, bytes);
			MPI_Isend(message, bytes, MPI_BYTE, partner(), 1, MPI_COMM_WORLD, requests + i);
		}
		one = 77;
		MPI_Isend(&one, 1, MPI_BYTE, partner(), WANTED, MPI_COMM_WORLD, requests + count);
		MPI_Waitall(count + 1, requests, MPI_STATUSES_IGNORE);
		free(requests);
	} else {
		MPI_Recv(&one, 1, MPI_BYTE, partner(), WANTED, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		CHECK(one == 77);
		for (int i = 0; i < count; i++) {
			MPI_Recv(all, bytes, MPI_BYTE, partner(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			CHECK(all[0] == i % 113 && all[bytes - 1] == i % 113);
		}
	}
	free(all);
	said(what, start);
}

/* Both of a pair post receives and as many sends, in this order or the other, and wait for all. */
static void posted(int count, int sends_first, const char *what)
{
	double start = MPI_Wtime();
	MPI_Request *requests = room(2 * count, sizeof *requests);
	long *sent = room(count, sizeof *sent), *got = room(count, sizeof *got), wrong = 0;

	for (int turn = 0; turn < 2; turn++)
		for (int i = 0; i < count; i++)
			if (turn != sends_first) {
				sent[i] = 2L * i + rank;
				MPI_Isend(sent + i, 1, MPI_LONG, partner(), i % TAGS, MPI_COMM_WORLD, requests + count + i);
			} else {
				MPI_Irecv(got + i, 1, MPI_LONG, partner(), i % TAGS, MPI_COMM_WORLD, requests + i);
			}
	MPI_Waitall(2 * count, requests, MPI_STATUSES_IGNORE);
	for (int i = 0; i < count; i++)
		wrong += got[i] != 2L * i + partner();
	CHECK(wrong == 0);
	free(requests);
	free(sent);
	free(got);
	said(what, start);
}

/* Everybody sends to one, who receives after all have met; in the order of each sender. */
static void gathered(int count)
{
	double start = MPI_Wtime();
	MPI_Request *requests = room(count, sizeof *requests);
	long *sent = room(count, sizeof *sent), *next = room(ranks, sizeof *next);

	for (int i = 0; rank && i < count; i++) {
		sent[i] = i;
		MPI_Isend(sent + i, 1, MPI_LONG, 0, 1, MPI_COMM_WORLD, requests + i);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	for (long i = 0; !rank && i < (long)count * (ranks - 1); i++) {
		MPI_Status status;
		long value = -1;

		MPI_Recv(&value, 1, MPI_LONG, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
		CHECK(value == next[status.MPI_SOURCE]++);
	}
	if (rank)
		MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
	free(requests);
	free(sent);
	free(next);
	said("gathered", start);
}

int main(int count, char **arguments)
{
	int factor = count > 1 ? atoi(arguments[1]) : 1;

	MPI_Init(&count, &arguments);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (ranks % 2 || factor < 1)
		MPI_Abort(MPI_COMM_WORLD, 2);
	alarm(LIMIT);
	behind(40000 * factor, 8, "behind 8-byte messages");
	behind(1000 * factor, 4096, "behind 4096-byte messages");
	posted(100000 * factor, 0, "receives, then sends");
	posted(100000 * factor, 1, "sends, then receives");
	gathered(10000 * factor);
	MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (!rank)
		printf("many: %d failures\n", failures);
	MPI_Finalize();
	return failures != 0;
}
