/*
 * What `emp bench mpi` measures, by an MPI's own calls, between rank 0 and rank 1 (allreduce: among all).
 *
 *   measure SECONDS PATTERN:SIZE…
 *
 * Each PATTERN:SIZE is one of pingpong, stream, rate, allreduce, put, get, with the bytes of a message. For each, rank 0
 * finds how many messages take about SECONDS, then times so many and prints "emp-mpi PATTERN SIZE COUNT SECONDS". What
 * arrives is checked; a wrong byte ends the run.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A huge page, in bytes. Long messages lie on such where the kernel has them, whatever carries them. */
#define HUGE_PAGE ((size_t)2 << 20)
/* Messages from here on are long: shorter ones share their page with others in any program. */
#define LONG_MESSAGE ((size_t)256 << 10)

/* Messages that a stream has under way: about a bandwidth-delay product of small ones, and no more than 16 large. */
#define WINDOW_MOST 64
#define WINDOW_BYTES (16 << 20)

/* Messages of one timing at most. */
#define COUNT_MOST 100000000L

static int rank;
static char *out, *in;
static MPI_Win window = MPI_WIN_NULL;

static void fail(const char *why)
{
	fprintf(stderr, "measure: rank %d: %s\n", rank, why);
	MPI_Abort(MPI_COMM_WORLD, 3);
}

static void pingpong(int size, long count)
{
	for (long n = 0; n < count; n++) {
		if (rank == 0) {
			MPI_Send(out, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
			MPI_Recv(in, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else {
			MPI_Recv(in, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			MPI_Send(out, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
		}
	}
}

static void stream(int size, long count)
{
	MPI_Request requests[WINDOW_MOST];
	int most = WINDOW_BYTES / size;
	char done = 0;

	most = most > WINDOW_MOST ? WINDOW_MOST : most < 2 ? 2 : most;
	for (long n = 0; n < count; n += most) {
		int now = count - n < most ? (int)(count - n) : most;
		for (int i = 0; i < now; i++) {
			if (rank == 0)
				MPI_Isend(out, size, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &requests[i]);
			else
				MPI_Irecv(in, size, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &requests[i]);
		}
		MPI_Waitall(now, requests, MPI_STATUSES_IGNORE);
	}
	/* The last has arrived. */
	if (rank == 0)
		MPI_Recv(&done, 1, MPI_BYTE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	else
		MPI_Send(&done, 1, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
}

static void allreduce(int size, long count)
{
	for (long n = 0; n < count; n++)
		MPI_Allreduce(out, in, size / (int)sizeof(int), MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static void put_or_get(int size, long count, int put)
{
	if (rank != 0)
		return;
	for (long n = 0; n < count; n++) {
		if (put)
			MPI_Put(out, size, MPI_BYTE, 1, 0, size, MPI_BYTE, window);
		else
			MPI_Get(in, size, MPI_BYTE, 1, 0, size, MPI_BYTE, window);
		MPI_Win_flush(1, window);
	}
}

static double once(const char *pattern, int size, long count)
{
	double start;

	MPI_Barrier(MPI_COMM_WORLD);
	start = MPI_Wtime();
	if (!strcmp(pattern, "pingpong"))
		pingpong(size, count);
	else if (!strcmp(pattern, "allreduce"))
		allreduce(size, count);
	else if (!strcmp(pattern, "put") || !strcmp(pattern, "get"))
		put_or_get(size, count, *pattern == 'p');
	else
		stream(size, count);
	start = MPI_Wtime() - start;
	/* All go on with the count that rank 0 chooses from its own time. */
	MPI_Bcast(&start, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
	return start;
}

/* What the last message, sum or window holds. */
static void check(const char *pattern, int size)
{
	int ranks;

	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (!strcmp(pattern, "allreduce")) {
		for (int i = 0; i < size / (int)sizeof(int); i++)
			if (((unsigned *)in)[i] != ((unsigned *)out)[i] * (unsigned)ranks)
				fail("a sum is wrong");
	} else if (!strcmp(pattern, "put")) {
		char *memory;
		int flag;
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Win_get_attr(window, MPI_WIN_BASE, &memory, &flag);
		MPI_Win_sync(window);
		if (rank == 1 && memcmp(memory, out, size))
			fail("a byte that was put is wrong");
	} else if (!strcmp(pattern, "get")) {
		if (rank == 0 && memcmp(in, out, size))
			fail("a byte that was got is wrong");
	} else if ((rank == 1 || !strcmp(pattern, "pingpong")) && memcmp(in, out, size)) {
		fail("a byte of a message is wrong");
	}
}

static void open_window(int size)
{
	char *memory;

	if (MPI_Win_allocate(size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window) != MPI_SUCCESS)
		fail("this MPI has no one-sided operations here");
	memcpy(memory, out, size);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, window);
}

static char *buffer(size_t bytes)
{
	void *memory = NULL;
	size_t room = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;

	if (bytes < LONG_MESSAGE)
		memory = malloc(bytes);
	else if (posix_memalign(&memory, HUGE_PAGE, room) == 0)
		madvise(memory, room, MADV_HUGEPAGE);
	if (!memory)
		fail("no memory");
	return memory;
}

static void measure(const char *pattern, int size, double seconds)
{
	int one_sided = !strcmp(pattern, "put") || !strcmp(pattern, "get");
	long count = 2;
	double took;

	out = buffer(size);
	in = buffer(size);
	for (int i = 0; i < size; i++)
		out[i] = (char)(i * 31 + 7);
	memset(in, 0, size);
	if (one_sided)
		open_window(size);
	once(pattern, size, count);
	while ((took = once(pattern, size, count)) < seconds / 4 && count < COUNT_MOST)
		count *= took < seconds / 40 ? 8 : 2;
	count = (long)(count * seconds / took);
	count = count < 1 ? 1 : count > COUNT_MOST ? COUNT_MOST : count;
	took = once(pattern, size, count);
	check(pattern, size);
	if (rank == 0)
		printf("emp-mpi %s %d %ld %.9f\n", pattern, size, count, took), fflush(stdout);
	if (one_sided) {
		MPI_Win_unlock_all(window);
		MPI_Win_free(&window);
	}
	free(out);
	free(in);
}

int main(int argc, char **argv)
{
	int ranks;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	if (ranks != 2 || argc < 3)
		fail("wants two ranks, seconds, and what to measure");
	for (int i = 2; i < argc; i++) {
		char *colon = strchr(argv[i], ':');
		if (!colon || atoi(colon + 1) < 4)
			fail("a job is PATTERN:SIZE, of 4 bytes or more");
		*colon = 0;
		measure(argv[i], atoi(colon + 1), atof(argv[1]));
	}
	MPI_Finalize();
	return 0;
}
