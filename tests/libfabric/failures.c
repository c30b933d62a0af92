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
	/* A small message may count as sent when it is copied; what tells of it then has no name. */
	if (result == 0 || error.err == 0)
		result = next_error(&world, &world.a, &error);
	EQUAL(result, 1);
	EQUAL(error.err, FI_EHOSTUNREACH);
	CHECK(now() - start < 10);
	char text[100];
	CHECK(strlen(fi_cq_strerror(world.a.cq, error.prov_errno, error.err_data, text, sizeof text)) > 5);

	/* Injected messages fail aloud, though nobody named them. */
	EQUAL(fi_inject(world.a.ep, "y", 1, to), 0);
	EQUAL(next_error(&world, &world.a, &error), 1);
	CHECK(error.err == FI_EHOSTUNREACH && error.op_context == NULL);

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
	nowhere();
	forked();
	closing_flushes();
	many_endpoints();
}
