/* fi_mr(3) and fi_rma(3): registering memory, and reading and writing that of others. */
#include "world.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { BYTES = 3 << 20 };
static unsigned char remote[BYTES], local[BYTES];

static void fill(unsigned char *bytes, size_t count, int seed)
{
	for (size_t i = 0; i < count; i++)
		bytes[i] = (unsigned char)(i * 37 + (i >> 9) + seed);
}

static struct fid_mr *expose(struct world *world, uint64_t access, uint64_t key)
{
	struct fid_mr *region = NULL;

	EQUAL(fi_mr_reg(world->b.domain, remote, BYTES, access, 0, key, 0, &region, NULL), 0);
	return region;
}

/* Ends one operation of side a. */
static void ended(struct world *world, void *context, uint64_t flags)
{
	struct fi_cq_tagged_entry entry;

	EQUAL(next(world, &world->a, &entry), 1);
	CHECK(entry.op_context == context && (entry.flags & flags) == flags);
}

static void sizes(void)
{
	static const size_t lengths[] = {0, 1, 8, 1024, 1500, 65536, 70001, 1 << 20, BYTES - 5};
	struct world world;
	int context;

	world_open(&world, NULL);
	struct fid_mr *region = expose(&world, FI_REMOTE_READ | FI_REMOTE_WRITE, 0xabcdef);
	EQUAL(fi_mr_key(region), 0xabcdef);
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		size_t bytes = lengths[i];

		memset(remote, 0x11, BYTES);
		fill(local, bytes, (int)i);
		EQUAL(fi_write(world.a.ep, local, bytes, NULL, world.a.peer, 3, 0xabcdef, &context), 0);
		ended(&world, &context, FI_RMA | FI_WRITE);
		/* Complete means that it is there. */
		CHECK(!memcmp(remote + 3, local, bytes));
		CHECK(remote[2] == 0x11 && remote[bytes + 3] == 0x11);
		fill(remote, BYTES, 100 + (int)i);
		memset(local, 0, BYTES);
		EQUAL(fi_read(world.a.ep, local, bytes, NULL, world.a.peer, 2, 0xabcdef, &context), 0);
		ended(&world, &context, FI_RMA | FI_READ);
		CHECK(!memcmp(remote + 2, local, bytes) && local[bytes] == 0);
	}
	/* The target was told nothing. */
	nothing(&world, &world.b);
	EQUAL(fi_close(&region->fid), 0);
	world_close(&world);
}

static void forms(void)
{
	struct fi_cq_tagged_entry entry;
	struct world world;
	int context;

	world_open(&world, NULL);
	struct fid_mr *region = expose(&world, FI_REMOTE_READ | FI_REMOTE_WRITE, 7);
	struct fid_ep *ep = world.a.ep;
	fi_addr_t to = world.a.peer;
	struct iovec three[] = {{local, 100}, {local + 100, 0}, {local + 100, 1900}};
	struct fi_rma_iov where = {50, 2000, 7};
	struct fi_msg_rma message = {three, NULL, 3, to, &where, 1, &context, 0x123456789abcdef0};
	for (int form = 0; form < 9; form++) {
		int named = form != 3 && form != 5, data = form >= 4 && form <= 6;
		size_t bytes = form == 3 || form == 5 ? 1024 : 2000;

		memset(remote, 0, 4096);
		fill(local, 2000, form);
		switch (form) {
		case 0: EQUAL(fi_writev(ep, three, NULL, 3, to, 50, 7, &context), 0); break;
		case 1: EQUAL(fi_writemsg(ep, &message, 0), 0); break;
		case 2: EQUAL(fi_writemsg(ep, &message, FI_DELIVERY_COMPLETE), 0); break;
		case 3: EQUAL(fi_inject_write(ep, local, bytes, to, 50, 7), 0); break;
		case 4: EQUAL(fi_writedata(ep, local, bytes, NULL, message.data, to, 50, 7, &context), 0); break;
		case 5: EQUAL(fi_inject_writedata(ep, local, bytes, message.data, to, 50, 7), 0); break;
		case 6: EQUAL(fi_writemsg(ep, &message, FI_REMOTE_CQ_DATA), 0); break;
		case 7:
			fill(remote + 50, 2000, form);
			memset(local, 0, 2000);
			EQUAL(fi_readv(ep, three, NULL, 3, to, 50, 7, &context), 0);
			break;
		case 8:
			fill(remote + 50, 2000, form);
			memset(local, 0, 2000);
			EQUAL(fi_readmsg(ep, &message, 0), 0);
			break;
		}
		if (!named)
			memset(local, 0xff, bytes);
		if (data) {
			EQUAL(next(&world, &world.b, &entry), 1);
			CHECK(entry.data == message.data && entry.flags & FI_REMOTE_CQ_DATA);
			CHECK(entry.flags & FI_RMA && entry.flags & FI_REMOTE_WRITE);
			EQUAL(entry.len, bytes);
		}
		if (named)
			ended(&world, &context, FI_RMA | (form < 7 ? FI_WRITE : FI_READ));
		else
			turn(&world, 0.02);
		fill(local, 2000, form);
		CHECK(!memcmp(remote + 50, local, bytes));
		CHECK(remote[49] == 0 && remote[50 + bytes] == 0);
		nothing(&world, &world.a);
	}
	where.len = 1999;
	EQUAL(fi_writemsg(ep, &message, 0), -FI_EINVAL);
	message.rma_iov_count = 0;
	EQUAL(fi_writemsg(ep, &message, 0), -FI_EINVAL);
	/* One segment more than the endpoint was opened for: of reads, writes and those of several runs alike. */
	size_t most = world.info->tx_attr->iov_limit;
	struct iovec many[9];
	struct fi_rma_iov two[2] = {{0, 1, 7}, {8, most, 7}};
	struct fi_msg_rma more = {many, NULL, most + 1, to, two, 2, NULL, 0};
	CHECK(most < 9);
	for (int i = 0; i < 9; i++)
		many[i] = (struct iovec){local + i, 1};
	EQUAL(fi_writev(ep, many, NULL, most + 1, to, 0, 7, NULL), -FI_EINVAL);
	EQUAL(fi_readv(ep, many, NULL, most + 1, to, 0, 7, NULL), -FI_EINVAL);
	EQUAL(fi_writemsg(ep, &more, 0), -FI_EINVAL);
	EQUAL(fi_readmsg(ep, &more, 0), -FI_EINVAL);
	EQUAL(fi_inject_write(ep, local, 1 << 20, to, 0, 7), -FI_EMSGSIZE);
	EQUAL(fi_write(ep, local, 1, NULL, 4711, 0, 7, NULL), -FI_EINVAL);
	EQUAL(fi_close(&region->fid), 0);
	world_close(&world);
}

/* One operation on several runs of remote memory, in two regions, of which the parts know nothing: one end, for all of it. */
static void several_runs(void)
{
	enum { LONG = 1 << 20 };
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error;
	struct world world;
	int context;

	world_open(&world, NULL);
	EQUAL(world.info->tx_attr->rma_iov_limit, 4);
	struct fid_mr *other = NULL, *region = expose(&world, FI_REMOTE_READ | FI_REMOTE_WRITE, 7);
	static unsigned char elsewhere[4096];
	EQUAL(fi_mr_reg(world.b.domain, elsewhere, sizeof elsewhere, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 8, 0, &other, NULL), 0);
	struct fid_ep *ep = world.a.ep;
	struct iovec parts[] = {{local, 700}, {local + 700, LONG}, {local + 700 + LONG, 300}};
	struct fi_rma_iov runs[] = {{10, 500, 7}, {100, 200, 8}, {5000, LONG + 100, 7}, {4000, 200, 7}, {0, 0, 7}};
	struct fi_msg_rma message = {parts, NULL, 3, world.a.peer, runs, 4, &context, 0x77};
	const size_t all = 1000 + LONG;
	for (int form = 0; form < 4; form++) {
		memset(remote, 0, BYTES);
		memset(elsewhere, 0, sizeof elsewhere);
		fill(local, all, form);
		if (form < 2) {
			EQUAL(fi_writemsg(ep, &message, form ? FI_REMOTE_CQ_DATA : 0), 0);
		} else if (form == 2) {
			memcpy(remote + 10, local, 500);
			memcpy(elsewhere + 100, local + 500, 200);
			memcpy(remote + 5000, local + 700, LONG + 100);
			memcpy(remote + 4000, local + 800 + LONG, 200);
			memset(local, 0, all);
			EQUAL(fi_readmsg(ep, &message, 0), 0);
		} else {
			/* The buffer is free at once. */
			parts[0].iov_len = 900;
			runs[2].len = 100;
			runs[3].len = 100;
			message.iov_count = 1;
			EQUAL(fi_writemsg(ep, &message, FI_INJECT), 0);
			memset(local, 0xff, 900);
		}
		if (form == 1) {
			/* When the target is told, all of it is there, whatever came first. */
			EQUAL(next(&world, &world.b, &entry), 1);
			CHECK(entry.data == 0x77 && entry.flags & FI_REMOTE_CQ_DATA);
		} else {
			ended(&world, &context, FI_RMA | (form == 2 ? FI_READ : FI_WRITE));
		}
		fill(local, form == 3 ? 900 : all, form);
		CHECK(!memcmp(remote + 10, local, 500) && remote[510] == 0);
		CHECK(!memcmp(elsewhere + 100, local + 500, 200) && elsewhere[300] == 0);
		CHECK(!memcmp(remote + 5000, local + 700, runs[2].len) && remote[5000 + runs[2].len] == 0);
		CHECK(!memcmp(remote + 4000, local + 700 + runs[2].len, runs[3].len));
		if (form == 1)
			ended(&world, &context, FI_RMA | FI_WRITE);
		nothing(&world, &world.a);
		nothing(&world, &world.b);
	}
	/* Sides of different length; more runs than announced. */
	runs[3].len = 101;
	EQUAL(fi_writemsg(ep, &message, 0), -FI_EINVAL);
	runs[3].len = 100;
	message.rma_iov_count = 5;
	EQUAL(fi_writemsg(ep, &message, 0), -FI_EINVAL);
	EQUAL(fi_readmsg(ep, &message, 0), -FI_EINVAL);
	message.rma_iov_count = 4;
	/* One run that is refused fails the operation, once; the others end before that is told. */
	runs[1].key = 9;
	EQUAL(fi_writemsg(ep, &message, FI_REMOTE_CQ_DATA), 0);
	EQUAL(next_error(&world, &world.a, &error), 1);
	EQUAL(error.err, FI_ENOKEY);
	CHECK(error.op_context == &context);
	nothing(&world, &world.a);
	nothing(&world, &world.b);
	EQUAL(fi_close(&other->fid), 0);
	EQUAL(fi_close(&region->fid), 0);
	world_close(&world);
}

static void fails(struct world *world, ssize_t posted, int wanted)
{
	struct fi_cq_err_entry error;

	EQUAL(posted, 0);
	EQUAL(next_error(world, &world->a, &error), 1);
	EQUAL(error.err, wanted);
}

/* Wrong keys, bounds and rights are refused at the target, and nothing is touched there. */
static void refusals(void)
{
	struct world world;
	struct fid_mr *again;

	world_open(&world, NULL);
	struct fid_ep *ep = world.a.ep;
	fi_addr_t to = world.a.peer;
	struct fid_mr *readable = expose(&world, FI_REMOTE_READ, 1);
	struct fid_mr *writable = expose(&world, FI_REMOTE_WRITE, 2);
	EQUAL(fi_mr_reg(world.b.domain, remote, 8, FI_REMOTE_READ, 0, 1, 0, &again, NULL), -FI_ENOKEY);
	memset(remote, 0x22, BYTES);
	fails(&world, fi_write(ep, local, 8, NULL, to, 0, 3, NULL), FI_ENOKEY);
	fails(&world, fi_read(ep, local, 8, NULL, to, 0, 3, NULL), FI_ENOKEY);
	fails(&world, fi_write(ep, local, 8, NULL, to, BYTES - 7, 2, NULL), FI_EINVAL);
	fails(&world, fi_read(ep, local, 8, NULL, to, BYTES - 7, 1, NULL), FI_EINVAL);
	fails(&world, fi_write(ep, local, 8, NULL, to, ~0ULL - 3, 2, NULL), FI_EINVAL);
	fails(&world, fi_write(ep, local, 8, NULL, to, 0, 1, NULL), FI_EACCES);
	fails(&world, fi_read(ep, local, 8, NULL, to, 0, 2, NULL), FI_EACCES);
	fails(&world, fi_write(ep, local, 1 << 20, NULL, to, BYTES - 100, 2, NULL), FI_EINVAL);
	fails(&world, fi_inject_write(ep, local, 8, to, 0, 3), FI_ENOKEY);
	for (int i = 0; i < BYTES; i++)
		if (remote[i] != 0x22) {
			CHECK(!"refused operations leave memory alone");
			break;
		}
	/* A region that was closed is no more; its key may be used again. */
	EQUAL(fi_close(&writable->fid), 0);
	fails(&world, fi_write(ep, local, 8, NULL, to, 0, 2, NULL), FI_ENOKEY);
	writable = expose(&world, FI_REMOTE_WRITE, 2);
	EQUAL(fi_write(ep, local, 8, NULL, to, 0, 2, &world), 0);
	ended(&world, &world, FI_WRITE);
	EQUAL(fi_close(&world.b.domain->fid), -FI_EBUSY);
	EQUAL(fi_close(&readable->fid), 0);
	EQUAL(fi_close(&writable->fid), 0);
	world_close(&world);
}

/* fi_mr_regv, fi_mr_regattr, memory that only we use, and addresses and keys as the domain's modes have them. */
static void registering(void)
{
	struct world world;
	struct fid_mr *region, *other;
	struct iovec iov[2] = {{remote, 100}, {remote + 200, 100}};
	struct fi_mr_attr attr = {.mr_iov = iov, .iov_count = 1, .access = FI_REMOTE_WRITE,
				  .requested_key = 66, .context = &world};

	world_open(&world, NULL);
	EQUAL(fi_mr_regattr(world.b.domain, &attr, 0, &region), 0);
	CHECK(fi_mr_key(region) == 66 && region->fid.context == &world);
	EQUAL(fi_mr_bind(region, &world.b.ep->fid, 0), 0);
	EQUAL(fi_mr_enable(region), 0);
	EQUAL(fi_write(world.a.ep, "ab", 2, NULL, world.a.peer, 98, 66, &world), 0);
	ended(&world, &world, FI_WRITE);
	CHECK(!memcmp(remote + 98, "ab", 2));
	EQUAL(fi_mr_regv(world.b.domain, iov, 2, FI_REMOTE_WRITE, 0, 67, 0, &other, NULL), -FI_EINVAL);
	EQUAL(fi_mr_regv(world.b.domain, iov, 1, FI_SEND | FI_RECV, 0, 66, 0, &other, NULL), 0);
	EQUAL(fi_close(&other->fid), 0);
	EQUAL(fi_close(&region->fid), 0);

	/* A second domain, opened with virtual addresses and keys of the provider's choice. */
	struct fi_info *info = fi_dupinfo(world.info);
	struct fid_domain *domain;
	struct fid_ep *ep;
	fi_addr_t to = FI_ADDR_UNSPEC;
	char name[64];
	size_t bytes = sizeof name;
	info->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
	EQUAL(fi_domain(world.fabric, info, &domain, NULL), 0);
	EQUAL(fi_endpoint(domain, info, &ep, NULL), 0);
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fid_cq *cq;
	struct fid_av *av;
	EQUAL(fi_cq_open(domain, &cq_attr, &cq, NULL), 0);
	EQUAL(fi_av_open(domain, &av_attr, &av, NULL), 0);
	EQUAL(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
	EQUAL(fi_ep_bind(ep, &av->fid, 0), 0);
	EQUAL(fi_enable(ep), 0);
	EQUAL(fi_mr_reg(domain, remote + 1000, 64, FI_REMOTE_WRITE, 0, 5, 0, &region, NULL), 0);
	EQUAL(fi_mr_reg(domain, remote + 2000, 64, FI_REMOTE_WRITE, 0, 5, 0, &other, NULL), 0);
	CHECK(fi_mr_key(region) != fi_mr_key(other));
	EQUAL(fi_getname(&ep->fid, name, &bytes), 0);
	EQUAL(fi_av_insert(world.a.av, name, 1, &to, 0, NULL), 1);
	struct side both = world.b;
	world.b.cq = cq;
	EQUAL(fi_write(world.a.ep, "vw", 2, NULL, to, (uint64_t)(uintptr_t)(remote + 1062), fi_mr_key(region), &world), 0);
	ended(&world, &world, FI_WRITE);
	CHECK(!memcmp(remote + 1062, "vw", 2));
	fails(&world, fi_write(world.a.ep, "vw", 2, NULL, to, (uint64_t)(uintptr_t)(remote + 1063),
			       fi_mr_key(region), NULL), FI_EINVAL);
	fails(&world, fi_write(world.a.ep, "vw", 2, NULL, to, 0, fi_mr_key(region), NULL), FI_EINVAL);
	world.b = both;
	EQUAL(fi_close(&region->fid), 0);
	EQUAL(fi_close(&other->fid), 0);
	EQUAL(fi_close(&ep->fid), 0);
	EQUAL(fi_close(&cq->fid), 0);
	EQUAL(fi_close(&av->fid), 0);
	EQUAL(fi_close(&domain->fid), 0);
	fi_freeinfo(info);
	world_close(&world);
}

/* Counters see reads and writes each for themselves. */
static void counted(void)
{
	struct fid_cntr *reads, *writes, *told;
	struct world world;

	world_open(&world, &(struct options){.disabled = 1});
	EQUAL(fi_cntr_open(world.a.domain, NULL, &reads, NULL), 0);
	EQUAL(fi_cntr_open(world.a.domain, NULL, &writes, NULL), 0);
	EQUAL(fi_cntr_open(world.b.domain, NULL, &told, NULL), 0);
	EQUAL(fi_ep_bind(world.a.ep, &reads->fid, FI_READ), 0);
	EQUAL(fi_ep_bind(world.a.ep, &writes->fid, FI_WRITE), 0);
	EQUAL(fi_ep_bind(world.b.ep, &told->fid, FI_REMOTE_WRITE), 0);
	EQUAL(fi_enable(world.a.ep), 0);
	EQUAL(fi_enable(world.b.ep), 0);
	/* Addresses that were taken before the endpoints were enabled are good after. */
	struct fid_mr *region = expose(&world, FI_REMOTE_READ | FI_REMOTE_WRITE, 8);
	for (int i = 0; i < 10; i++)
		EQUAL(fi_inject_write(world.a.ep, "x", 1, world.a.peer, i, 8), 0);
	for (int i = 0; i < 3; i++)
		EQUAL(fi_read(world.a.ep, local, 10, NULL, world.a.peer, i, 8, NULL), 0);
	EQUAL(fi_inject_writedata(world.a.ep, "y", 1, 5, world.a.peer, 0, 8), 0);
	turn(&world, 0.03);
	EQUAL(fi_cntr_wait(writes, 11, 10000), 0);
	EQUAL(fi_cntr_wait(reads, 3, 10000), 0);
	EQUAL(fi_cntr_wait(told, 1, 10000), 0);
	EQUAL(fi_cntr_read(writes), 11);
	EQUAL(fi_cntr_read(reads), 3);
	EQUAL(fi_close(&region->fid), 0);
	EQUAL(fi_close(&world.a.ep->fid), 0);
	EQUAL(fi_close(&world.b.ep->fid), 0);
	EQUAL(fi_close(&reads->fid), 0);
	EQUAL(fi_close(&writes->fid), 0);
	EQUAL(fi_close(&told->fid), 0);
	EQUAL(fi_endpoint(world.a.domain, world.info, &world.a.ep, NULL), 0);
	EQUAL(fi_endpoint(world.b.domain, world.info, &world.b.ep, NULL), 0);
	world_close(&world);
}

static uint64_t address(const volatile void *of)
{
	return (uint64_t)(uintptr_t)of;
}

/* One region for all that the process has: what is mapped is reached by its address, and what is not is an error to who asked,
 * whatever the length and the way of the bytes; the process goes on. */
static void everything(void)
{
	enum { PAGE = 4096, LONG = 1 << 20 };
	struct world world;
	struct fid_mr *region, *readable;
	struct fi_cq_tagged_entry entry;
	int64_t one = 1, old = 0;
	int context;

	world_open(&world, NULL);
	struct fid_ep *ep = world.a.ep;
	fi_addr_t to = world.a.peer;
	/* Memory does not go on at address 0. */
	EQUAL(fi_mr_reg(world.b.domain, (void *)(uintptr_t)4096, SIZE_MAX - 1, FI_REMOTE_READ, 0, 20, 0, &region, NULL), -FI_EINVAL);
	EQUAL(fi_mr_reg(world.b.domain, NULL, SIZE_MAX, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 21, 0, &region, NULL), 0);
	EQUAL(fi_mr_reg(world.b.domain, NULL, SIZE_MAX, FI_REMOTE_READ, 0, 22, 0, &readable, NULL), 0);
	EQUAL(fi_mr_key(region), 21);
	static const size_t lengths[] = {0, 1, 8, 300, 1500, 5000, 70001, LONG};
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		size_t bytes = lengths[i];

		memset(remote, 0x11, BYTES);
		fill(local, bytes, (int)i);
		EQUAL(fi_write(ep, local, bytes, NULL, to, address(remote + 3), 21, &context), 0);
		ended(&world, &context, FI_RMA | FI_WRITE);
		CHECK(!memcmp(remote + 3, local, bytes));
		CHECK(remote[2] == 0x11 && remote[bytes + 3] == 0x11);
		fill(remote, BYTES, 100 + (int)i);
		memset(local, 0, BYTES);
		EQUAL(fi_read(ep, local, bytes, NULL, to, address(remote + 2), 22, &context), 0);
		ended(&world, &context, FI_RMA | FI_READ);
		CHECK(!memcmp(remote + 2, local, bytes) && local[bytes] == 0);
	}
	/* Memory that came after the region did. */
	static const int both = PROT_READ | PROT_WRITE, private = MAP_PRIVATE | MAP_ANONYMOUS;
	unsigned char *late = mmap(NULL, 3 * PAGE + 2 * LONG, both, private, -1, 0);
	CHECK(late != MAP_FAILED);
	EQUAL(fi_write(ep, "late", 4, NULL, to, address(late), 21, &context), 0);
	ended(&world, &context, FI_RMA | FI_WRITE);
	CHECK(!memcmp(late, "late", 4));
	int64_t *number = (int64_t *)(late + 64);
	EQUAL(fi_fetch_atomic(ep, &one, 1, NULL, &old, NULL, to, address(number), 21, FI_INT64, FI_SUM, &context), 0);
	ended(&world, &context, FI_ATOMIC | FI_READ);
	CHECK(*number == 1 && old == 0);

	/* Gone, half gone, not to be written to, and never there. */
	unsigned char *hole = late + PAGE + LONG, *guard = hole + PAGE;
	EQUAL(munmap(hole, PAGE), 0);
	EQUAL(mprotect(guard, PAGE, PROT_READ), 0);
	for (int i = 0; i < 2; i++) {
		static const size_t parts[] = {1, 8, 300, 1500};
		for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
			fails(&world, fi_write(ep, local, parts[k], NULL, to, address(hole), 21, NULL), FI_EFAULT);
			fails(&world, fi_read(ep, local, parts[k], NULL, to, address(hole), 21, NULL), FI_EFAULT);
			/* The kernel writes there for the service empd, into a page of this program's own. */
			if (!getenv("FI_EMP_BOARD"))
				fails(&world, fi_write(ep, local, parts[k], NULL, to, address(guard), 21, NULL), FI_EFAULT);
			fails(&world, fi_write(ep, local, parts[k], NULL, to, 64, 21, NULL), FI_EFAULT);
			fails(&world, fi_read(ep, local, parts[k], NULL, to, 0, 21, NULL), FI_EFAULT);
		}
		fails(&world, fi_write(ep, local, LONG, NULL, to, address(hole) - LONG / 2, 21, NULL), FI_EFAULT);
		fails(&world, fi_read(ep, local, LONG, NULL, to, address(hole) - LONG / 2, 21, NULL), FI_EFAULT);
		fails(&world, fi_write(ep, local, LONG, NULL, to, address(hole), 21, NULL), FI_EFAULT);
		fails(&world, fi_read(ep, local, LONG, NULL, to, address(hole), 21, NULL), FI_EFAULT);
		fails(&world, fi_atomic(ep, &one, 1, NULL, to, address(hole), 21, FI_INT64, FI_SUM, NULL), FI_EFAULT);
		if (!getenv("FI_EMP_BOARD"))
			fails(&world, fi_fetch_atomic(ep, &one, 1, NULL, &old, NULL, to, address(guard), 21, FI_INT64,
						      FI_SUM, NULL), FI_EFAULT);
	}
	fails(&world, fi_read(ep, local, 8, NULL, to, ~0ULL - 16, 21, NULL), FI_EINVAL);
	fails(&world, fi_write(ep, local, 8, NULL, to, address(late), 22, NULL), FI_EACCES);
	EQUAL(fi_read(ep, local, 8, NULL, to, address(guard), 21, &context), 0);
	ended(&world, &context, FI_RMA | FI_READ);
	/* Others of the same pair are none the worse for it. */
	EQUAL(fi_tinject(ep, "x", 1, to, 1), 0);
	EQUAL(fi_trecv(world.b.ep, local, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &context), 0);
	EQUAL(next(&world, &world.b, &entry), 1);
	EQUAL(munmap(late, 3 * PAGE + 2 * LONG), 0);
	EQUAL(fi_close(&region->fid), 0);
	fails(&world, fi_read(ep, local, 8, NULL, to, address(remote), 21, NULL), FI_ENOKEY);
	EQUAL(fi_close(&readable->fid), 0);
	/* Nothing else begins at null. */
	EQUAL(fi_mr_reg(world.b.domain, NULL, 4096, FI_REMOTE_READ, 0, 23, 0, &region, NULL), -FI_EINVAL);
	world_close(&world);
}

void test_memory(void)
{
	everything();
	sizes();
	forms();
	several_runs();
	refusals();
	registering();
	counted();
}
