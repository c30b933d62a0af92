/* What is easily answered wrongly: other providers' objects, levels of completion, what is not to be had, waking. */
#include "world.h"

#include <pthread.h>
#include <rdma/fi_collective.h>
#include <stdlib.h>
#include <unistd.h>

/* Objects of another provider, as far as any provider may look at them. */
static int foreign_close(struct fid *fid)
{
	(void)fid;
	return 0;
}

static struct fi_ops foreign_ops = {.size = sizeof foreign_ops, .close = foreign_close};

static void foreign_objects(void)
{
	/* A page of which all but the common part is out of reach would be the sharpest test; this one is read as garbage. */
	struct {
		struct fid fid;
		char rest[4096];
	} foreign = {.fid = {.ops = &foreign_ops}};
	struct world world;
	struct options options = {.disabled = 1};
	struct fid *fids[] = {&foreign.fid};
	struct fi_info *info = NULL;

	memset(foreign.rest, 0xee, sizeof foreign.rest);
	world_open(&world, &options);
	struct fi_info *hints = hints_new();
	foreign.fid.fclass = FI_CLASS_DOMAIN;
	hints->domain_attr->domain = (struct fid_domain *)&foreign;
	EQUAL(fi_getinfo(API, NULL, NULL, 0, hints, &info), -FI_ENODATA);
	hints->domain_attr->domain = world.a.domain;
	EQUAL(fi_getinfo(API, NULL, NULL, 0, hints, &info), 0);
	fi_freeinfo(info);
	hints->domain_attr->domain = NULL;
	foreign.fid.fclass = FI_CLASS_FABRIC;
	hints->fabric_attr->fabric = (struct fid_fabric *)&foreign;
	EQUAL(fi_getinfo(API, NULL, NULL, 0, hints, &info), -FI_ENODATA);
	hints->fabric_attr->fabric = world.fabric;
	EQUAL(fi_getinfo(API, NULL, NULL, 0, hints, &info), 0);
	fi_freeinfo(info);
	hints->fabric_attr->fabric = NULL;
	fi_freeinfo(hints);

	size_t classes[] = {FI_CLASS_CQ, FI_CLASS_AV, FI_CLASS_CNTR, FI_CLASS_EQ, FI_CLASS_MR};
	for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
		foreign.fid.fclass = classes[i];
		EQUAL(fi_ep_bind(world.a.ep, &foreign.fid, FI_TRANSMIT), -FI_EINVAL);
		EQUAL(world.a.av->fid.ops->bind(&world.a.av->fid, &foreign.fid, 0), -FI_EINVAL);
		EQUAL(fi_trywait(world.fabric, fids, 1), -FI_EINVAL);
	}
	foreign.fid.fclass = FI_CLASS_EP;
	struct fid_mr *mr;
	EQUAL(fi_mr_reg(world.a.domain, &foreign, 16, FI_REMOTE_READ, 0, 1, 0, &mr, NULL), 0);
	EQUAL(fi_mr_bind(mr, &foreign.fid, 0), -FI_EINVAL);
	EQUAL(fi_mr_bind(mr, &world.b.ep->fid, 0), -FI_EINVAL);
	EQUAL(fi_mr_bind(mr, &world.a.ep->fid, 0), 0);
	EQUAL(fi_close(&mr->fid), 0);
	/* Nobody may reach this one; it belongs to its domain as well. */
	EQUAL(fi_mr_reg(world.a.domain, &foreign, 16, FI_SEND, 0, 1, 0, &mr, NULL), 0);
	EQUAL(fi_mr_bind(mr, &world.b.ep->fid, 0), -FI_EINVAL);
	EQUAL(fi_mr_bind(mr, &world.a.ep->fid, 0), 0);
	EQUAL(fi_close(&mr->fid), 0);
	world_close(&world);
}

/* An address vector tells its own domain's node where peers are: an endpoint of another domain would not find them. */
static void another_domains_addresses(void)
{
	struct world world;
	struct fid_ep *ep;

	world_open(&world, NULL);
	EQUAL(fi_endpoint(world.a.domain, world.info, &ep, NULL), 0);
	EQUAL(fi_ep_bind(ep, &world.b.av->fid, 0), -FI_EINVAL);
	EQUAL(fi_ep_bind(ep, &world.a.av->fid, 0), 0);
	EQUAL(fi_close(&ep->fid), 0);
	world_close(&world);
}

/* The buffer of an inject is free at once, and the completion comes when the peer has the message. */
static void injects_with_a_level(uint64_t level, int matched)
{
	struct world world;
	struct fi_cq_tagged_entry entry;
	char sent[64], got[64] = "";
	struct iovec iov = {sent, sizeof sent};
	struct fi_msg_tagged message = {.msg_iov = &iov, .iov_count = 1, .tag = 3, .context = sent};

	world_open(&world, NULL);
	message.addr = world.a.peer;
	memset(sent, 'x', sizeof sent);
	EQUAL(fi_tsendmsg(world.a.ep, &message, FI_INJECT | FI_COMPLETION | level), 0);
	memset(sent, 'y', sizeof sent);
	/* Nobody has made progress since: the peer cannot have it. */
	if (matched) {
		turn(&world, 0.05);
		EQUAL(fi_cq_read(world.a.cq, &entry, 1), -FI_EAGAIN);
	}
	EQUAL(fi_trecv(world.b.ep, got, sizeof got, NULL, FI_ADDR_UNSPEC, 3, 0, NULL), 0);
	EQUAL(next(&world, &world.b, &entry), 1);
	EQUAL(next(&world, &world.a, &entry), 1);
	CHECK(entry.op_context == sent);
	CHECK(got[0] == 'x' && got[63] == 'x');
	world_close(&world);
}

static void not_to_be_had(void)
{
	struct world world;
	struct options options = {.disabled = 1};
	struct fi_cntr_attr bytes = {.events = 1};
	struct fid_cntr *cntr, *second;
	struct fid_mr *mr;
	char buffer[16];

	world_open(&world, &options);
	EQUAL(fi_cntr_open(world.a.domain, &bytes, &cntr, NULL), -FI_ENOSYS);
	EQUAL(fi_cntr_open(world.a.domain, NULL, &cntr, NULL), 0);
	EQUAL(fi_cntr_open(world.a.domain, NULL, &second, NULL), 0);
	EQUAL(fi_ep_bind(world.a.ep, &cntr->fid, FI_SEND | FI_WRITE), 0);
	EQUAL(fi_ep_bind(world.a.ep, &second->fid, FI_WRITE), -FI_EINVAL);
	EQUAL(fi_ep_bind(world.a.ep, &second->fid, FI_RECV), 0);
	EQUAL(fi_ep_bind(world.a.ep, &world.a.cq->fid, FI_RECV), -FI_EINVAL);
	EQUAL(fi_enable(world.a.ep), 0);
	EQUAL(fi_mr_reg(world.a.domain, buffer, 16, FI_REMOTE_READ, 0, 1, 1ULL << 40, &mr, NULL),
	      -FI_EOPNOTSUPP);
	struct iovec iov = {buffer, 16};
	struct fi_msg message = {.msg_iov = &iov, .iov_count = 1, .addr = world.a.peer};
	EQUAL(fi_sendmsg(world.a.ep, &message, FI_FENCE), -FI_EINVAL);
	EQUAL(fi_sendmsg(world.a.ep, &message, FI_COMMIT_COMPLETE), -FI_EINVAL);
	struct fi_rma_iov there = {.addr = 0, .len = 16, .key = 1};
	struct fi_msg_rma rma = {.msg_iov = &iov, .iov_count = 1, .addr = world.a.peer,
				 .rma_iov = &there, .rma_iov_count = 1};
	EQUAL(fi_readmsg(world.a.ep, &rma, FI_FENCE), -FI_EINVAL);
	EQUAL(fi_writemsg(world.a.ep, &rma, FI_COMMIT_COMPLETE), -FI_EINVAL);
	EQUAL(fi_close(&world.a.ep->fid), 0);
	EQUAL(fi_close(&cntr->fid), 0);
	EQUAL(fi_close(&second->fid), 0);
	EQUAL(fi_endpoint(world.a.domain, world.info, &world.a.ep, NULL), 0);
	world_close(&world);
}

struct waiter {
	struct world *world;
	struct fid_cntr *cntr;
	ssize_t result;
	double began, ended;
};

static void *wait_for_an_entry(void *argument)
{
	struct waiter *waiter = argument;
	struct fi_cq_tagged_entry entry;

	waiter->result = fi_cq_sread(waiter->world->a.cq, &entry, 1, NULL, 5000);
	waiter->ended = now();
	return NULL;
}

static void *wait_for_a_count(void *argument)
{
	struct waiter *waiter = argument;

	waiter->result = fi_cntr_wait(waiter->cntr, 7, 5000);
	waiter->ended = now();
	return NULL;
}

static int by_time(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;

	return a < b ? -1 : a > b;
}

/* Longest time in seconds from the wake to the end of the wait, for half of them: a thread's way to a core. */
#define AT_ONCE 0.005

static void woken(void *(*wait)(void *), int how)
{
	double times[9];

	for (int i = 0; i < 9; i++) {
		struct world world;
		struct waiter waiter = {.world = &world};
		struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
		struct fi_cq_tagged_entry entry;
		pthread_t thread;

		/* With an endpoint: who waits for a counter that belongs to none looks again each millisecond. */
		world_open(&world, &(struct options){.disabled = 1});
		EQUAL(fi_cntr_open(world.a.domain, &attr, &waiter.cntr, NULL), 0);
		EQUAL(fi_ep_bind(world.a.ep, &waiter.cntr->fid, FI_SEND), 0);
		EQUAL(fi_enable(world.a.ep), 0);
		pthread_create(&thread, NULL, wait, &waiter);
		usleep(30000);
		waiter.began = now();
		if (how == 0)
			EQUAL(fi_cq_signal(world.a.cq), 0);
		else if (how == 1)
			EQUAL(fi_cntr_add(waiter.cntr, 7), 0);
		else {
			/* Tells of nothing at the node: the entry is made by this thread alone. */
			struct fi_msg_tagged message = {.addr = FI_ADDR_UNSPEC, .tag = 1};
			EQUAL(fi_trecvmsg(world.a.ep, &message, FI_PEEK), 0);
		}
		pthread_join(thread, NULL);
		times[i] = waiter.ended - waiter.began;
		EQUAL(waiter.result, how == 0 ? -FI_EAGAIN : how == 1 ? 0 : -FI_EAVAIL);
		if (how == 2) {
			struct fi_cq_err_entry error = {0};
			EQUAL(fi_cq_readerr(world.a.cq, &error, 0), 1);
		}
		CHECK(fi_cq_read(world.a.cq, &entry, 1) == -FI_EAGAIN);
		EQUAL(fi_close(&world.a.ep->fid), 0);
		EQUAL(fi_close(&waiter.cntr->fid), 0);
		EQUAL(fi_endpoint(world.a.domain, world.info, &world.a.ep, NULL), 0);
		world_close(&world);
	}
	qsort(times, 9, sizeof *times, by_time);
	CHECK(times[4] < AT_ONCE);
}

/* Looks for a message with one-entry reads, as some runtimes do, and nothing else makes progress. A frame may be lost, or late, now and
 * then: of some messages one at least is there soon. */
static void probing_makes_progress(void)
{
	struct world world;
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {0};
	struct fi_msg_tagged message = {.addr = FI_ADDR_UNSPEC, .tag = 5};
	int fewest = 1000000;
	char byte;

	/* Both know each other: what comes now is there after few looks, if they take it from the link. */
	world_open(&world, NULL);
	EQUAL(fi_trecv(world.a.ep, &byte, 1, NULL, FI_ADDR_UNSPEC, 4, 0, NULL), 0);
	EQUAL(fi_tinject(world.b.ep, "x", 1, world.b.peer, 4), 0);
	EQUAL(next(&world, &world.a, &entry), 1);
	turn(&world, 0.01);
	for (int i = 0; i < 4; i++, message.tag++) {
		double end = now() + PATIENCE;
		int seen = 0, looks = 0;

		EQUAL(fi_tinject(world.b.ep, "hello", 5, world.b.peer, message.tag), 0);
		for (; !seen && now() < end; looks++) {
			EQUAL(fi_trecvmsg(world.a.ep, &message, FI_PEEK), 0);
			ssize_t result = fi_cq_read(world.a.cq, &entry, 1);
			if (result == -FI_EAVAIL)
				EQUAL(fi_cq_readerr(world.a.cq, &error, 0), 1);
			seen = result == 1;
		}
		CHECK(seen);
		fewest = looks < fewest ? looks : fewest;
		turn(&world, 0.01);
	}
	CHECK(fewest < 50);
	world_close(&world);
}

/* Interface versions from before modes of registration were bits, and the old names. */
static void modes_of_registration(void)
{
	static const struct {
		uint32_t api;
		int asked, given;
	} cases[] = {{API, 0, 0}, {API, 1, 1}, {API, 2, 2}, {FI_VERSION(1, 4), 0, 1},
		     {FI_VERSION(1, 4), 1, 1}, {FI_VERSION(1, 4), 2, 2}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct fi_info *hints = hints_new(), *info = NULL;

		hints->domain_attr->mr_mode = cases[i].asked;
		EQUAL(fi_getinfo(cases[i].api, NULL, NULL, 0, hints, &info), 0);
		EQUAL(info->domain_attr->mr_mode, cases[i].given);
		fi_freeinfo(info);
		fi_freeinfo(hints);
	}
}

static void other_hints(void)
{
	struct fi_info *hints = hints_new(), *info = NULL;

#define REFUSED(field, value)                                                                     \
	do {                                                                                      \
		hints->field = (value);                                                           \
		EQUAL(fi_getinfo(API, NULL, NULL, 0, hints, &info), -FI_ENODATA);                 \
		hints->field = 0;                                                                 \
	} while (0)
	REFUSED(domain_attr->mr_iov_limit, 2);
	REFUSED(domain_attr->mr_cnt, 1 << 30);
	REFUSED(domain_attr->max_err_data, 1);
	REFUSED(domain_attr->mr_key_size, 9);
	REFUSED(ep_attr->max_order_raw_size, SIZE_MAX);
	REFUSED(ep_attr->max_order_war_size, SIZE_MAX);
	REFUSED(ep_attr->max_order_waw_size, SIZE_MAX);
	REFUSED(ep_attr->protocol_version, 99);
	REFUSED(fabric_attr->prov_version, FI_VERSION(99, 0));
	hints->tx_attr->iov_limit = 8;
	EQUAL(fi_getinfo(API, NULL, NULL, 0, hints, &info), 0);
	CHECK(info->tx_attr->iov_limit == 8 && info->domain_attr->av_type == FI_AV_UNSPEC);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

/* There are no collectives: the capability is not offered, and each way to them says so. */
static void no_collectives(void)
{
	struct world world;
	struct fi_info *hints = hints_new(), *info = NULL;
	struct fi_collective_attr attr = {.op = FI_SUM, .datatype = FI_INT32};
	struct fi_av_set_attr set_attr = {.count = 1};
	struct fid_av_set *set;
	int32_t number = 1, result;

	hints->caps |= FI_COLLECTIVE;
	EQUAL(fi_getinfo(API, NULL, NULL, 0, hints, &info), -FI_ENODATA);
	fi_freeinfo(hints);
	world_open(&world, NULL);
	CHECK(!(world.info->caps & FI_COLLECTIVE));
	EQUAL(fi_query_collective(world.a.domain, FI_BARRIER, &attr, 0), -FI_EOPNOTSUPP);
	EQUAL(fi_query_collective(world.a.domain, FI_ALLREDUCE, &attr, 0), -FI_EOPNOTSUPP);
	EQUAL(fi_av_set(world.a.av, &set_attr, &set, NULL), -FI_ENOSYS);
	EQUAL(fi_barrier(world.a.ep, 0, NULL), -FI_ENOSYS);
	EQUAL(fi_allreduce(world.a.ep, &number, 1, NULL, &result, NULL, 0, FI_INT32, FI_SUM, 0, NULL), -FI_ENOSYS);
	world_close(&world);
}

/* From 2.5 on the structure ends with these; whoever made it left room for them. */
static void highest_counts(void)
{
	struct fi_info *hints = hints_new(), *info = NULL;

	EQUAL(fi_getinfo(API, NULL, NULL, 0, hints, &info), 0);
#if FI_MAJOR_VERSION > 2 || (FI_MAJOR_VERSION == 2 && FI_MINOR_VERSION >= 5)
	CHECK(info->domain_attr->max_cntr_value == UINT64_MAX && info->domain_attr->max_err_cntr_value == UINT64_MAX);
#elif FI_MAJOR_VERSION == 1 && FI_MINOR_VERSION < 20
	struct { size_t max_ep_auth_key; uint32_t max_group_id; uint64_t max_cntr_value, max_err_cntr_value; } newer;
	memcpy(&newer, info->domain_attr + 1, sizeof newer);
	CHECK(newer.max_cntr_value == UINT64_MAX && newer.max_err_cntr_value == UINT64_MAX);
#endif
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

/* Who names only what others may do with its memory may begin reads and writes as well; who names one of those, that one. */
static void initiator_rights(void)
{
	static char there[64], here[64];
	static const struct {
		uint64_t asked, given;
	} cases[] = {{0, FI_READ | FI_WRITE}, {FI_REMOTE_READ | FI_REMOTE_WRITE, FI_READ | FI_WRITE},
		     {FI_REMOTE_READ, FI_READ | FI_WRITE}, {FI_READ, FI_READ}, {FI_WRITE | FI_REMOTE_WRITE, FI_WRITE}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct options options = {.caps = FI_MSG | FI_RMA | FI_ATOMIC | cases[i].asked};
		struct fi_cq_tagged_entry entry;
		struct world world;
		struct fid_mr *mr;
		uint64_t given = cases[i].given, one = 1, old;

		world_open(&world, &options);
		EQUAL(world.info->tx_attr->caps & (FI_READ | FI_WRITE), given);
		EQUAL(world.info->caps & (FI_READ | FI_WRITE), cases[i].asked ? cases[i].asked & given : given);
		EQUAL(fi_mr_reg(world.b.domain, there, 64, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 5, 0, &mr, NULL), 0);
		ssize_t reads = given & FI_READ ? 0 : -FI_EOPNOTSUPP, writes = given & FI_WRITE ? 0 : -FI_EOPNOTSUPP;
		EQUAL(fi_read(world.a.ep, here, 64, NULL, world.a.peer, 0, 5, NULL), reads);
		EQUAL(fi_write(world.a.ep, here, 64, NULL, world.a.peer, 0, 5, NULL), writes);
		EQUAL(fi_atomic(world.a.ep, &one, 1, NULL, world.a.peer, 0, 5, FI_UINT64, FI_SUM, NULL), writes);
		EQUAL(fi_fetch_atomic(world.a.ep, &one, 1, NULL, &old, NULL, world.a.peer, 0, 5, FI_UINT64, FI_SUM,
				      NULL), reads);
		for (int left = (reads ? 0 : 2) + (writes ? 0 : 2); left > 0; left--)
			EQUAL(next(&world, &world.a, &entry), 1);
		EQUAL(fi_close(&mr->fid), 0);
		world_close(&world);
	}
}

void test_manual(void)
{
	highest_counts();
	no_collectives();
	initiator_rights();
	foreign_objects();
	another_domains_addresses();
	injects_with_a_level(FI_DELIVERY_COMPLETE, 0);
	injects_with_a_level(FI_TRANSMIT_COMPLETE, 0);
	injects_with_a_level(FI_MATCH_COMPLETE, 1);
	not_to_be_had();
	woken(wait_for_an_entry, 0);
	woken(wait_for_a_count, 1);
	woken(wait_for_an_entry, 2);
	probing_makes_progress();
	modes_of_registration();
	other_hints();
}
