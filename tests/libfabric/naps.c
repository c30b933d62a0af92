/* Whether fi_cq_read gives the core away when it finds nothing: by all queues that a thread looks at together, and not at all
 * with FI_EMP_WAIT=spin. This program's own sched_yield and clock_nanosleep count what the provider asks for. */
#include "world.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Empty looks after which a thread offers the core, at most; taken offers in a row after which it naps. */
enum { PATIENCE_MAX = 256, NAP_AFTER = 500, LOOKS = 4 * PATIENCE_MAX };
/* Longest nap, in nanoseconds. */
#define NAP_MAX 400000

static __thread long offers, naps, too_long;
/* Others take the core whenever it is offered. */
static __thread int crowded;

int sched_yield(void)
{
	offers++;
	if (crowded) {
		double end = now() + 20e-6;

		while (now() < end)
			;
		return 0;
	}
	return syscall(SYS_sched_yield);
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
	naps++;
	too_long += !flags && (time->tv_sec || time->tv_nsec > NAP_MAX);
	return syscall(SYS_clock_nanosleep, clock, flags, time, left) ? errno : 0;
}

/* Two queues that nothing is bound to: there is never anything in them, nor to be done for them. */
struct empty {
	struct world world;
	struct fid_cq *one, *other;
};

static void open_empty(struct empty *empty)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};

	world_open(&empty->world, &(struct options){.cq = {.wait_obj = FI_WAIT_FD}});
	EQUAL(fi_cq_open(empty->world.a.domain, &attr, &empty->one, NULL), 0);
	EQUAL(fi_cq_open(empty->world.a.domain, &attr, &empty->other, NULL), 0);
}

static void close_empty(struct empty *empty)
{
	EQUAL(fi_close(&empty->one->fid), 0);
	EQUAL(fi_close(&empty->other->fid), 0);
	world_close(&empty->world);
}

static void look(struct fid_cq *cq)
{
	struct fi_cq_tagged_entry entry;

	EQUAL(fi_cq_read(cq, &entry, 1), -FI_EAGAIN);
}

/* Each as the first that its thread does. */
static void in_a_thread(void *(*what)(void *), struct empty *empty)
{
	pthread_t thread;

	EQUAL(pthread_create(&thread, NULL, what, empty), 0);
	EQUAL(pthread_join(thread, NULL), 0);
}

static void *looks_count_together(void *argument)
{
	struct empty *empty = argument;

	/* Fewer of each queue than are needed, and more of both. */
	for (int i = 0; i < PATIENCE_MAX - 1; i++) {
		look(empty->one);
		look(empty->other);
	}
	CHECK(offers > 0);
	EQUAL(naps, 0);
	return NULL;
}

/* As many entries as looks, all of them in the queue, and none of them read. */
static void fill(struct empty *empty)
{
	struct side *a = &empty->world.a, *b = &empty->world.b;
	struct fid *fids[] = {&b->cq->fid};
	static volatile char in[LOOKS];
	double end = now() + PATIENCE;
	int sent = 0;

	memset((char *)in, 0, sizeof in);
	for (int i = 0; i < LOOKS; i++)
		EQUAL(fi_recv(b->ep, (char *)&in[i], 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
	while (!in[LOOKS - 1] && now() < end) {
		struct fi_cq_tagged_entry entry;

		if (sent < LOOKS)
			sent += fi_inject(a->ep, "n", 1, a->peer) == 0;
		fi_cq_read(a->cq, &entry, 1);
		fi_trywait(empty->world.fabric, fids, 1);
	}
	EQUAL(in[LOOKS - 1], 'n');
}

static void *one_queue_with_something_is_enough(void *argument)
{
	struct empty *empty = argument;
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < LOOKS; i++) {
		EQUAL(fi_cq_read(empty->world.b.cq, &entry, 1), 1);
		look(empty->one);
	}
	EQUAL(offers, 0);
	EQUAL(naps, 0);
	return NULL;
}

static void *who_waits_long_among_others_naps(void *argument)
{
	struct empty *empty = argument;

	crowded = 1;
	for (int i = 0; i < PATIENCE_MAX + NAP_AFTER - 2; i++)
		look(i % 2 ? empty->one : empty->other);
	EQUAL(naps, 0);
	for (int i = 0; i < LOOKS; i++)
		look(i % 2 ? empty->one : empty->other);
	CHECK(naps > LOOKS / 2);
	EQUAL(too_long, 0);
	return NULL;
}

static void *spinning_gives_nothing_away(void *argument)
{
	struct empty *empty = argument;

	crowded = 1;
	for (int i = 0; i < LOOKS + NAP_AFTER; i++) {
		look(empty->one);
		look(empty->other);
	}
	EQUAL(offers, 0);
	EQUAL(naps, 0);
	return NULL;
}

void test_naps(void)
{
	struct empty empty;

	open_empty(&empty);
	in_a_thread(looks_count_together, &empty);
	fill(&empty);
	in_a_thread(one_queue_with_something_is_enough, &empty);
	in_a_thread(who_waits_long_among_others_naps, &empty);
	close_empty(&empty);

	setenv("FI_EMP_WAIT", "spin", 1);
	open_empty(&empty);
	in_a_thread(spinning_gives_nothing_away, &empty);
	close_empty(&empty);
	unsetenv("FI_EMP_WAIT");
}
