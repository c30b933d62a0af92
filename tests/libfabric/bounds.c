/* Bounds of a process (limits.rs) that programs meet: reaching one ends in progress or in an error, in a loop as MPIs have it, which tries
 * again at -FI_EAGAIN after it has looked. Nobody waits for himself. */
#include "world.h"

#include <stdlib.h>

/* What a process may have here, and for how long nothing may end, in milliseconds. */
enum { FEW = 256, SOON = 600 };
/* More than what there once was room for. */
enum { MANY = 140000 };
/* Longer than what leaves unasked. */
enum { LONG = 700000 };

static char place[LONG], from[LONG];

static void number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof text, "%d", value);
	setenv(name, text, 1);
}

/* As MPIs post: until it is taken, or is an error. Entries are put where the caller counts them. */
struct ends {
	int good, failed, error;
	/* Of the last that was good. */
	void *context;
};

static void look(struct world *world, struct side *side, struct ends *ends)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {0};
	ssize_t result;

	while ((result = fi_cq_read(side->cq, &entry, 1)) == 1) {
		ends->good++;
		ends->context = entry.op_context;
	}
	if (result == -FI_EAVAIL && fi_cq_readerr(side->cq, &error, 0) == 1) {
		ends->failed++;
		ends->error = error.err;
	}
	fi_cq_read(side == &world->a ? world->b.cq : world->a.cq, NULL, 0);
}

#define POST(world, side, ends, call)                                             \
	({                                                                        \
		double end_ = now() + PATIENCE;                                   \
		ssize_t posted_;                                                  \
		while ((posted_ = (call)) == -FI_EAGAIN && now() < end_)          \
			look(world, side, ends);                                  \
		posted_;                                                          \
	})

static void look_until(struct world *world, struct side *side, struct ends *ends, int count)
{
	double end = now() + PATIENCE;

	while (ends->good + ends->failed < count && now() < end)
		look(world, side, ends);
}

/* Receives for which nothing comes. */
static void receives(void)
{
	static struct fi_context contexts[FEW + 1];
	struct world world;
	struct ends ends = {0};
	int taken = 0;
	double start;

	number("FI_EMP_OPERATIONS", FEW);
	number("FI_EMP_TIMEOUT", SOON);
	world_open(&world, NULL);
	while (taken <= FEW && !fi_trecv(world.a.ep, place, 8, NULL, FI_ADDR_UNSPEC, taken, 0, contexts + taken))
		taken++;
	EQUAL(taken, FEW);
	start = now();
	EQUAL(fi_trecv(world.a.ep, place, 8, NULL, FI_ADDR_UNSPEC, 0, 0, contexts + FEW), -FI_EAGAIN);
	EQUAL(POST(&world, &world.a, &ends, fi_trecv(world.a.ep, place, 8, NULL, FI_ADDR_UNSPEC, 0, 0, contexts + FEW)),
	      -FI_ENOBUFS);
	CHECK(now() - start > SOON * 0.9e-3 && now() - start < PATIENCE / 2);
	/* One ends, and there is room. */
	EQUAL(fi_cancel(&world.a.ep->fid, contexts + 7), 0);
	look_until(&world, &world.a, &ends, 1);
	EQUAL(ends.error, FI_ECANCELED);
	EQUAL(POST(&world, &world.a, &ends, fi_trecv(world.a.ep, place, 8, NULL, FI_ADDR_UNSPEC, 7, 0, contexts + 7)), 0);
	/* So it is where the others end by what they are for. */
	for (int i = 0; i < FEW; i++)
		EQUAL(POST(&world, &world.b, &ends, fi_tinject(world.b.ep, from, 8, world.b.peer, i)), 0);
	ends.good = ends.failed = 0;
	look_until(&world, &world.a, &ends, FEW);
	EQUAL(ends.good, FEW);
	world_close(&world);
}

/* Sends whose receiver wants none of them. */
static void sends(void)
{
	struct world world;
	struct ends ends = {0}, there = {0};
	int taken = 0;

	number("FI_EMP_OPERATIONS", FEW);
	number("FI_EMP_TIMEOUT", SOON);
	world_open(&world, NULL);
	while (taken <= FEW && !fi_tsend(world.a.ep, from, LONG, NULL, world.a.peer, 3, NULL))
		taken++;
	EQUAL(taken, FEW);
	EQUAL(POST(&world, &world.a, &ends, fi_tsend(world.a.ep, from, LONG, NULL, world.a.peer, 3, NULL)), -FI_ENOBUFS);
	EQUAL(ends.good + ends.failed, 0);
	for (int i = 0; i < FEW; i++)
		EQUAL(POST(&world, &world.b, &there, fi_trecv(world.b.ep, place, LONG, NULL, FI_ADDR_UNSPEC, 3, 0, NULL)), 0);
	look_until(&world, &world.a, &ends, FEW);
	EQUAL(ends.good, FEW);
	look_until(&world, &world.b, &there, FEW);
	EQUAL(there.good, FEW);
	EQUAL(fi_tsend(world.a.ep, from, 8, NULL, world.a.peer, 3, NULL), 0);
	world_close(&world);
}

/* A receiver that is full of others than it waits for: senders are told, and what it waits for comes. */
static void unexpected(void)
{
	struct options options = {.tx_op_flags = FI_DELIVERY_COMPLETE};
	struct world world;
	struct ends ends = {0}, there = {0};
	int wanted = 0;
	double end;

	unsetenv("FI_EMP_OPERATIONS");
	number("FI_EMP_UNEXPECTED", FEW);
	number("FI_EMP_TIMEOUT", SOON);
	world_open(&world, &options);
	EQUAL(fi_trecv(world.b.ep, place, 8, NULL, FI_ADDR_UNSPEC, 2, 0, &wanted), 0);
	for (int i = 0; i < FEW; i++)
		EQUAL(fi_tsend(world.a.ep, from, 8, NULL, world.a.peer, 1, NULL), 0);
	EQUAL(fi_tsend(world.a.ep, from, 8, NULL, world.a.peer, 2, NULL), 0);
	end = now() + PATIENCE;
	while (!there.good && now() < end) {
		look(&world, &world.a, &ends);
		look(&world, &world.b, &there);
	}
	CHECK(there.context == &wanted);
	look_until(&world, &world.a, &ends, FEW + 1);
	EQUAL(ends.good + ends.failed, FEW + 1);
	CHECK(ends.failed > 0 && ends.good > FEW / 2);
	EQUAL(ends.error, FI_ENOBUFS);
	/* The others are there. */
	for (int i = 1; i < ends.good; i++)
		EQUAL(fi_trecv(world.b.ep, place, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
	look_until(&world, &world.b, &there, ends.good);
	EQUAL(there.good, ends.good);
	world_close(&world);
	unsetenv("FI_EMP_UNEXPECTED");
	unsetenv("FI_EMP_TIMEOUT");
}

/* Far more than before, by what a process has unasked: receives, then messages that nobody waits for, and the one that is waited for. */
static void many(void)
{
	struct fi_context *contexts = calloc(MANY, sizeof *contexts);
	struct world world;
	struct ends ends = {0}, there = {0};
	int wanted = 0;

	world_open(&world, NULL);
	for (int i = 0; i < MANY && !checks_failed; i++)
		EQUAL(fi_trecv(world.a.ep, place, 8, NULL, FI_ADDR_UNSPEC, i, 0, contexts + i), 0);
	EQUAL(fi_trecv(world.b.ep, place, 8, NULL, FI_ADDR_UNSPEC, MANY, 0, &wanted), 0);
	for (int i = 0; i <= MANY && !checks_failed; i++)
		EQUAL(POST(&world, &world.a, &ends, fi_tinject(world.a.ep, from, 8, world.a.peer, i)), 0);
	look_until(&world, &world.b, &there, 1);
	CHECK(there.context == &wanted);
	for (int i = MANY - 1; i >= 0 && !checks_failed; i--)
		EQUAL(POST(&world, &world.b, &there, fi_tinject(world.b.ep, from, 8, world.b.peer, i)), 0);
	for (int i = MANY - 1; i >= 0 && !checks_failed; i--)
		EQUAL(POST(&world, &world.b, &there, fi_trecv(world.b.ep, place, 8, NULL, FI_ADDR_UNSPEC, i, 0, &wanted)), 0);
	look_until(&world, &world.a, &ends, MANY);
	EQUAL(ends.good, MANY);
	look_until(&world, &world.b, &there, MANY + 1);
	EQUAL(there.good, MANY + 1);
	world_close(&world);
	free(contexts);
}

/* Gets of a peer that nobody is: it has its part of those there may be, and gets of another go on beside it. */
static void gets(void)
{
	enum { MOST = 65536, KEY = 5 };
	struct options options = {.caps = FI_RMA | FI_MSG};
	struct world world;
	struct ends ends = {0};
	struct fid_mr *region;
	fi_addr_t nobody;
	int taken = 0;
	ssize_t result = 0;

	world_open(&world, &options);
	EQUAL(fi_mr_reg(world.b.domain, from, 64, FI_REMOTE_READ, 0, KEY, 0, &region, NULL), 0);
	EQUAL(fi_av_insertsvc(world.a.av, "127.0.0.9", "9999", &nobody, 0, NULL), 1);
#define GET(peer) fi_read(world.a.ep, place, 8, NULL, peer, 0, fi_mr_key(region), NULL)
	while (taken <= MOST && !(result = GET(nobody)))
		taken++;
	EQUAL(result, -FI_EAGAIN);
	CHECK(taken >= MOST / 10);
	for (int i = 0; i < MOST / 4 && !checks_failed; i++)
		EQUAL(POST(&world, &world.a, &ends, GET(world.a.peer)), 0);
	look_until(&world, &world.a, &ends, MOST / 4);
	EQUAL(ends.good, MOST / 4);
	EQUAL(fi_close(&region->fid), 0);
	world_close(&world);
}

/* Injects to a peer that waits for none of them: when the node's room for copies is used up they are kept by the provider, and all arrive. */
static void injects(void)
{
	enum { EACH = 1024, MOST = 40000 };
	struct world world;
	struct ends ends = {0}, there = {0};
	int sent = 0;

	world_open(&world, NULL);
	for (; sent < MOST && !checks_failed; sent++)
		EQUAL(POST(&world, &world.a, &ends, fi_tinject(world.a.ep, from, EACH, world.a.peer, 1)), 0);
	for (int i = 0; i < sent && !checks_failed; i++)
		EQUAL(POST(&world, &world.b, &there, fi_trecv(world.b.ep, place, EACH, NULL, FI_ADDR_UNSPEC, 1, 0, NULL)), 0);
	look_until(&world, &world.b, &there, sent);
	EQUAL(there.good, sent);
	world_close(&world);
}

/* Endpoints of a domain. */
static void endpoints(void)
{
	enum { ENDPOINTS = 300 };
	static struct fid_ep *eps[ENDPOINTS];
	struct world world;
	int opened = 0, result = 0;

	world_open(&world, NULL);
	while (opened < ENDPOINTS && !(result = fi_endpoint(world.a.domain, world.info, eps + opened, NULL)))
		opened++;
	EQUAL(result, -FI_ENOSPC);
	/* With the one that is open already. */
	EQUAL(opened + 1, world.info->domain_attr->ep_cnt);
	EQUAL(fi_endpoint(world.a.domain, world.info, eps + opened, NULL), -FI_ENOSPC);
	EQUAL(fi_close(&eps[3]->fid), 0);
	EQUAL(fi_endpoint(world.a.domain, world.info, eps + 3, NULL), 0);
	for (int i = 0; i < opened; i++)
		EQUAL(fi_close(&eps[i]->fid), 0);
	world_close(&world);
}

/* Regions of a domain, which others may read. */
static void regions(void)
{
	enum { REGIONS = 70000 };
	struct fid_mr **all = calloc(REGIONS, sizeof *all);
	struct options options = {.caps = FI_RMA | FI_MSG};
	struct world world;
	int opened = 0, result = 0;

	world_open(&world, &options);
#define REGISTER(at) fi_mr_reg(world.b.domain, from, 64, FI_REMOTE_READ, 0, at, 0, all + (at), NULL)
	while (opened < REGIONS && !(result = REGISTER(opened)))
		opened++;
	EQUAL(result, -FI_ENOSPC);
	CHECK(opened >= 65536);
	EQUAL(REGISTER(opened), -FI_ENOSPC);
	EQUAL(fi_close(&all[3]->fid), 0);
	EQUAL(REGISTER(3), 0);
	EQUAL(fi_read(world.a.ep, place, 8, NULL, world.a.peer, 0, fi_mr_key(all[3]), NULL), 0);
	struct ends ends = {0};
	look_until(&world, &world.a, &ends, 1);
	EQUAL(ends.good, 1);
	for (int i = 0; i < opened; i++)
		EQUAL(fi_close(&all[i]->fid), 0);
	free(all);
	world_close(&world);
}

/* Puts that tell their target, which does not look: it has room for so many, and what is beyond waits until it does. */
static void notifications(void)
{
	enum { NOTICES = 16384, PUTS = NOTICES + 300, KEY = 6 };
	struct options options = {.caps = FI_RMA | FI_MSG};
	struct fi_cq_tagged_entry entry;
	struct world world;
	struct fid_mr *region;
	struct ends there = {0};
	int posted = 0, ended = 0;
	double end = now() + PATIENCE;

	world_open(&world, &options);
	EQUAL(fi_mr_reg(world.b.domain, place, 64, FI_REMOTE_WRITE, 0, KEY, 0, &region, NULL), 0);
	while (ended < NOTICES && now() < end) {
		if (posted < PUTS)
			posted += !fi_writedata(world.a.ep, from, 8, NULL, 7, world.a.peer, 0, fi_mr_key(region), NULL);
		ended += fi_cq_read(world.a.cq, &entry, 1) == 1;
	}
	for (end = now() + 0.3; now() < end;)
		ended += fi_cq_read(world.a.cq, &entry, 1) == 1;
	/* Those that were told of, and no more. */
	EQUAL(ended, NOTICES);
	for (; posted < PUTS; posted++)
		EQUAL(fi_writedata(world.a.ep, from, 8, NULL, 7, world.a.peer, 0, fi_mr_key(region), NULL), 0);
	look_until(&world, &world.b, &there, PUTS);
	EQUAL(there.good, PUTS);
	for (end = now() + PATIENCE; ended < PUTS && now() < end;)
		ended += fi_cq_read(world.a.cq, &entry, 1) == 1;
	EQUAL(ended, PUTS);
	EQUAL(fi_close(&region->fid), 0);
	world_close(&world);
}

/* Messages for an endpoint that is not enabled yet: so many are kept, and the rest comes when it is. */
static void without_endpoint(void)
{
	enum { KEPT = 4096, SENT = KEPT + 300 };
	struct world world;
	struct ends ends = {0}, there = {0};
	struct fi_cq_tagged_entry entry;
	char name[128];
	size_t bytes = sizeof name;
	struct fid_ep *late;
	fi_addr_t to;
	double end;

	world_open(&world, NULL);
	EQUAL(fi_endpoint(world.b.domain, world.info, &late, NULL), 0);
	EQUAL(fi_getname(&late->fid, name, &bytes), 0);
	EQUAL(fi_av_insert(world.a.av, name, 1, &to, 0, NULL), 1);
	for (int i = 0; i < SENT; i++)
		EQUAL(POST(&world, &world.a, &ends, fi_tsend(world.a.ep, from, 8, NULL, to, i, NULL)), 0);
	for (end = now() + 0.3; now() < end;)
		look(&world, &world.a, &ends);
	EQUAL(fi_ep_bind(late, &world.b.av->fid, 0), 0);
	EQUAL(fi_ep_bind(late, &world.b.cq->fid, FI_TRANSMIT | FI_RECV), 0);
	EQUAL(fi_enable(late), 0);
	for (int i = 0; i < SENT; i++)
		EQUAL(POST(&world, &world.b, &there, fi_trecv(late, place, 8, NULL, FI_ADDR_UNSPEC, i, 0, NULL)), 0);
	for (end = now() + PATIENCE; there.good < SENT && now() < end;) {
		there.good += fi_cq_read(world.b.cq, &entry, 1) == 1;
		look(&world, &world.a, &ends);
	}
	EQUAL(there.good, SENT);
	look_until(&world, &world.a, &ends, SENT);
	EQUAL(ends.good, SENT);
	EQUAL(fi_close(&late->fid), 0);
	world_close(&world);
}

/* Sends to nodes that nobody has met, and nobody is: however many, each ends. */
static void searches(void)
{
	enum { NODES = 5000 };
	static fi_addr_t peers[NODES];
	struct world world;
	struct ends ends = {0};

	number("FI_EMP_TIMEOUT", SOON);
	world_open(&world, NULL);
	EQUAL(fi_av_insertsym(world.a.av, "127.0.0.9", 1, "10000", NODES, peers, 0, NULL), NODES);
	for (int i = 0; i < NODES && !checks_failed; i++)
		EQUAL(POST(&world, &world.a, &ends, fi_tsend(world.a.ep, from, 8, NULL, peers[i], 1, NULL)), 0);
	look_until(&world, &world.a, &ends, NODES);
	EQUAL(ends.good + ends.failed, NODES);
	/* And who is there is spoken to. */
	EQUAL(POST(&world, &world.a, &ends, fi_tsend(world.a.ep, from, 8, NULL, world.a.peer, 3, NULL)), 0);
	look_until(&world, &world.a, &ends, NODES + 1);
	EQUAL(ends.good + ends.failed, NODES + 1);
	world_close(&world);
	unsetenv("FI_EMP_TIMEOUT");
}

void test_bounds(void)
{
	injects();
	endpoints();
	regions();
	notifications();
	without_endpoint();
	searches();
	receives();
	sends();
	unexpected();
	many();
	gets();
}
