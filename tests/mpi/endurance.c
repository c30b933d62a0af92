/*
 * A mixed load for many ranks, drawn from a seed, that judges itself: messages of all sizes, probes, collectives, one-sided
 * operations, communicators that come and go, ranks that compute meanwhile. For any number of ranks from 2.
 *
 *   mpicc -O1 -o endurance endurance.c && mpiexec -n 16 ./endurance SECONDS [SEED]
 *
 * Ends with 0 if all is well. If a round does not end in time, each rank says in which kind of round it is, and ends.
 */
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Seconds after which one round counts as hanging: a thousand times what most take, on a machine that is busy. */
#define LIMIT 120

/* Largest message: beyond every eager limit and several windows of pulls. */
#define MOST (2 << 20)

static int rank, ranks, failures;
static const char *doing = "starting";
static long rounds;

#define CHECK(condition)                                                                          \
	do {                                                                                      \
		if (!(condition) && failures++ < 20)                                              \
			fprintf(stderr, "rank %d, round %ld, %s:%d: not so: %s\n", rank, rounds,  \
				__func__, __LINE__, #condition);                                  \
	} while (0)

/* Two streams: all ranks draw the same from `common`, each its own from `own`. */
static uint64_t common, own;

static uint32_t draw(uint64_t *state, uint32_t below)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (uint32_t)((*state >> 20) % below);
}

/* Sizes as programs have them: mostly small, at times around the limits where another protocol begins, some large. */
static int draw_size(uint64_t *state)
{
	static const int edges[] = {0, 1, 8, 64, 1024, 1025, 1460, 4096, 16384, 65536, 65537, 131072};
	switch (draw(state, 4)) {
	case 0: return edges[draw(state, sizeof edges / sizeof *edges)];
	case 1: return (int)draw(state, 64);
	case 2: return (int)draw(state, 8192);
	default: return draw(state, 8) ? (int)draw(state, 200000) : (int)draw(state, MOST);
	}
}

static unsigned char pattern(int at, int seed)
{
	return (unsigned char)(at * 31 + (at >> 11) * 5 + seed * 17);
}

static void fill(unsigned char *bytes, int count, int seed)
{
	for (int i = 0; i < count; i++)
		bytes[i] = pattern(i, seed);
}

/* Every byte of short messages, each 61st and the last of long ones: the round is for the transport, not for this loop. */
static int filled(const unsigned char *bytes, int count, int seed)
{
	int step = count > 4096 ? 61 : 1;

	for (int i = 0; i < count; i += step)
		if (bytes[i] != pattern(i, seed))
			return 0;
	return count == 0 || bytes[count - 1] == pattern(count - 1, seed);
}

/* Each to the rank so many places on, a few at a time, received in another order than sent. */
static void shifts(void)
{
	enum { MANY = 6 };
	int by = 1 + (int)draw(&common, ranks - 1), sizes[MANY], many = 1 + (int)draw(&common, MANY);
	int to = (rank + by) % ranks, from = (rank + ranks - by) % ranks;
	unsigned char *out[MANY], *in[MANY];
	MPI_Request requests[2 * MANY];
	MPI_Status statuses[2 * MANY];

	for (int i = 0; i < many; i++) {
		sizes[i] = draw_size(&common);
		out[i] = malloc(sizes[i] + 1);
		in[i] = malloc(sizes[i] + 1);
		fill(out[i], sizes[i], rank + i);
	}
	for (int i = 0; i < many; i++)
		MPI_Isend(out[i], sizes[i], MPI_BYTE, to, i, MPI_COMM_WORLD, &requests[i]);
	for (int i = many - 1; i >= 0; i--)
		MPI_Irecv(in[i], sizes[i], MPI_BYTE, from, i, MPI_COMM_WORLD, &requests[many + i]);
	MPI_Waitall(2 * many, requests, statuses);
	for (int i = 0; i < many; i++) {
		int got;

		MPI_Get_count(&statuses[many + i], MPI_BYTE, &got);
		CHECK(got == sizes[i] && filled(in[i], got, from + i));
		free(out[i]);
		free(in[i]);
	}
}

/* Each sends some messages to ranks that it draws; they are found by probing, of each of the four kinds. */
static void probes(void)
{
	enum { EACH = 12, ROOM = 20000 };
	unsigned char *out = malloc(EACH * ROOM), *in = malloc(ROOM);
	int *to_each = calloc(ranks, sizeof *to_each), *from_each = calloc(ranks, sizeof *from_each);
	int expected = 0, each = 1 + (int)draw(&own, EACH);
	MPI_Request requests[EACH];

	for (int i = 0; i < each; i++) {
		int to = (int)draw(&own, ranks), bytes = (int)draw(&own, draw(&own, 3) ? 600 : ROOM);

		to_each[to]++;
		fill(out + i * ROOM, bytes, rank);
		MPI_Isend(out + i * ROOM, bytes, MPI_BYTE, to, 1000 + i, MPI_COMM_WORLD, &requests[i]);
	}
	MPI_Alltoall(to_each, 1, MPI_INT, from_each, 1, MPI_INT, MPI_COMM_WORLD);
	for (int i = 0; i < ranks; i++)
		expected += from_each[i];
	while (expected-- > 0) {
		int kind = (int)draw(&own, 4), found = 0, bytes;
		MPI_Message message;
		MPI_Status status;

		switch (kind) {
		case 0: MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status); break;
		case 1:
			while (!found)
				MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &status);
			break;
		case 2: MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status); break;
		default:
			while (!found)
				MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &message, &status);
		}
		MPI_Get_count(&status, MPI_BYTE, &bytes);
		CHECK(bytes < ROOM && status.MPI_TAG >= 1000);
		if (kind < 2)
			MPI_Recv(in, ROOM, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status);
		else
			MPI_Mrecv(in, ROOM, MPI_BYTE, &message, &status);
		CHECK(filled(in, bytes, status.MPI_SOURCE));
	}
	MPI_Waitall(each, requests, MPI_STATUSES_IGNORE);
	/* The next round's wildcards must not take what others still look for. */
	MPI_Barrier(MPI_COMM_WORLD);
	free(out);
	free(in);
	free(to_each);
	free(from_each);
}

static void collectives(void)
{
	int count = 1 + draw_size(&common) / (int)sizeof(int64_t) / 4, root = (int)draw(&common, ranks);
	int64_t *mine = malloc(count * sizeof *mine), *all = malloc((size_t)count * sizeof *all);

	for (int i = 0; i < count; i++)
		mine[i] = rank + i;
	MPI_Allreduce(mine, all, count, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < count; i++)
		CHECK(all[i] == (int64_t)i * ranks + (int64_t)ranks * (ranks - 1) / 2);
	for (int i = 0; i < count; i++)
		mine[i] = rank == root ? i * 3 + root : -1;
	MPI_Bcast(mine, count, MPI_INT64_T, root, MPI_COMM_WORLD);
	for (int i = 0; i < count; i++)
		CHECK(mine[i] == i * 3 + root);
	MPI_Reduce(mine, all, count, MPI_INT64_T, MPI_MAX, root, MPI_COMM_WORLD);
	CHECK(rank != root || all[count - 1] == (count - 1) * 3 + root);
	free(mine);
	free(all);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* Blocks of a different size for each pair. */
static void everyone_to_everyone(void)
{
	int *counts = malloc(4 * ranks * sizeof *counts), scale = 1 + (int)draw(&common, 3000);
	int *out_at = counts + ranks, *in_counts = counts + 2 * ranks, *in_at = counts + 3 * ranks, out_all = 0, in_all = 0;

	for (int i = 0; i < ranks; i++) {
		counts[i] = (rank * 7 + i * 3) % 11 * scale;
		in_counts[i] = (i * 7 + rank * 3) % 11 * scale;
		out_at[i] = out_all;
		in_at[i] = in_all;
		out_all += counts[i];
		in_all += in_counts[i];
	}
	unsigned char *out = malloc(out_all + 1), *in = malloc(in_all + 1);
	for (int i = 0; i < ranks; i++)
		fill(out + out_at[i], counts[i], rank * ranks + i);
	MPI_Alltoallv(out, counts, out_at, MPI_BYTE, in, in_counts, in_at, MPI_BYTE, MPI_COMM_WORLD);
	for (int i = 0; i < ranks; i++)
		CHECK(filled(in + in_at[i], in_counts[i], i * ranks + rank));
	free(out);
	free(in);
	free(counts);
}

/* A window in which each rank has a counter that everyone draws numbers from, and a room that its neighbour fills. */
static void one_sided(void)
{
	int bytes = 1 + draw_size(&common) / 8, draws = 1 + (int)draw(&common, 10);
	int by = 1 + (int)draw(&common, ranks - 1), to = (rank + by) % ranks, from = (rank + ranks - by) % ranks;
	int64_t *memory, one = 1, old;
	unsigned char *mine = malloc(bytes), *room;
	MPI_Win window;

	MPI_Win_allocate(64 + bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
	memset(memory, 0, 64 + bytes);
	room = (unsigned char *)memory + 64;
	fill(mine, bytes, rank);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, window);
	for (int i = 0; i < draws; i++) {
		MPI_Fetch_and_op(&one, &old, MPI_INT64_T, i % ranks, 0, MPI_SUM, window);
		MPI_Win_flush(i % ranks, window);
		CHECK(old >= 0 && old < (int64_t)ranks * draws);
		MPI_Accumulate(&one, 1, MPI_INT64_T, (rank + i) % ranks, 8, 1, MPI_INT64_T, MPI_SUM, window);
	}
	MPI_Put(mine, bytes, MPI_BYTE, to, 64, bytes, MPI_BYTE, window);
	MPI_Win_unlock_all(window);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
	int64_t turns = rank < draws ? (draws - rank + ranks - 1) / ranks : 0;
	CHECK(memory[0] == turns * ranks && memory[1] == draws);
	CHECK(filled(room, bytes, from));
	MPI_Win_unlock(rank, window);
	MPI_Win_fence(0, window);
	MPI_Get(mine, bytes, MPI_BYTE, to, 64, bytes, MPI_BYTE, window);
	MPI_Win_fence(0, window);
	CHECK(filled(mine, bytes, rank));
	MPI_Win_free(&window);
	free(mine);
}

static void communicators(void)
{
	int colours = 1 + (int)draw(&common, 4), size, sum, one = 1, same = (ranks - rank % colours + colours - 1) / colours;
	MPI_Comm part, copy;

	MPI_Comm_split(MPI_COMM_WORLD, rank % colours, -rank, &part);
	MPI_Comm_dup(part, &copy);
	MPI_Comm_size(copy, &size);
	MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, copy);
	CHECK(sum == size && size == same);
	MPI_Comm_free(&copy);
	MPI_Comm_free(&part);
}

/* Some ranks make no calls for a while, others sleep; their neighbours wait for them with messages on the way. */
static void absences(void)
{
	enum { BYTES = 300000 };
	unsigned char *out = malloc(BYTES), *in = malloc(BYTES);
	int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks, ms = (int)draw(&own, 60);
	MPI_Request requests[2];

	fill(out, BYTES, rank);
	MPI_Irecv(in, BYTES, MPI_BYTE, from, 5, MPI_COMM_WORLD, &requests[0]);
	MPI_Isend(out, BYTES, MPI_BYTE, to, 5, MPI_COMM_WORLD, &requests[1]);
	if (draw(&own, 2)) {
		usleep(ms * 1000);
	} else {
		double until = MPI_Wtime() + ms / 1000.0;

		while (MPI_Wtime() < until)
			;
	}
	MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	CHECK(filled(in, BYTES, from));
	free(out);
	free(in);
}

static void hanging(int signal)
{
	char text[200];
	int bytes = snprintf(text, sizeof text, "endurance: rank %d hangs in round %ld: %s\n", rank, rounds, doing);

	(void)signal;
	if (write(2, text, bytes) < 0)
		_exit(4);
	/* Time to look at it, and for the other ranks to say where they are. */
	if (getenv("ENDURANCE_STAY"))
		pause();
	sleep(2);
	_exit(3);
}

int main(int count, char **arguments)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} kinds[] = {
		{"shifts", shifts},
		{"probes", probes},
		{"collectives", collectives},
		{"everyone to everyone", everyone_to_everyone},
		{"one-sided", one_sided},
		{"communicators", communicators},
		{"absences", absences},
	};
	double seconds = count > 1 ? atof(arguments[1]) : 30, start;
	uint64_t seed = count > 2 ? strtoull(arguments[2], NULL, 10) : 1;
	int goes_on = 1, all;

	signal(SIGALRM, hanging);
	alarm(LIMIT);
	MPI_Init(&count, &arguments);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	common = seed * 0x9e3779b97f4a7c15u + 1;
	own = common ^ ((uint64_t)(rank + 1) << 32);
	start = MPI_Wtime();
	while (goes_on) {
		int kind = (int)draw(&common, sizeof kinds / sizeof *kinds);

		alarm(LIMIT);
		rounds++;
		doing = kinds[kind].name;
		kinds[kind].run();
		doing = "deciding whether to go on";
		goes_on = MPI_Wtime() - start < seconds;
		MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
	}
	doing = "counting failures";
	MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%d ranks, %ld rounds: %s\n", ranks, rounds, all ? "FAILED" : "all is well");
	fflush(stdout);
	doing = "ending";
	MPI_Finalize();
	return all != 0;
}
