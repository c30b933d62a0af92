/* Counters of what others did to this process's memory: FI_RMA_EVENT, fi_mr_bind(3), fi_ep_bind(3). */
#include "world.h"

#include <unistd.h>

struct counted {
	struct fid_mr *mr;
	struct fid_cntr *reads, *writes;
};

static void counted_open(struct counted *it, struct side *side, void *memory, size_t bytes,
			 uint64_t access, uint64_t key)
{
	EQUAL(fi_cntr_open(side->domain, NULL, &it->reads, NULL), 0);
	EQUAL(fi_cntr_open(side->domain, NULL, &it->writes, NULL), 0);
	EQUAL(fi_mr_reg(side->domain, memory, bytes, access, 0, key, 0, &it->mr, NULL), 0);
	EQUAL(fi_mr_bind(it->mr, &it->reads->fid, FI_REMOTE_READ), 0);
	EQUAL(fi_mr_bind(it->mr, &it->writes->fid, FI_REMOTE_WRITE), 0);
	EQUAL(fi_mr_bind(it->mr, &it->writes->fid, FI_REMOTE_WRITE), -FI_EINVAL);
	EQUAL(fi_mr_bind(it->mr, &it->writes->fid, FI_SEND), -FI_EBADFLAGS);
	EQUAL(fi_close(&it->writes->fid), -FI_EBUSY);
}

static void counted_close(struct counted *it)
{
	EQUAL(fi_close(&it->mr->fid), 0);
	EQUAL(fi_close(&it->reads->fid), 0);
	EQUAL(fi_close(&it->writes->fid), 0);
}

/* Both counters come to these values, and stay there. */
static void come_to(struct world *world, struct counted *it, uint64_t reads, uint64_t writes)
{
	double end = now() + PATIENCE;

	while ((fi_cntr_read(it->reads) < reads || fi_cntr_read(it->writes) < writes) && now() < end)
		fi_cq_read(world->a.cq, NULL, 0);
	EQUAL(fi_cntr_read(it->reads), reads);
	EQUAL(fi_cntr_read(it->writes), writes);
}

static void ended(struct world *world)
{
	struct fi_cq_tagged_entry entry;

	EQUAL(next(world, &world->a, &entry), 1);
}

static void each_kind(int announced)
{
	struct world world;
	uint64_t events = announced ? FI_RMA_EVENT : 0;
	struct options options = {.caps = FI_MSG | FI_RMA | FI_ATOMIC | events};
	struct counted open, guarded;
	uint64_t there[8] = {0}, secret[8] = {7}, here[8] = {1}, got = 0;
	struct fid_ep *ep;

	world_open(&world, &options);
	EQUAL(world.info->caps & FI_RMA_EVENT, events);
	ep = world.a.ep;
	counted_open(&open, &world.b, there, sizeof there, FI_REMOTE_READ | FI_REMOTE_WRITE, 11);
	counted_open(&guarded, &world.b, secret, sizeof secret, FI_REMOTE_READ, 12);
	uint64_t n = announced;

	EQUAL(fi_write(ep, here, sizeof here, NULL, world.a.peer, 0, 11, NULL), 0);
	ended(&world);
	come_to(&world, &open, 0, n);
	CHECK(there[0] == 1);
	EQUAL(fi_inject_write(ep, here, 8, world.a.peer, 0, 11), 0);
	come_to(&world, &open, 0, 2 * n);
	EQUAL(fi_read(ep, here, sizeof here, NULL, world.a.peer, 0, 11, NULL), 0);
	ended(&world);
	come_to(&world, &open, n, 2 * n);
	EQUAL(fi_atomic(ep, here, 1, NULL, world.a.peer, 0, 11, FI_UINT64, FI_SUM, NULL), 0);
	ended(&world);
	come_to(&world, &open, n, 3 * n);
	/* What gives the old value back reads, and what changes it writes as well. */
	EQUAL(fi_fetch_atomic(ep, here, 1, NULL, &got, NULL, world.a.peer, 0, 11, FI_UINT64, FI_SUM,
			      NULL), 0);
	ended(&world);
	come_to(&world, &open, 2 * n, 4 * n);
	EQUAL(fi_fetch_atomic(ep, here, 1, NULL, &got, NULL, world.a.peer, 0, 11, FI_UINT64,
			      FI_ATOMIC_READ, NULL), 0);
	ended(&world);
	come_to(&world, &open, 3 * n, 4 * n);
	EQUAL(fi_compare_atomic(ep, here, 1, NULL, here, NULL, &got, NULL, world.a.peer, 0, 11, FI_UINT64,
				FI_CSWAP, NULL), 0);
	ended(&world);
	come_to(&world, &open, 4 * n, 5 * n);

	/* Data is told as ever, and counts. */
	struct fi_cq_tagged_entry entry;
	EQUAL(fi_writedata(ep, here, 8, NULL, 77, world.a.peer, 0, 11, NULL), 0);
	ended(&world);
	EQUAL(next(&world, &world.b, &entry), 1);
	CHECK((entry.flags & FI_REMOTE_CQ_DATA) && entry.data == 77);
	come_to(&world, &open, 4 * n, 6 * n);

	/* What may be read only is announced all the same; what was refused is not. */
	EQUAL(fi_read(ep, here, 8, NULL, world.a.peer, 0, 12, NULL), 0);
	ended(&world);
	CHECK(here[0] == 7);
	come_to(&world, &guarded, n, 0);
	EQUAL(fi_write(ep, here, 8, NULL, world.a.peer, 0, 12, NULL), 0);
	struct fi_cq_err_entry error;
	EQUAL(next_error(&world, &world.a, &error), 1);
	EQUAL(error.err, FI_EACCES);
	turn(&world, 0.02);
	come_to(&world, &guarded, n, 0);

	/* Several runs are one operation. */
	struct iovec iov = {here, 32};
	struct fi_rma_iov runs[2] = {{.addr = 0, .len = 16, .key = 11}, {.addr = 32, .len = 16, .key = 11}};
	struct fi_msg_rma message = {.msg_iov = &iov, .iov_count = 1, .addr = world.a.peer,
				     .rma_iov = runs, .rma_iov_count = 2};
	EQUAL(fi_writemsg(ep, &message, FI_COMPLETION), 0);
	ended(&world);
	EQUAL(fi_readmsg(ep, &message, FI_COMPLETION), 0);
	ended(&world);
	turn(&world, 0.02);
	come_to(&world, &open, 5 * n, 7 * n);
	counted_close(&open);
	counted_close(&guarded);
	/* Nothing of it is an entry of a queue. */
	nothing(&world, &world.b);
	nothing(&world, &world.a);
	world_close(&world);
}

/* A counter of the endpoint counts all regions, and a wait for it ends. */
static void of_an_endpoint(void)
{
	struct world world;
	struct options options = {.caps = FI_MSG | FI_RMA | FI_ATOMIC | FI_RMA_EVENT, .disabled = 1};
	struct fid_cntr *counter;
	struct fid_mr *mr;
	_Alignas(8) char there[64], here[64];

	world_open(&world, &options);
	EQUAL(fi_cntr_open(world.b.domain, NULL, &counter, NULL), 0);
	EQUAL(fi_ep_bind(world.b.ep, &counter->fid, FI_REMOTE_WRITE | FI_REMOTE_READ), 0);
	EQUAL(fi_enable(world.a.ep), 0);
	EQUAL(fi_enable(world.b.ep), 0);
	EQUAL(fi_mr_reg(world.b.domain, there, 64, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 5, 0, &mr, NULL), 0);
	EQUAL(fi_write(world.a.ep, here, 64, NULL, world.a.peer, 0, 5, NULL), 0);
	EQUAL(fi_read(world.a.ep, here, 64, NULL, world.a.peer, 0, 5, NULL), 0);
	ended(&world);
	ended(&world);
	EQUAL(fi_cntr_wait(counter, 2, 1000 * PATIENCE), 0);
	EQUAL(fi_cntr_read(counter), 2);
	/* It counts operations: one that reads and writes once. */
	EQUAL(fi_fetch_atomic(world.a.ep, here, 1, NULL, there + 8, NULL, world.a.peer, 0, 5, FI_UINT64, FI_SUM,
			      NULL), 0);
	ended(&world);
	EQUAL(fi_cntr_wait(counter, 3, 1000 * PATIENCE), 0);
	turn(&world, 0.02);
	EQUAL(fi_cntr_read(counter), 3);
	EQUAL(fi_close(&mr->fid), 0);
	EQUAL(fi_close(&world.b.ep->fid), 0);
	EQUAL(fi_close(&counter->fid), 0);
	EQUAL(fi_endpoint(world.b.domain, world.info, &world.b.ep, NULL), 0);
	world_close(&world);
}

/* An operation on two regions is one for the endpoint, and one for each of the regions. */
static void of_several_regions(void)
{
	struct world world;
	struct options options = {.caps = FI_MSG | FI_RMA | FI_ATOMIC | FI_RMA_EVENT, .disabled = 1};
	struct fid_cntr *reads, *writes;
	struct counted one, other;
	uint64_t first[8] = {0}, second[8] = {0}, here[4] = {1, 1, 1, 1}, got[4];
	struct fi_cq_tagged_entry entry;

	world_open(&world, &options);
	EQUAL(fi_cntr_open(world.b.domain, NULL, &reads, NULL), 0);
	EQUAL(fi_cntr_open(world.b.domain, NULL, &writes, NULL), 0);
	EQUAL(fi_ep_bind(world.b.ep, &reads->fid, FI_REMOTE_READ), 0);
	EQUAL(fi_ep_bind(world.b.ep, &writes->fid, FI_REMOTE_WRITE), 0);
	EQUAL(fi_enable(world.a.ep), 0);
	EQUAL(fi_enable(world.b.ep), 0);
	counted_open(&one, &world.b, first, sizeof first, FI_REMOTE_READ | FI_REMOTE_WRITE, 11);
	counted_open(&other, &world.b, second, sizeof second, FI_REMOTE_READ | FI_REMOTE_WRITE, 12);
	struct fid_ep *ep = world.a.ep;

	struct iovec iov = {here, sizeof here};
	struct fi_rma_iov runs[3] = {{.addr = 0, .len = 8, .key = 11}, {.addr = 0, .len = 16, .key = 12},
				     {.addr = 16, .len = 8, .key = 11}};
	struct fi_msg_rma message = {.msg_iov = &iov, .iov_count = 1, .addr = world.a.peer,
				     .rma_iov = runs, .rma_iov_count = 3, .data = 77};
	EQUAL(fi_writemsg(ep, &message, FI_COMPLETION), 0);
	ended(&world);
	come_to(&world, &one, 0, 1);
	come_to(&world, &other, 0, 1);
	EQUAL(fi_readmsg(ep, &message, FI_COMPLETION), 0);
	ended(&world);
	come_to(&world, &one, 1, 1);
	come_to(&world, &other, 1, 1);
	/* Its data is told with the last run; the other region counts it all the same. */
	EQUAL(fi_writemsg(ep, &message, FI_COMPLETION | FI_REMOTE_CQ_DATA), 0);
	ended(&world);
	EQUAL(next(&world, &world.b, &entry), 1);
	CHECK((entry.flags & FI_REMOTE_CQ_DATA) && entry.data == 77);
	come_to(&world, &one, 1, 2);
	come_to(&world, &other, 1, 2);

	struct fi_ioc ioc = {here, 4}, result = {got, 4};
	struct fi_rma_ioc elements[3] = {{.addr = 0, .count = 1, .key = 11}, {.addr = 0, .count = 2, .key = 12},
					 {.addr = 16, .count = 1, .key = 11}};
	struct fi_msg_atomic atomic = {.msg_iov = &ioc, .iov_count = 1, .addr = world.a.peer, .rma_iov = elements,
				       .rma_iov_count = 3, .datatype = FI_UINT64, .op = FI_SUM};
	EQUAL(fi_atomicmsg(ep, &atomic, FI_COMPLETION), 0);
	ended(&world);
	come_to(&world, &one, 1, 3);
	come_to(&world, &other, 1, 3);
	EQUAL(fi_fetch_atomicmsg(ep, &atomic, &result, NULL, 1, FI_COMPLETION), 0);
	ended(&world);
	come_to(&world, &one, 2, 4);
	come_to(&world, &other, 2, 4);
	CHECK(first[0] == 3 && first[2] == 3 && second[0] == 3 && second[1] == 3 && got[0] == 2 && got[3] == 2);
	/* Nothing comes after. */
	turn(&world, 0.02);
	come_to(&world, &one, 2, 4);
	come_to(&world, &other, 2, 4);
	EQUAL(fi_cntr_read(reads), 2);
	EQUAL(fi_cntr_read(writes), 4);
	counted_close(&one);
	counted_close(&other);
	nothing(&world, &world.b);
	EQUAL(fi_close(&world.b.ep->fid), 0);
	EQUAL(fi_close(&reads->fid), 0);
	EQUAL(fi_close(&writes->fid), 0);
	EQUAL(fi_endpoint(world.b.domain, world.info, &world.b.ep, NULL), 0);
	world_close(&world);
}

/* Regions may be closed before endpoints: an endpoint that is closed then is gone, and its number free, though the counter that the
 * region had lives on. */
static void regions_closed_first(void)
{
	struct world world;
	struct options options = {.caps = FI_MSG | FI_RMA | FI_RMA_EVENT};
	struct fid_cntr *counter;
	struct fid_mr *mr;
	struct fid_ep *ep;
	char there[64];
	int rounds = 0, result = 0;

	world_open(&world, &options);
	EQUAL(fi_cntr_open(world.b.domain, NULL, &counter, NULL), 0);
	/* More than a domain has endpoints. */
	for (; rounds < 300 && !result; rounds++) {
		EQUAL(fi_mr_reg(world.b.domain, there, 64, FI_REMOTE_WRITE, 0, 5, 0, &mr, NULL), 0);
		EQUAL(fi_mr_bind(mr, &counter->fid, FI_REMOTE_WRITE), 0);
		result = fi_endpoint(world.b.domain, world.info, &ep, NULL);
		if (!result) {
			EQUAL(fi_ep_bind(ep, &world.b.av->fid, 0), 0);
			EQUAL(fi_ep_bind(ep, &world.b.cq->fid, FI_TRANSMIT | FI_RECV), 0);
			EQUAL(fi_enable(ep), 0);
		}
		EQUAL(fi_close(&mr->fid), 0);
		if (!result)
			EQUAL(fi_close(&ep->fid), 0);
	}
	EQUAL(result, 0);
	EQUAL(rounds, 300);
	EQUAL(fi_close(&counter->fid), 0);
	world_close(&world);
}

/* A counter of two regions, or of a region and the endpoint, goes on counting when one of them is closed: who looks at nothing
 * else sees what comes. */
static void one_of_two_closed(int by_endpoint)
{
	struct world world;
	struct options options = {.caps = FI_MSG | FI_RMA | FI_RMA_EVENT, .disabled = 1};
	struct fid_cntr *counter;
	struct fid_mr *mr, *other;
	char there[64], here[64];

	world_open(&world, &options);
	EQUAL(fi_cntr_open(world.b.domain, NULL, &counter, NULL), 0);
	if (by_endpoint)
		EQUAL(fi_ep_bind(world.b.ep, &counter->fid, FI_REMOTE_WRITE), 0);
	EQUAL(fi_enable(world.a.ep), 0);
	EQUAL(fi_enable(world.b.ep), 0);
	EQUAL(fi_mr_reg(world.b.domain, there, 64, FI_REMOTE_WRITE, 0, 5, 0, &mr, NULL), 0);
	EQUAL(fi_mr_reg(world.b.domain, there, 64, FI_REMOTE_WRITE, 0, 6, 0, &other, NULL), 0);
	EQUAL(fi_mr_bind(mr, &counter->fid, FI_REMOTE_WRITE), 0);
	if (!by_endpoint)
		EQUAL(fi_mr_bind(other, &counter->fid, FI_REMOTE_WRITE), 0);
	EQUAL(fi_close(&mr->fid), 0);
	EQUAL(fi_write(world.a.ep, here, 64, NULL, world.a.peer, 0, 6, NULL), 0);
	EQUAL(fi_cntr_wait(counter, 1, 5000), 0);
	ended(&world);
	EQUAL(fi_close(&other->fid), 0);
	EQUAL(fi_close(&world.b.ep->fid), 0);
	EQUAL(fi_close(&counter->fid), 0);
	EQUAL(fi_endpoint(world.b.domain, world.info, &world.b.ep, NULL), 0);
	world_close(&world);
}

/* As Sandia's SHMEM has it: the domain is opened for events, the endpoint that is written to as well, and those that write are
 * not; counters are bound when endpoints are enabled already, and what they send by is shared. */
static void of_a_domain(void)
{
	struct world world;
	struct options options = {.caps = FI_RMA | FI_ATOMIC | FI_RMA_EVENT};
	struct fid_cntr *puts, *gets, *told;
	struct fid_ep *writer;
	struct fid_stx *stx;
	struct fid_mr *mr;
	char there[64] = "", here[64] = "written", name[64];
	size_t bytes = sizeof name;
	fi_addr_t to = FI_ADDR_UNSPEC;

	world_open(&world, &options);
	CHECK(world.info->domain_attr->max_ep_stx_ctx > 0);
	EQUAL(fi_cntr_open(world.b.domain, NULL, &told, NULL), 0);
	EQUAL(fi_mr_reg(world.b.domain, there, 64, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL), 0);
	EQUAL(fi_mr_bind(mr, &told->fid, FI_REMOTE_WRITE), 0);

	struct fi_info *info = fi_dupinfo(world.info);
	info->caps = FI_RMA | FI_WRITE | FI_READ | FI_ATOMIC | FI_RECV;
	info->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	info->tx_attr->caps = info->caps;
	info->rx_attr->caps = FI_RECV;
	info->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
	EQUAL(fi_endpoint(world.a.domain, info, &writer, NULL), 0);
	EQUAL(fi_stx_context(world.a.domain, NULL, &stx, NULL), 0);
	EQUAL(fi_ep_bind(writer, &world.a.cq->fid, FI_SELECTIVE_COMPLETION | FI_TRANSMIT | FI_RECV), 0);
	EQUAL(fi_ep_bind(writer, &world.a.av->fid, 0), 0);
	EQUAL(fi_enable(writer), 0);
	EQUAL(fi_ep_bind(writer, &stx->fid, 0), 0);
	EQUAL(fi_ep_bind(writer, &world.b.cq->fid, FI_RECV), -FI_EOPBADSTATE);
	EQUAL(fi_cntr_open(world.a.domain, NULL, &puts, NULL), 0);
	EQUAL(fi_cntr_open(world.a.domain, NULL, &gets, NULL), 0);
	EQUAL(fi_ep_bind(writer, &puts->fid, FI_WRITE), 0);
	EQUAL(fi_ep_bind(writer, &gets->fid, FI_READ), 0);
	EQUAL(fi_ep_bind(writer, &gets->fid, FI_WRITE), -FI_EINVAL);
	EQUAL(fi_ep_bind(writer, &world.a.cq->fid, FI_RECV), -FI_EOPBADSTATE);
	EQUAL(fi_close(&puts->fid), -FI_EBUSY);

	EQUAL(fi_getname(&world.b.ep->fid, name, &bytes), 0);
	EQUAL(fi_av_insert(world.a.av, name, 1, &to, 0, NULL), 1);
	EQUAL(fi_inject_write(writer, here, 8, to, 0, 1), 0);
	EQUAL(fi_write(writer, here, 8, NULL, to, 8, 1, NULL), 0);
	EQUAL(fi_cntr_wait(puts, 2, 1000 * PATIENCE), 0);
	EQUAL(fi_cntr_wait(told, 2, 1000 * PATIENCE), 0);
	CHECK(!memcmp(there, "written", 8) && !memcmp(there + 8, "written", 8));
	EQUAL(fi_read(writer, here + 16, 8, NULL, to, 8, 1, NULL), 0);
	EQUAL(fi_cntr_wait(gets, 1, 1000 * PATIENCE), 0);
	CHECK(!memcmp(here + 16, "written", 8));
	EQUAL(fi_cntr_read(puts), 2);
	EQUAL(fi_close(&stx->fid), 0);
	/* What it was bound to goes on without it. */
	EQUAL(fi_write(writer, here, 8, NULL, to, 8, 1, NULL), 0);
	EQUAL(fi_cntr_wait(puts, 3, 1000 * PATIENCE), 0);
	EQUAL(fi_close(&writer->fid), 0);
	EQUAL(fi_close(&puts->fid), 0);
	EQUAL(fi_close(&gets->fid), 0);
	EQUAL(fi_close(&mr->fid), 0);
	EQUAL(fi_close(&told->fid), 0);
	fi_freeinfo(info);
	world_close(&world);
}

/* More writes than a node has room for notices of, to an endpoint at which nobody looks meanwhile: its program waits at another one of the
 * domain, as Sandia's SHMEM does in a loop of fetching atomics. */
static void nobody_looks(void)
{
	enum { WRITES = 20000 };
	struct world world;
	struct options options = {.caps = FI_MSG | FI_RMA | FI_RMA_EVENT};
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_cq_tagged_entry entry;
	struct fid_cntr *told;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
	char there[8], here[8] = "written";
	double end = now() + 3 * PATIENCE;
	int written = 0;

	world_open(&world, &options);
	EQUAL(fi_cntr_open(world.b.domain, NULL, &told, NULL), 0);
	EQUAL(fi_mr_reg(world.b.domain, there, 8, FI_REMOTE_WRITE, 0, 5, 0, &mr, NULL), 0);
	EQUAL(fi_mr_bind(mr, &told->fid, FI_REMOTE_WRITE), 0);
	EQUAL(fi_cq_open(world.b.domain, &attr, &cq, NULL), 0);
	EQUAL(fi_endpoint(world.b.domain, world.info, &ep, NULL), 0);
	EQUAL(fi_ep_bind(ep, &world.b.av->fid, 0), 0);
	EQUAL(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
	EQUAL(fi_enable(ep), 0);
	for (; written < WRITES && now() < end; written++) {
		EQUAL(fi_write(world.a.ep, here, 8, NULL, world.a.peer, 0, 5, NULL), 0);
		while (fi_cq_read(world.a.cq, &entry, 1) == -FI_EAGAIN && now() < end)
			EQUAL(fi_cq_read(cq, &entry, 1), -FI_EAGAIN);
	}
	EQUAL(written, WRITES);
	EQUAL(fi_cntr_wait(told, WRITES, 1000 * PATIENCE), 0);
	EQUAL(fi_close(&ep->fid), 0);
	EQUAL(fi_close(&cq->fid), 0);
	EQUAL(fi_close(&mr->fid), 0);
	EQUAL(fi_close(&told->fid), 0);
	world_close(&world);
}

void test_events(void)
{
	nobody_looks();
	of_a_domain();
	each_kind(1);
	each_kind(0);
	of_an_endpoint();
	regions_closed_first();
	of_several_regions();
	one_of_two_closed(0);
	one_of_two_closed(1);
}
