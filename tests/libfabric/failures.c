/* What goes wrong with peers, and what is closed while it is in use. */
#include "world.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* The address of a node that is not there: no one has this name, and no one listens at its port. */
static fi_addr_t dead(struct side *side)
{
	unsigned char address[64];
	size_t bytes = sizeof address;
	fi_addr_t number = FI_ADDR_UNSPEC;

	EQUAL(fi_getname(&side->ep->fid, address, &bytes), 0);
	memset(address, 0x5a, 8);
	address[12] = 0;
	address[13] = 1;
	EQUAL(fi_av_insert(side->av, address, 1, &number, 0, NULL), 1);
	return number;
}

static void dead_peers(void)
{
	struct fi_cq_err_entry error;
	struct world world;
	int context;

	setenv("FI_EMP_TIMEOUT", "300", 1);
	world_open(&world, NULL);
	fi_addr_t to = dead(&world.a);
	double start = now();
	EQUAL(fi_tsenddata(world.a.ep, "x", 1, NULL, 0, to, 9, &context), 0);
	ssize_t result = next_error(&world, &world.a, &error);
	/* A small message may count as sent when it is copied: then nothing tells of it any more. What is sent to that peer from now on does not. */
	if (result == 1 && error.err == 0) {
		turn(&world, 1);
		EQUAL(fi_tsenddata(world.a.ep, "x", 1, NULL, 0, to, 9, &context), 0);
		result = next_error(&world, &world.a, &error);
	}
	EQUAL(result, 1);
	EQUAL(error.err, FI_EHOSTUNREACH);
	CHECK(error.op_context == &context);
	CHECK(now() - start < 10);
	char text[100];
	CHECK(strlen(fi_cq_strerror(world.a.cq, error.prov_errno, error.err_data, text, sizeof text)) > 5);

	/*
	 * Of injected messages that fail, nothing is told by the queue: an entry could name none, and Open MPI 4.1 follows what it names. They fail
	 * aloud all the same, on standard error.
	 */
	EQUAL(fi_inject(world.a.ep, "y", 1, to), 0);
	turn(&world, 1);
	nothing(&world, &world.a);

	/* Others are not concerned. */
	char in = 0;
	struct fi_cq_tagged_entry entry;
	EQUAL(fi_recv(world.b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
	EQUAL(fi_inject(world.a.ep, "z", 1, world.a.peer), 0);
	EQUAL(next(&world, &world.b, &entry), 1);
	CHECK(in == 'z');
	world_close(&world);
	unsetenv("FI_EMP_TIMEOUT");
}

/* An endpoint may be closed with receives posted, and with sends that nobody takes. */
static void closed_in_use(void)
{
	enum { LARGE = 1 << 20 };
	struct world world;
	char *buffer = calloc(4, LARGE);

	setenv("FI_EMP_LINGER", "200", 1);
	world_open(&world, NULL);
	for (int i = 0; i < 10; i++)
		EQUAL(fi_recv(world.a.ep, buffer, LARGE, NULL, FI_ADDR_UNSPEC, NULL), 0);
	EQUAL(fi_send(world.a.ep, buffer + LARGE, LARGE, NULL, world.a.peer, NULL), 0);
	EQUAL(fi_tsend(world.b.ep, buffer + 2 * LARGE, LARGE, NULL, world.b.peer, 1, NULL), 0);
	turn(&world, 0.01);
	double start = now();
	EQUAL(fi_close(&world.a.ep->fid), 0);
	CHECK(now() - start < 5);
	/* The memory is the application's again. */
	memset(buffer, 0xff, 2 * LARGE);
	EQUAL(fi_endpoint(world.a.domain, world.info, &world.a.ep, NULL), 0);
	world_close(&world);
	free(buffer);
	unsetenv("FI_EMP_LINGER");
}

/* A second endpoint of a side's domain, with its queue, and what the other side calls it. */
static struct fid_ep *second(struct world *world, struct side *of, struct side *other, fi_addr_t *name)
{
	unsigned char address[64];
	size_t bytes = sizeof address;
	struct fid_ep *ep;

	EQUAL(fi_endpoint(of->domain, world->info, &ep, NULL), 0);
	EQUAL(fi_ep_bind(ep, &of->av->fid, 0), 0);
	EQUAL(fi_ep_bind(ep, &of->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	EQUAL(fi_enable(ep), 0);
	EQUAL(fi_getname(&ep->fid, address, &bytes), 0);
	EQUAL(fi_av_insert(other->av, address, 1, name, 0, NULL), 1);
	return ep;
}

/* Takes what there is; returns how much of it tells of this operation. */
static int told(struct side *side, const void *operation)
{
	struct fi_cq_err_entry error = {0};
	struct fi_cq_tagged_entry entry;
	int count = 0;

	for (int i = 0; i < 100; i++) {
		ssize_t result = fi_cq_read(side->cq, &entry, 1);
		if (result == 1)
			count += entry.op_context == operation;
		else if (result == -FI_EAVAIL && fi_cq_readerr(side->cq, &error, 0) == 1)
			count += error.op_context == operation;
	}
	return count;
}

enum half_way { RECEIVES, RECEIVES_SEVERAL, SENDS, READS, WRITES, HALF_WAYS };

/* An endpoint of this side begins something with the other side's, and is closed after some time. */
static void close_half_way(struct world *world, struct side *side, struct side *other, enum half_way what, double seconds,
			   char *buffer, size_t bytes)
{
	struct iovec into = {buffer, bytes};
	struct fi_context operation;
	struct fi_msg several = {.msg_iov = &into, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &operation};
	fi_addr_t name = FI_ADDR_UNSPEC;
	struct fid_ep *ep = second(world, side, other, &name);
	char *far = buffer + bytes;
	struct fid_mr *region;

	EQUAL(fi_mr_reg(other->domain, far, bytes, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0, &region, NULL), 0);
	uint64_t key = fi_mr_key(region);
	uint64_t at = world->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)far : 0;

	if (what == RECEIVES)
		EQUAL(fi_recv(ep, buffer, bytes, NULL, FI_ADDR_UNSPEC, &operation), 0);
	else if (what == RECEIVES_SEVERAL)
		EQUAL(fi_recvmsg(ep, &several, FI_MULTI_RECV | FI_COMPLETION), 0);
	else if (what == SENDS)
		EQUAL(fi_tsend(ep, buffer, bytes, NULL, side->peer, 1, &operation), 0);
	else if (what == READS)
		EQUAL(fi_read(ep, buffer, bytes, NULL, side->peer, at, key, &operation), 0);
	else
		EQUAL(fi_write(ep, buffer, bytes, NULL, side->peer, at, key, &operation), 0);
	if (what <= RECEIVES_SEVERAL)
		EQUAL(fi_send(other->ep, far, bytes, NULL, name, NULL), 0);
	turn(world, seconds);
	EQUAL(fi_close(&ep->fid), 0);
	memset(buffer, 0xff, bytes);
	CHECK(told(side, &operation) >= 1);
	EQUAL(fi_close(&region->fid), 0);
}

/* What an endpoint leaves half done when it is closed is over, and its memory the application's; the others of its domain go on. */
static void closed_half_way(void)
{
	enum { LARGE = 16 << 20 };
	static const double seconds[] = {0, 3e-4, 1e-3, 3e-3};
	struct world world;
	char in = 0;
	char *buffer = calloc(2, LARGE);

	setenv("FI_EMP_LINGER", "1", 1);
	world_open(&world, NULL);
	for (int i = 0; i < 4 * HALF_WAYS; i++) {
		struct side *closes = i & 1 ? &world.b : &world.a, *other = i & 1 ? &world.a : &world.b;
		close_half_way(&world, closes, other, i % HALF_WAYS, seconds[i / HALF_WAYS], buffer, LARGE);
		for (int way = 0; way < 2; way++) {
			struct side *from = way ? other : closes, *to = way ? closes : other;
			EQUAL(fi_trecv(to->ep, &in, 1, NULL, FI_ADDR_UNSPEC, 7, 0, &in), 0);
			EQUAL(fi_tinject(from->ep, "x", 1, from->peer, 7), 0);
			double end = now() + PATIENCE;
			while (in != 'x' && now() < end)
				turn(&world, 1e-3);
			CHECK(in == 'x');
			in = 0;
			told(closes, NULL);
			told(other, NULL);
		}
	}
	world_close(&world);
	free(buffer);
	unsetenv("FI_EMP_LINGER");
}

/* Bytes at no address: an error, where reading or writing them would end the process. Open MPI 4.1.4 sends so from MPI_BOTTOM. */
static void nowhere(void)
{
	struct iovec parts[2] = {{"here", 4}, {NULL, 4}};
	struct fi_cq_tagged_entry entry;
	struct fi_context context;
	struct fid_mr *region;
	struct world world;
	struct fid_ep *ep;
	fi_addr_t to;
	uint64_t sum;

	world_open(&world, NULL);
	ep = world.a.ep;
	to = world.a.peer;
	EQUAL(fi_send(ep, NULL, 4, NULL, to, &context), -FI_EINVAL);
	EQUAL(fi_sendv(ep, parts, NULL, 2, to, &context), -FI_EINVAL);
	EQUAL(fi_tsend(ep, NULL, 4, NULL, to, 1, &context), -FI_EINVAL);
	EQUAL(fi_inject(ep, NULL, 4, to), -FI_EINVAL);
	EQUAL(fi_recv(ep, NULL, 4, NULL, FI_ADDR_UNSPEC, &context), -FI_EINVAL);
	EQUAL(fi_trecvv(ep, parts, NULL, 2, FI_ADDR_UNSPEC, 1, 0, &context), -FI_EINVAL);
	EQUAL(fi_write(ep, NULL, 4, NULL, to, 0, 9, &context), -FI_EINVAL);
	EQUAL(fi_inject_write(ep, NULL, 4, to, 0, 9), -FI_EINVAL);
	EQUAL(fi_readv(ep, parts, NULL, 2, to, 0, 9, &context), -FI_EINVAL);
	EQUAL(fi_atomic(ep, NULL, 1, NULL, to, 0, 9, FI_UINT64, FI_SUM, &context), -FI_EINVAL);
	sum = 1;
	EQUAL(fi_fetch_atomic(ep, &sum, 1, NULL, NULL, NULL, to, 0, 9, FI_UINT64, FI_SUM, &context), -FI_EINVAL);
	EQUAL(fi_mr_reg(world.a.domain, NULL, 4, FI_REMOTE_READ, 0, 9, 0, &region, NULL), -FI_EINVAL);

	/* Nothing of it is left, and no bytes need no address. */
	EQUAL(fi_recv(world.b.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, &context), 0);
	EQUAL(fi_send(ep, NULL, 0, NULL, to, &context), 0);
	EQUAL(next(&world, &world.b, &entry), 1);
	EQUAL(next(&world, &world.a, &entry), 1);
	world_close(&world);
}

/* The child of a process that forks may not use what its parent opened: every call says so at once, whatever its parent's
 * threads were at, and the parent goes on. */
static void forked(void)
{
	struct fi_cq_tagged_entry entry;
	struct world world;
	int status = 0;
	char in = 0;

	world_open(&world, NULL);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		int wrong = 0;

		/* Instead of a hang. */
		alarm(PATIENCE);
		wrong += fi_send(world.a.ep, "x", 1, NULL, world.a.peer, NULL) != -FI_EOPBADSTATE;
		wrong += fi_cq_read(world.a.cq, &entry, 1) != -FI_EOPBADSTATE;
		wrong += fi_close(&world.a.ep->fid) != -FI_EOPBADSTATE;
		wrong += fi_domain(world.fabric, world.info, &world.a.domain, NULL) != -FI_EOPBADSTATE;
		_exit(wrong);
	}
	EQUAL(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	EQUAL(WEXITSTATUS(status), 0);
	EQUAL(fi_recv(world.b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
	EQUAL(fi_send(world.a.ep, "x", 1, NULL, world.a.peer, NULL), 0);
	EQUAL(next(&world, &world.b, &entry), 1);
	EQUAL(next(&world, &world.a, &entry), 1);
	CHECK(in == 'x');
	world_close(&world);

	/* Without anything open a child is a process like any other. */
	child = fork();
	if (child == 0) {
		alarm(PATIENCE);
		checks_failed = 0;
		world_open(&world, NULL);
		world_close(&world);
		_exit(checks_failed != 0);
	}
	EQUAL(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	EQUAL(WEXITSTATUS(status), 0);
}

/* What was sent before closing arrives. */
static void closing_flushes(void)
{
	enum { MANY = 100, BYTES = 3000 };
	static char in[MANY][BYTES], out[MANY][BYTES];
	struct fi_cq_tagged_entry entry;
	struct world world;

	world_open(&world, NULL);
	for (int i = 0; i < MANY; i++) {
		memset(out[i], i, BYTES);
		EQUAL(fi_recv(world.b.ep, in[i], BYTES, NULL, FI_ADDR_UNSPEC, NULL), 0);
	}
	for (int i = 0; i < MANY; i++)
		EQUAL(fi_send(world.a.ep, out[i], BYTES, NULL, world.a.peer, NULL), 0);
	EQUAL(fi_close(&world.a.ep->fid), 0);
	for (int i = 0; i < MANY; i++)
		EQUAL(next(&world, &world.b, &entry), 1);
	CHECK(!memcmp(in, out, sizeof in));
	EQUAL(fi_endpoint(world.a.domain, world.info, &world.a.ep, NULL), 0);
	world_close(&world);
}

/* More endpoints than there can be; those that are closed make room. */
static void many_endpoints(void)
{
	struct world world;
	struct fid_ep *ep[3];

	world_open(&world, NULL);
	for (int round = 0; round < 200; round++) {
		int opened = 0;

		for (int i = 0; i < 3; i++)
			opened += fi_endpoint(world.a.domain, world.info, &ep[i], NULL) == 0;
		EQUAL(opened, 3);
		if (opened != 3)
			break;
		for (int i = 0; i < 3; i++)
			EQUAL(fi_close(&ep[i]->fid), 0);
	}
	world_close(&world);
}

void test_failures(void)
{
	dead_peers();
	closed_in_use();
	closed_half_way();
	nowhere();
	forked();
	closing_flushes();
	many_endpoints();
}
