/* A process that makes no calls for a while: what others do with its memory ends meanwhile. */
#include "world.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 4 << 20, NAME = 32, KEY = 77 };
/* How long the process is away, and how long each operation with it may take, in seconds. Much less, on a quiet machine. */
#define AWAY 4
#define MOST 2.0
/* Messages that arrive meanwhile in one buffer for several, and bytes of each: too long to be over before they are there. */
enum { SEVERAL = 40, EACH = 65536 };

struct rank {
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_ep *ep;
	char name[NAME];
};

static void rank_open(struct rank *rank)
{
	struct fi_info *hints = hints_new(), *info;
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	size_t bytes = NAME;

	if (fi_getinfo(API, NULL, NULL, 0, hints, &info) || fi_fabric(info->fabric_attr, &rank->fabric, NULL) ||
	    fi_domain(rank->fabric, info, &rank->domain, NULL) || fi_cq_open(rank->domain, &cq, &rank->cq, NULL) ||
	    fi_av_open(rank->domain, &av, &rank->av, NULL) || fi_endpoint(rank->domain, info, &rank->ep, NULL) ||
	    fi_ep_bind(rank->ep, &rank->cq->fid, FI_TRANSMIT | FI_RECV) || fi_ep_bind(rank->ep, &rank->av->fid, 0) ||
	    fi_enable(rank->ep) || fi_getname(&rank->ep->fid, rank->name, &bytes)) {
		printf("a rank could not be opened\n");
		_exit(1);
	}
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

static void rank_close(struct rank *rank)
{
	EQUAL(fi_close(&rank->ep->fid), 0);
	EQUAL(fi_close(&rank->cq->fid), 0);
	EQUAL(fi_close(&rank->av->fid), 0);
	EQUAL(fi_close(&rank->domain->fid), 0);
	EQUAL(fi_close(&rank->fabric->fid), 0);
}

static void one_entry(struct rank *rank)
{
	struct fi_cq_tagged_entry entry;
	double end = now() + PATIENCE;
	ssize_t result;

	do
		result = fi_cq_read(rank->cq, &entry, 1);
	while (result == -FI_EAGAIN && now() < end);
	EQUAL(result, 1);
}

/* The process that is away: computes, which to others looks like sleeping. */
static int be_away(int in, int out)
{
	static char received[BYTES], exposed[BYTES], several[SEVERAL * EACH];
	struct iovec iov = {several, sizeof several};
	struct fi_msg message = {&iov, NULL, 1, FI_ADDR_UNSPEC, several, 0};
	struct rank mine;
	struct fid_mr *region;
	char byte;
	int whole = 1;

	rank_open(&mine);
	EQUAL(fi_mr_reg(mine.domain, exposed, BYTES, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &region, NULL), 0);
	EQUAL(fi_trecv(mine.ep, received, BYTES, NULL, FI_ADDR_UNSPEC, 5, 0, NULL), 0);
	EQUAL(fi_recvmsg(mine.ep, &message, FI_MULTI_RECV), 0);
	CHECK(write(out, mine.name, NAME) == NAME);
	sleep(AWAY);
	CHECK(read(in, &byte, 1) == 1);
	one_entry(&mine);
	for (int i = 0; i < BYTES; i++)
		whole &= received[i] == (char)(i * 7);
	for (int i = 0; i < SEVERAL; i++) {
		struct fi_cq_tagged_entry entry;

		EQUAL(fi_cq_read(mine.cq, &entry, 1), 1);
		CHECK(entry.op_context == several && entry.len == EACH && entry.buf == several + i * EACH);
		EQUAL(!!(entry.flags & FI_MULTI_RECV), i == SEVERAL - 1);
		whole &= !memcmp(entry.buf, received + i, EACH);
	}
	CHECK(whole);
	EQUAL(fi_close(&region->fid), 0);
	rank_close(&mine);
	return checks_failed != 0;
}

/* The end of one operation that must fail. */
static void one_failure(struct rank *rank, void *context)
{
	struct fi_cq_err_entry error = {0};
	struct fi_cq_tagged_entry entry;
	double end = now() + PATIENCE;
	ssize_t result;

	do
		result = fi_cq_read(rank->cq, &entry, 1);
	while (result == -FI_EAGAIN && now() < end);
	EQUAL(result, -FI_EAVAIL);
	EQUAL(fi_cq_readerr(rank->cq, &error, 0), 1);
	/* Of silence, or as its host tells. */
	CHECK(error.err == FI_EHOSTUNREACH || error.err == FI_ECONNRESET);
	CHECK(error.op_context == context);
}

/* A process that is killed in the middle: everything that concerns it ends with an error, in a bounded time. */
static void killed(void)
{
	static char buffer[BYTES];
	int to[2], from[2], status = 0;
	char name[NAME];
	fi_addr_t peer;
	struct rank mine;

	if (pipe(to) || pipe(from))
		return;
	setenv("FI_EMP_TIMEOUT", "500", 1);
	pid_t child = fork();
	if (child == 0)
		_exit(be_away(to[0], from[1]));
	rank_open(&mine);
	EQUAL(read(from[0], name, NAME), NAME);
	EQUAL(fi_av_insert(mine.av, name, 1, &peer, 0, NULL), 1);
	EQUAL(fi_read(mine.ep, buffer, 8, NULL, peer, 0, KEY, NULL), 0);
	one_entry(&mine);
	EQUAL(kill(child, SIGKILL), 0);
	EQUAL(waitpid(child, &status, 0), child);
	double start = now();
	EQUAL(fi_tsend(mine.ep, buffer, BYTES, NULL, peer, 5, &mine), 0);
	one_failure(&mine, &mine);
	EQUAL(fi_read(mine.ep, buffer, BYTES, NULL, peer, 0, KEY, &peer), 0);
	one_failure(&mine, &peer);
	EQUAL(fi_write(mine.ep, buffer, BYTES, NULL, peer, 0, KEY, &name), 0);
	one_failure(&mine, &name);
	EQUAL(fi_tinject(mine.ep, "x", 1, peer, 5), 0);
	/* Nothing tells of what was injected. */
	EQUAL(fi_read(mine.ep, buffer, BYTES, NULL, peer, 0, KEY, &peer), 0);
	one_failure(&mine, &peer);
	CHECK(now() - start < PATIENCE);
	rank_close(&mine);
	unsetenv("FI_EMP_TIMEOUT");
	close(to[0]), close(to[1]), close(from[0]), close(from[1]);
}

void test_away(void)
{
	static char out[BYTES], in[BYTES];
	int to[2], from[2], status = -1;
	char name[NAME];
	fi_addr_t peer;
	struct rank mine;
	int64_t one = 1, old;

	if (pipe(to) || pipe(from))
		return;
	pid_t child = fork();
	if (child == 0)
		_exit(be_away(to[0], from[1]));
	rank_open(&mine);
	EQUAL(read(from[0], name, NAME), NAME);
	EQUAL(fi_av_insert(mine.av, name, 1, &peer, 0, NULL), 1);
	for (int i = 0; i < BYTES; i++)
		out[i] = (char)(i * 7);

	double start = now();
	EQUAL(fi_tsend(mine.ep, out, BYTES, NULL, peer, 5, NULL), 0);
	one_entry(&mine);
	double message = now() - start;
	start = now();
	for (int i = 0; i < SEVERAL; i++)
		EQUAL(fi_send(mine.ep, out + i, EACH, NULL, peer, NULL), 0);
	for (int i = 0; i < SEVERAL; i++)
		one_entry(&mine);
	double several = now() - start;
	start = now();
	EQUAL(fi_write(mine.ep, out, BYTES, NULL, peer, 0, KEY, NULL), 0);
	one_entry(&mine);
	EQUAL(fi_read(mine.ep, in, BYTES, NULL, peer, 0, KEY, NULL), 0);
	one_entry(&mine);
	double memory = now() - start;
	CHECK(!memcmp(in, out, BYTES));
	start = now();
	for (int i = 0; i < 100; i++) {
		EQUAL(fi_fetch_atomic(mine.ep, &one, 1, NULL, &old, NULL, peer, 8, KEY, FI_INT64, FI_SUM, NULL), 0);
		one_entry(&mine);
	}
	double atomics = now() - start;
	printf("away: 4 MiB message %.3f s, %d messages into one buffer %.3f s, write and read %.3f s, 100 atomics %.3f s\n",
	       message, SEVERAL, several, memory, atomics);
	CHECK(message < MOST && several < MOST && memory < MOST && atomics < MOST);

	EQUAL(write(to[1], "x", 1), 1);
	EQUAL(waitpid(child, &status, 0), child);
	EQUAL(status, 0);
	rank_close(&mine);
	close(to[0]), close(to[1]), close(from[0]), close(from[1]);
	killed();
}
