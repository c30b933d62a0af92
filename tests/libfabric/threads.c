/* FI_THREAD_SAFE (fi_domain(3)): several threads post to one endpoint and read one completion queue at a time. */
#include "world.h"

#include <pthread.h>
#include <sched.h>

enum { THREADS = 4, ROUNDS = 2000, WINDOW = 8 };

struct worker {
	struct world *world;
	uint64_t tag;
	/* Ends that any thread may have read. */
	int sent, received, wrong;
	uint64_t in[WINDOW];
};

/* Reads what there is and credits whom it belongs to: its context. */
static void credit(struct fid_cq *cq)
{
	struct fi_cq_tagged_entry entries[4];
	ssize_t got = fi_cq_read(cq, entries, 4);

	for (ssize_t i = 0; i < got; i++) {
		struct worker *of = entries[i].op_context;

		__atomic_add_fetch(entries[i].flags & FI_RECV ? &of->received : &of->sent, 1, __ATOMIC_ACQ_REL);
	}
	if (got <= 0)
		sched_yield();
}

static void until(struct worker *mine, int *count, int wanted)
{
	double end = now() + PATIENCE;

	while (__atomic_load_n(count, __ATOMIC_ACQUIRE) < wanted && now() < end) {
		credit(mine->world->a.cq);
		credit(mine->world->b.cq);
	}
	mine->wrong += __atomic_load_n(count, __ATOMIC_ACQUIRE) < wanted;
}

static void *work(void *argument)
{
	struct worker *mine = argument;
	struct world *world = mine->world;
	uint64_t out[WINDOW];

	for (int round = 0; round < ROUNDS / WINDOW && !mine->wrong; round++) {
		int first = round * WINDOW;

		for (int i = 0; i < WINDOW; i++) {
			while (fi_trecv(world->b.ep, &mine->in[i], 8, NULL, FI_ADDR_UNSPEC, mine->tag, 0, mine) ==
			       -FI_EAGAIN)
				credit(world->b.cq);
		}
		for (int i = 0; i < WINDOW; i++) {
			out[i] = mine->tag * 1000000 + first + i;
			while (fi_tsend(world->a.ep, &out[i], 8, NULL, world->a.peer, mine->tag, mine) == -FI_EAGAIN)
				credit(world->a.cq);
		}
		until(mine, &mine->received, first + WINDOW);
		until(mine, &mine->sent, first + WINDOW);
		/* Each thread's messages are in its own order, whatever the others do. */
		for (int i = 0; i < WINDOW; i++)
			mine->wrong += mine->in[i] != mine->tag * 1000000 + first + i;
	}
	return NULL;
}

void test_threads(void)
{
	struct worker workers[THREADS] = {0};
	pthread_t threads[THREADS];
	struct world world;

	world_open(&world, NULL);
	EQUAL(world.info->domain_attr->threading, FI_THREAD_SAFE);
	for (int i = 0; i < THREADS; i++) {
		workers[i].world = &world;
		workers[i].tag = i + 1;
		EQUAL(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		EQUAL(pthread_join(threads[i], NULL), 0);
		EQUAL(workers[i].wrong, 0);
		EQUAL(workers[i].received, ROUNDS);
		EQUAL(workers[i].sent, ROUNDS);
	}
	world_close(&world);
}
