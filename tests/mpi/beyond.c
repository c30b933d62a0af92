/*
 * What mpi4py's suite, NetPIPE and HPCC leave out, in one program that judges itself: one-sided operations and atomics,
 * persistent and partitioned requests, counts beyond 2^31, many communicators, threads, cancelled receives, storms of
 * probes. For any even number of ranks from 2; takes no arguments; ends with 0 if all is well, within LIMIT seconds.
 *
 *   mpicc -O1 -o beyond beyond.c -lpthread && mpiexec -n 4 ./beyond
 *
 * What an MPI does not have (its standard is older, or it grants less than MPI_THREAD_MULTIPLE) is said to be left out.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Seconds after which a hanging rank is ended: many times what the program takes. */
#define LIMIT 240

/* Open MPI 4 hands every operator to libfabric but knows the names of two: it ends the program with the others. */
#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION < 5
#define ALL_ATOMICS 0
#else
#define ALL_ATOMICS 1
#endif

/* Before 4.1.5, `osc rdma` of Open MPI takes the lock of a dynamic window's list exclusively and then waits for it to be
 * free to share (mended in its pull request 10518). */
#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION * 10000 + OMPI_MINOR_VERSION * 100 + OMPI_RELEASE_VERSION < 40105
#define DYNAMIC_WINDOWS 0
#else
#define DYNAMIC_WINDOWS 1
#endif

static int rank, ranks, failures, threads_granted;

#define CHECK(condition)                                                                          \
	do {                                                                                      \
		if (!(condition)) {                                                               \
			if (failures++ < 20)                                                      \
				fprintf(stderr, "rank %d, %s:%d: not so: %s\n", rank, __func__,   \
					__LINE__, #condition);                                    \
		}                                                                                 \
	} while (0)

static uint32_t next_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	return *state ^= *state << 5;
}

static unsigned char pattern(uint64_t at, int seed)
{
	return (unsigned char)(at * 31 + (at >> 11) * 5 + (unsigned)seed * 17);
}

static int filled(const unsigned char *bytes, uint64_t count, int seed)
{
	for (uint64_t i = 0; i < count; i++)
		if (bytes[i] != pattern(i, seed))
			return 0;
	return 1;
}

static void fill(unsigned char *bytes, uint64_t count, int seed)
{
	for (uint64_t i = 0; i < count; i++)
		bytes[i] = pattern(i, seed);
}

/* Puts and gets of many sizes between fences: each rank writes to the one after it and reads from the one before it. */
static void put_and_get(void)
{
	enum { ROOM = 1 << 20 };
	static const int sizes[] = {0, 1, 7, 64, 1000, 4096, 65536, 300001, ROOM};
	int after = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
	unsigned char *memory, *mine = malloc(ROOM);
	MPI_Win window;

	MPI_Win_allocate(2 * ROOM, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
	for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++) {
		int bytes = sizes[i];

		memset(memory, 0, ROOM);
		fill(memory + ROOM, ROOM, rank + 50);
		fill(mine, ROOM, rank);
		MPI_Win_fence(0, window);
		MPI_Put(mine, bytes, MPI_BYTE, after, 0, bytes, MPI_BYTE, window);
		MPI_Win_fence(0, window);
		CHECK(filled(memory, bytes, before));
		CHECK(bytes == ROOM || memory[bytes] == 0);
		MPI_Get(mine, bytes, MPI_BYTE, before, ROOM, bytes, MPI_BYTE, window);
		MPI_Win_fence(0, window);
		CHECK(filled(mine, bytes, before + 50));
	}
	/* Strided on both sides. */
	MPI_Datatype comb;
	MPI_Type_vector(1000, 3, 10, MPI_BYTE, &comb);
	MPI_Type_commit(&comb);
	memset(memory, 0xee, ROOM);
	fill(mine, 10000, rank);
	MPI_Win_fence(0, window);
	MPI_Put(mine, 1, comb, after, 5, 1, comb, window);
	MPI_Win_fence(0, window);
	for (int i = 0; i < 9993; i++)
		CHECK(memory[5 + i] == (i % 10 < 3 ? pattern(i, before) : 0xee));
	MPI_Type_free(&comb);
	MPI_Win_free(&window);
	free(mine);
}

/* Everyone changes the same words of rank 0 at once. */
static void contended_atomics(void)
{
	enum { ROUNDS = 200 };
	int64_t *words, one = 1, old, seen = -1;
	MPI_Win window;

	MPI_Win_allocate(8 * sizeof *words, sizeof *words, MPI_INFO_NULL, MPI_COMM_WORLD, &words, &window);
	memset(words, 0, 8 * sizeof *words);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, window);
	for (int i = 0; i < ROUNDS; i++) {
		MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 0, 0, MPI_SUM, window);
		MPI_Win_flush(0, window);
		/* Each draws another number, and they grow. */
		CHECK(old > seen && old < (int64_t)ROUNDS * ranks);
		seen = old;
		MPI_Accumulate(&one, 1, MPI_INT64_T, 0, 1, 1, MPI_INT64_T, MPI_SUM, window);
		/* A lock made of compare-and-swap around a counter that is not atomic. */
		if (i % 10 == 0) {
			int64_t free_word = 0, taken = rank + 1, got;

			do {
				MPI_Compare_and_swap(&taken, &free_word, &got, MPI_INT64_T, 0, 2, window);
				MPI_Win_flush(0, window);
			} while (got != 0);
			int64_t count;
			MPI_Get(&count, 1, MPI_INT64_T, 0, 3, 1, MPI_INT64_T, window);
			MPI_Win_flush(0, window);
			count++;
			MPI_Put(&count, 1, MPI_INT64_T, 0, 3, 1, MPI_INT64_T, window);
			MPI_Win_flush(0, window);
			MPI_Compare_and_swap(&free_word, &taken, &got, MPI_INT64_T, 0, 2, window);
			MPI_Win_flush(0, window);
			CHECK(got == taken);
		}
	}
	int64_t mine = 1LL << (rank % 60), highest = rank;
	if (ALL_ATOMICS) {
		MPI_Accumulate(&mine, 1, MPI_INT64_T, 0, 4, 1, MPI_INT64_T, MPI_BOR, window);
		MPI_Accumulate(&highest, 1, MPI_INT64_T, 0, 5, 1, MPI_INT64_T, MPI_MAX, window);
	}
	MPI_Win_unlock_all(window);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0) {
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
		CHECK(words[0] == (int64_t)ROUNDS * ranks && words[1] == (int64_t)ROUNDS * ranks);
		CHECK(words[2] == 0 && words[3] == (int64_t)(ROUNDS / 10) * ranks);
		if (ALL_ATOMICS) {
			CHECK(words[4] == (ranks >= 60 ? (1LL << 60) - 1 : (1LL << ranks) - 1));
			CHECK(words[5] == ranks - 1);
		}
		MPI_Win_unlock(0, window);
	}
	MPI_Win_free(&window);
}

/* Long accumulates of floating numbers, general synchronisation, and windows over memory that is there already. */
static void accumulates_and_groups(void)
{
	enum { COUNT = 40000 };
	double *memory = calloc(COUNT, sizeof *memory), *mine = malloc(COUNT * sizeof *mine);
	MPI_Group world, peer;
	MPI_Win window;

	for (int i = 0; i < COUNT; i++)
		mine[i] = i % 100 + rank;
	MPI_Win_create(memory, COUNT * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
	MPI_Win_fence(0, window);
	for (int to = 0; to < ranks; to++)
		MPI_Accumulate(mine, COUNT, MPI_DOUBLE, to, 0, COUNT, MPI_DOUBLE, MPI_SUM, window);
	MPI_Win_fence(0, window);
	double ranks_sum = ranks * (ranks - 1) / 2.0;
	for (int i = 0; i < COUNT; i++)
		CHECK(memory[i] == (i % 100) * (double)ranks + ranks_sum);
	MPI_Barrier(MPI_COMM_WORLD);
	int other = rank ^ 1;
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_incl(world, 1, &other, &peer);
	for (int turn = 0; turn < 20; turn++) {
		double value = turn * 1000 + rank;

		MPI_Win_post(peer, 0, window);
		MPI_Win_start(peer, 0, window);
		MPI_Put(&value, 1, MPI_DOUBLE, other, turn, 1, MPI_DOUBLE, window);
		MPI_Win_complete(window);
		MPI_Win_wait(window);
		CHECK(memory[turn] == turn * 1000 + other);
	}
	MPI_Group_free(&peer);
	MPI_Group_free(&world);
	MPI_Win_free(&window);
	free(memory);
	free(mine);
}

/* A window whose memory comes and goes. */
static void dynamic_window(void)
{
	static int cells[64];
	MPI_Aint place, *places = malloc(ranks * sizeof *places);
	MPI_Win window;

	for (int i = 0; i < 64; i++)
		cells[i] = -1;
	MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window);
	MPI_Win_attach(window, cells, sizeof cells);
	MPI_Get_address(cells, &place);
	MPI_Allgather(&place, 1, MPI_AINT, places, 1, MPI_AINT, MPI_COMM_WORLD);
	int to = (rank + 1) % ranks, value = rank * 3;
	MPI_Win_lock(MPI_LOCK_SHARED, to, 0, window);
	MPI_Put(&value, 1, MPI_INT, to, MPI_Aint_add(places[to], 8 * sizeof(int)), 1, MPI_INT, window);
	MPI_Win_unlock(to, window);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
	CHECK(cells[8] == (rank + ranks - 1) % ranks * 3 && cells[9] == -1);
	MPI_Win_unlock(rank, window);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_detach(window, cells);
	MPI_Win_free(&window);
	free(places);
}

/* Requests that are started again and again. */
static void persistent(void)
{
	enum { EACH = 8, TURNS = 50, BYTES = 20000 };
	static unsigned char out[EACH][BYTES], in[EACH][BYTES];
	MPI_Request requests[2 * EACH];
	int other = rank ^ 1;

	for (int i = 0; i < EACH; i++) {
		int bytes = i % 2 ? BYTES : 100;

		MPI_Recv_init(in[i], bytes, MPI_BYTE, other, i, MPI_COMM_WORLD, &requests[i]);
		if (i % 3 == 0)
			MPI_Ssend_init(out[i], bytes, MPI_BYTE, other, i, MPI_COMM_WORLD, &requests[EACH + i]);
		else
			MPI_Send_init(out[i], bytes, MPI_BYTE, other, i, MPI_COMM_WORLD, &requests[EACH + i]);
	}
	for (int turn = 0; turn < TURNS; turn++) {
		for (int i = 0; i < EACH; i++)
			fill(out[i], BYTES, rank + turn + i);
		MPI_Startall(2 * EACH, requests);
		MPI_Waitall(2 * EACH, requests, MPI_STATUSES_IGNORE);
		for (int i = 0; i < EACH; i++)
			CHECK(filled(in[i], i % 2 ? BYTES : 100, other + turn + i));
	}
	for (int i = 0; i < 2 * EACH; i++)
		MPI_Request_free(&requests[i]);
}

#if MPI_VERSION >= 4
/* One message whose parts become ready one by one, out of order. */
static void partitioned(void)
{
	enum { PARTS = 16, PART = 3000, TURNS = 10 };
	static unsigned char bytes[PARTS * PART];
	MPI_Request request;
	int other = rank ^ 1, sends = rank % 2 == 0;

	if (sends)
		MPI_Psend_init(bytes, PARTS, PART, MPI_BYTE, other, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
	else
		MPI_Precv_init(bytes, PARTS, PART, MPI_BYTE, other, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
	for (int turn = 0; turn < TURNS; turn++) {
		if (sends)
			fill(bytes, sizeof bytes, turn + other);
		else
			memset(bytes, 0, sizeof bytes);
		MPI_Start(&request);
		if (sends) {
			for (int i = 0; i < PARTS; i++)
				MPI_Pready((i * 7 + turn) % PARTS, request);
		} else {
			int arrived = 0;

			while (!arrived)
				MPI_Parrived(request, turn % PARTS, &arrived);
		}
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		if (!sends)
			CHECK(filled(bytes, sizeof bytes, turn + rank));
	}
	MPI_Request_free(&request);
}

/* More bytes than an int counts, from rank 0 to the last one. */
static void large_count(void)
{
	MPI_Count bytes = ((MPI_Count)1 << 31) + 17, got = 0;
	int last = ranks - 1, room = 1;
	unsigned char *memory = NULL;
	MPI_Status status;

	if (rank == 0 || rank == last)
		room = (memory = malloc(bytes)) != NULL;
	MPI_Allreduce(MPI_IN_PLACE, &room, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
	if (!room && rank == 0)
		puts("left out: large counts (not enough memory)");
	if (room && rank == 0) {
		for (MPI_Count i = 0; i < bytes; i += 4096)
			memory[i] = pattern(i >> 12, 1);
		memory[bytes - 1] = 99;
		MPI_Send_c(memory, bytes, MPI_BYTE, last, 1, MPI_COMM_WORLD);
	} else if (room && rank == last) {
		MPI_Recv_c(memory, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &status);
		MPI_Get_count_c(&status, MPI_BYTE, &got);
		CHECK(got == bytes && memory[bytes - 1] == 99);
		int same = 1;
		for (MPI_Count i = 0; i < bytes - 1; i += 4096)
			same &= memory[i] == pattern(i >> 12, 1);
		CHECK(same);
	}
	free(memory);
	MPI_Barrier(MPI_COMM_WORLD);
}
#endif

/* Many communicators at once: messages with the same tag must not cross over. */
static void communicators(void)
{
	enum { MANY = 100 };
	MPI_Comm comms[MANY], half;
	MPI_Request requests[2 * MANY];
	int out[MANY], in[MANY], other = rank ^ 1;

	for (int i = 0; i < MANY; i++)
		MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
	for (int i = 0; i < MANY; i++) {
		out[i] = rank * 1000 + i;
		MPI_Isend(&out[i], 1, MPI_INT, other, 0, comms[i], &requests[i]);
	}
	/* Received in another order than sent. */
	for (int i = 0; i < MANY; i++) {
		int which = (i * 37 + 11) % MANY;

		MPI_Irecv(&in[which], 1, MPI_INT, other, 0, comms[which], &requests[MANY + i]);
	}
	MPI_Waitall(2 * MANY, requests, MPI_STATUSES_IGNORE);
	for (int i = 0; i < MANY; i++)
		CHECK(in[i] == other * 1000 + i);
	for (int i = 0; i < MANY; i += 10) {
		int sum, one = 1;

		MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comms[i]);
		CHECK(sum == ranks);
	}
	for (int i = 0; i < MANY; i++)
		MPI_Comm_free(&comms[i]);
	for (int i = 0; i < 50; i++) {
		int size;

		MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
		MPI_Comm_size(half, &size);
		MPI_Barrier(half);
		CHECK(size == ranks / 2);
		MPI_Comm_free(&half);
	}
}

/* Receives that are cancelled take nothing; those beside them are not harmed. */
static void cancelled(void)
{
	int other = rank ^ 1, flag;
	MPI_Request requests[20];
	MPI_Status status;

	for (int turn = 0; turn < 10; turn++) {
		int in[20], out = 7 + turn;

		for (int i = 0; i < 20; i++)
			MPI_Irecv(&in[i], 1, MPI_INT, other, 100 + i, MPI_COMM_WORLD, &requests[i]);
		for (int i = 0; i < 20; i++) {
			if (i == 10)
				continue;
			MPI_Cancel(&requests[i]);
			MPI_Wait(&requests[i], &status);
			MPI_Test_cancelled(&status, &flag);
			CHECK(flag);
		}
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Send(&out, 1, MPI_INT, other, 110, MPI_COMM_WORLD);
		MPI_Wait(&requests[10], &status);
		CHECK(in[10] == 7 + turn);
	}
}

/* Everyone sends everyone messages of random sizes; they are found by probing, of each of the four kinds. */
static void probe_storm(void)
{
	enum { EACH = 60, MOST = 9000 };
	int total = EACH * (ranks - 1), sent = 0;
	uint32_t state = 12345 + rank;
	unsigned char *in = malloc(MOST), *out = malloc((size_t)total * MOST);
	MPI_Request *requests = malloc(total * sizeof *requests);
	int *next_of = calloc(ranks, sizeof *next_of);

	for (int i = 0; i < EACH; i++)
		for (int to = 0; to < ranks; to++) {
			unsigned char *bytes = out + (size_t)sent * MOST;
			int count = (int)(next_random(&state) % MOST);

			if (to == rank)
				continue;
			fill(bytes, count, rank + i);
			/* The tag says which of its sender's it is. */
			MPI_Isend(bytes, count, MPI_BYTE, to, i, MPI_COMM_WORLD, &requests[sent++]);
		}
	for (int seen = 0; seen < total; seen++) {
		MPI_Status status;
		MPI_Message message;
		int count, flag = 0, kind = (int)(next_random(&state) % 4);

		switch (kind) {
		case 0: MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status); break;
		case 1:
			while (!flag)
				MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
			break;
		case 2: MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status); break;
		case 3:
			while (!flag)
				MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status);
			break;
		}
		MPI_Get_count(&status, MPI_BYTE, &count);
		CHECK(count < MOST && status.MPI_TAG == next_of[status.MPI_SOURCE]);
		next_of[status.MPI_SOURCE]++;
		if (kind < 2)
			MPI_Recv(in, count, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status);
		else
			MPI_Mrecv(in, count, MPI_BYTE, &message, &status);
		CHECK(filled(in, count, status.MPI_SOURCE + status.MPI_TAG));
	}
	MPI_Waitall(total, requests, MPI_STATUSES_IGNORE);
	free(in);
	free(out);
	free(requests);
	free(next_of);
	MPI_Barrier(MPI_COMM_WORLD);
}

enum { THREADS = 4 };

/* One thread's talk with the same thread of the other rank, on a communicator of their own. */
static void *talk(void *argument)
{
	enum { TURNS = 100, MOST = 30000 };
	MPI_Comm comm = *(MPI_Comm *)argument;
	unsigned char *out = malloc(MOST), *in = malloc(MOST);
	long wrong = 0;
	int other = rank ^ 1;

	for (int turn = 0; turn < TURNS; turn++) {
		int bytes = turn % 7 == 0 ? MOST : turn * 13;
		MPI_Request requests[2];

		fill(out, bytes, turn);
		MPI_Irecv(in, MOST, MPI_BYTE, other, turn, comm, &requests[0]);
		MPI_Isend(out, bytes, MPI_BYTE, other, turn, comm, &requests[1]);
		MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
		wrong += !filled(in, bytes, turn);
	}
	free(out);
	free(in);
	return (void *)wrong;
}

static void threads(void)
{
	MPI_Comm comms[THREADS];
	pthread_t ids[THREADS];
	void *wrong;

	for (int i = 0; i < THREADS; i++)
		MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&ids[i], NULL, talk, &comms[i]);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(ids[i], &wrong);
		CHECK(wrong == NULL);
	}
	for (int i = 0; i < THREADS; i++)
		MPI_Comm_free(&comms[i]);
}

static void run(const char *name, void (*test)(void))
{
	int before = failures, all;
	double start = MPI_Wtime();

	test();
	int mine = failures - before;
	MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%-24s %s (%.2f s)\n", name, all ? "FAILED" : "ok", MPI_Wtime() - start);
	fflush(stdout);
}

/* Whether this MPI makes windows at all, as it was started: Open MPI 4 does not for threads unless it is told to use
 * `--mca osc rdma --mca btl self,ofi`. Any other MPI that does not is at fault. */
static int makes_windows(void)
{
	MPI_Win window;
	char *memory;
	int made;

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	made = MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window) == MPI_SUCCESS;
	if (made)
		MPI_Win_free(&window);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
#ifndef OMPI_MAJOR_VERSION
	CHECK(made);
#endif
	return made;
}

int main(int count, char **arguments)
{
	int all;

	alarm(LIMIT);
	MPI_Init_thread(&count, &arguments, MPI_THREAD_MULTIPLE, &threads_granted);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (ranks < 2 || ranks % 2) {
		fprintf(stderr, "beyond: needs an even number of ranks\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	run("persistent", persistent);
	run("communicators", communicators);
	run("cancel", cancelled);
	run("probe storm", probe_storm);
	if (threads_granted >= MPI_THREAD_MULTIPLE)
		run("threads", threads);
	else if (rank == 0)
		puts("left out: threads (MPI_THREAD_MULTIPLE is not granted)");
	if (makes_windows()) {
		run("put and get", put_and_get);
		run("contended atomics", contended_atomics);
		run("accumulates and groups", accumulates_and_groups);
		if (DYNAMIC_WINDOWS)
			run("dynamic window", dynamic_window);
		else if (rank == 0)
			puts("left out: dynamic windows (Open MPI before 4.1.5)");
	} else if (rank == 0) {
		puts("left out: one-sided operations (windows are not made)");
	}
#if MPI_VERSION >= 4
	run("partitioned", partitioned);
	run("large count", large_count);
#else
	if (rank == 0)
		puts("left out: partitioned, large counts (MPI before 4.0)");
#endif
	MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%d ranks: %s\n", ranks, all ? "FAILED" : "all is well");
	MPI_Finalize();
	return all != 0;
}
