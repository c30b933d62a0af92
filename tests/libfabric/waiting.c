/* Sleeping until something happens: fi_cq_sread, fi_cq_signal, FI_WAIT_FD, fi_trywait (fi_poll(3)). */
#include "world.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

struct later {
	struct world *world;
	void (*what)(struct world *world);
};

static void *do_later(void *argument)
{
	struct later *later = argument;

	usleep(30000);
	later->what(later->world);
	return NULL;
}

static void send_one(struct world *world)
{
	EQUAL(fi_inject(world->a.ep, "w", 1, world->a.peer), 0);
}

static void signal_b(struct world *world)
{
	EQUAL(fi_cq_signal(world->b.cq), 0);
}

static void blocking_reads(enum fi_wait_obj object)
{
	struct fi_cq_tagged_entry entry;
	struct world world;
	struct later later = {&world, send_one};
	pthread_t thread;
	char in = 0;

	world_open(&world, &(struct options){.cq = {.wait_obj = object}});
	EQUAL(fi_recv(world.b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, &in), 0);
	double start = now();
	EQUAL(fi_cq_sread(world.b.cq, &entry, 1, NULL, 20), -FI_EAGAIN);
	CHECK(now() - start > 0.015 && now() - start < 5);
	pthread_create(&thread, NULL, do_later, &later);
	EQUAL(fi_cq_sread(world.b.cq, &entry, 1, NULL, 10000), 1);
	pthread_join(thread, NULL);
	CHECK(in == 'w' && entry.op_context == &in);

	later.what = signal_b;
	pthread_create(&thread, NULL, do_later, &later);
	start = now();
	EQUAL(fi_cq_sread(world.b.cq, &entry, 1, NULL, 10000), -FI_EAGAIN);
	CHECK(now() - start < 5);
	pthread_join(thread, NULL);

	/* One signal ends one call, be it given before that: the next one waits for its whole time. */
	for (int early = 0; early < 3; early++) {
		EQUAL(fi_cq_signal(world.b.cq), 0);
		start = now();
		EQUAL(fi_cq_sread(world.b.cq, &entry, 1, NULL, 10000), -FI_EAGAIN);
		CHECK(now() - start < 5);
		start = now();
		EQUAL(fi_cq_sread(world.b.cq, &entry, 1, NULL, 50), -FI_EAGAIN);
		CHECK(now() - start > 0.04);
	}
	world_close(&world);
}

struct blocked {
	struct world *world;
	ssize_t result;
};

static void *read_blocked(void *argument)
{
	struct blocked *blocked = argument;
	struct fi_cq_tagged_entry entry;

	blocked->result = fi_cq_sread(blocked->world->b.cq, &entry, 1, NULL, 10000);
	return NULL;
}

/* One signal ends all calls that wait, and none that begins after. */
static void several_blocked_reads(void)
{
	enum { THREADS = 3 };
	struct fi_cq_tagged_entry entry;
	struct world world;
	struct blocked blocked[THREADS];
	pthread_t threads[THREADS];

	world_open(&world, NULL);
	for (int i = 0; i < THREADS; i++) {
		blocked[i] = (struct blocked){&world, 0};
		pthread_create(&threads[i], NULL, read_blocked, &blocked[i]);
	}
	usleep(100000);
	double start = now();
	EQUAL(fi_cq_signal(world.b.cq), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		EQUAL(blocked[i].result, -FI_EAGAIN);
	}
	CHECK(now() - start < 5);
	start = now();
	EQUAL(fi_cq_sread(world.b.cq, &entry, 1, NULL, 50), -FI_EAGAIN);
	CHECK(now() - start > 0.04);
	world_close(&world);
}

/* poll(2) as the manual says: only after fi_trywait has agreed. */
static ssize_t poll_for(struct world *world, int fd, struct fi_cq_tagged_entry *entry)
{
	struct fid *fids[] = {&world->b.cq->fid};
	double end = now() + PATIENCE;
	ssize_t result = -FI_EAGAIN;

	while (result == -FI_EAGAIN && now() < end) {
		int sleep = fi_trywait(world->fabric, fids, 1);

		CHECK(sleep == 0 || sleep == -FI_EAGAIN);
		if (!sleep) {
			struct pollfd ready = {fd, POLLIN, 0};

			/* A wake-up that does not come is seen as time. */
			CHECK(poll(&ready, 1, 5000) == 1);
		}
		result = fi_cq_read(world->b.cq, entry, 1);
	}
	return result;
}

static void descriptors(void)
{
	struct fi_cq_tagged_entry entry;
	struct world world;
	struct later later = {&world, send_one};
	enum fi_wait_obj object = FI_WAIT_NONE;
	pthread_t thread;
	char in = 0;
	int fd = -1;

	world_open(&world, &(struct options){.cq = {.wait_obj = FI_WAIT_FD}});
	EQUAL(fi_control(&world.b.cq->fid, FI_GETWAIT, &fd), 0);
	CHECK(fd >= 0);
	EQUAL(fi_control(&world.b.cq->fid, FI_GETWAITOBJ, &object), 0);
	EQUAL(object, FI_WAIT_FD);

	for (int i = 0; i < 5; i++) {
		in = 0;
		EQUAL(fi_recv(world.b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, &in), 0);
		pthread_create(&thread, NULL, do_later, &later);
		EQUAL(poll_for(&world, fd, &entry), 1);
		pthread_join(thread, NULL);
		CHECK(in == 'w');
	}

	/* With an entry to be read, it must not sleep. */
	struct fid *fids[] = {&world.b.cq->fid};
	EQUAL(fi_recv(world.b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, &in), 0);
	send_one(&world);
	turn(&world, 0.02);
	EQUAL(fi_trywait(world.fabric, fids, 1), -FI_EAGAIN);
	struct pollfd ready = {fd, POLLIN, 0};
	EQUAL(fi_cq_read(world.b.cq, &entry, 1), 1);
	/* Quiet again: no wake-ups without a cause. */
	turn(&world, 0.02);
	EQUAL(fi_trywait(world.fabric, fids, 1), 0);
	EQUAL(poll(&ready, 1, 20), 0);
	world_close(&world);
}

static void refusals(void)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fid_cq *cq;
	struct world world;
	int fd;

	world_open(&world, NULL);
	EQUAL(fi_control(&world.b.cq->fid, FI_GETWAIT, &fd), -FI_ENODATA);
	attr.wait_obj = FI_WAIT_SET;
	EQUAL(fi_cq_open(world.a.domain, &attr, &cq, NULL), -FI_ENOSYS);
	attr.wait_obj = FI_WAIT_MUTEX_COND;
	EQUAL(fi_cq_open(world.a.domain, &attr, &cq, NULL), -FI_ENOSYS);
	attr.wait_obj = FI_WAIT_NONE;
	attr.format = 77;
	EQUAL(fi_cq_open(world.a.domain, &attr, &cq, NULL), -FI_ENOSYS);
	world_close(&world);
}

/* Counters have descriptors, too. */
static void counters(void)
{
	struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_FD};
	struct fid_cntr *cntr;
	struct world world;
	int fd = -1;

	world_open(&world, &(struct options){.disabled = 1});
	EQUAL(fi_cntr_open(world.a.domain, &attr, &cntr, NULL), 0);
	EQUAL(fi_ep_bind(world.a.ep, &cntr->fid, FI_RECV), 0);
	EQUAL(fi_enable(world.a.ep), 0);
	EQUAL(fi_enable(world.b.ep), 0);
	EQUAL(fi_control(&cntr->fid, FI_GETWAIT, &fd), 0);
	struct fid *fids[] = {&cntr->fid};
	struct pollfd ready = {fd, POLLIN, 0};
	EQUAL(fi_trywait(world.fabric, fids, 1), 0);
	EQUAL(poll(&ready, 1, 10), 0);
	EQUAL(fi_cntr_add(cntr, 1), 0);
	EQUAL(poll(&ready, 1, 5000), 1);
	EQUAL(fi_trywait(world.fabric, fids, 1), -FI_EAGAIN);
	EQUAL(fi_cntr_read(cntr), 1);
	EQUAL(fi_trywait(world.fabric, fids, 1), 0);
	EQUAL(fi_close(&world.a.ep->fid), 0);
	EQUAL(fi_close(&cntr->fid), 0);
	EQUAL(fi_endpoint(world.a.domain, world.info, &world.a.ep, NULL), 0);
	world_close(&world);
}

void test_waiting(void)
{
	blocking_reads(FI_WAIT_UNSPEC);
	blocking_reads(FI_WAIT_FD);
	several_blocked_reads();
	descriptors();
	refusals();
	counters();
}
