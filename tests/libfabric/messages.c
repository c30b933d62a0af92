/* fi_msg(3): untagged messages in all their forms. */
#include "world.h"

#include <stdlib.h>

static unsigned char pattern(size_t i, int seed)
{
	return (unsigned char)(i * 131 + (i >> 8) * 7 + seed);
}

static void fill(unsigned char *bytes, size_t count, int seed)
{
	for (size_t i = 0; i < count; i++)
		bytes[i] = pattern(i, seed);
}

static int is_filled(const unsigned char *bytes, size_t count, int seed)
{
	for (size_t i = 0; i < count; i++)
		if (bytes[i] != pattern(i, seed))
			return 0;
	return 1;
}

static void sizes(void)
{
	static const size_t lengths[] = {0, 1, 8, 1024, 1025, 1500, 65536, 65537, 1 << 20, 5 << 20};
	struct fi_cq_tagged_entry entry;
	struct world world;
	int send_context, receive_context;

	world_open(&world, NULL);
	unsigned char *out = malloc(5 << 20), *in = malloc((5 << 20) + 1);
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		size_t bytes = lengths[i];

		fill(out, bytes, (int)i);
		memset(in, 0, bytes + 1);
		EQUAL(fi_recv(world.b.ep, in, bytes + 1, NULL, world.b.peer, &receive_context), 0);
		EQUAL(fi_send(world.a.ep, out, bytes, NULL, world.a.peer, &send_context), 0);
		EQUAL(next(&world, &world.b, &entry), 1);
		CHECK(entry.op_context == &receive_context && entry.len == bytes);
		CHECK(entry.flags & FI_RECV && entry.flags & FI_MSG && !(entry.flags & FI_TAGGED));
		CHECK(!(entry.flags & FI_REMOTE_CQ_DATA));
		CHECK(is_filled(in, bytes, (int)i) && in[bytes] == 0);
		EQUAL(next(&world, &world.a, &entry), 1);
		CHECK(entry.op_context == &send_context);
		CHECK(entry.flags & FI_SEND && entry.flags & FI_MSG);
	}
	free(out);
	free(in);
	world_close(&world);
}

/* v, msg, inject, data: all arrive in the order in which they were sent. */
static void forms(void)
{
	struct fi_cq_tagged_entry entry;
	struct world world;
	unsigned char out[40000], in[40000];
	int context;

	world_open(&world, NULL);
	struct fid_ep *ep = world.a.ep;
	fi_addr_t to = world.a.peer;
	size_t most = world.info->tx_attr->inject_size;
	CHECK(most <= sizeof in);
	struct iovec three[] = {{out, 10}, {out + 10, 0}, {out + 10, 1990}};
	struct iovec two_in[] = {{in, 7}, {in + 7, sizeof in - 7}};
	struct fi_msg message = {three, NULL, 3, to, &context, 0x1122334455667788};
	fill(out, sizeof out, 3);
	for (int form = 0; form < 8; form++) {
		int named = 1, data = form == 3 || form == 5 || form == 7;
		size_t bytes = 2000;
		struct fi_msg receive = {two_in, NULL, 2, FI_ADDR_UNSPEC, &context, 0};

		memset(in, 0, sizeof in);
		if (form & 1)
			EQUAL(fi_recvv(world.b.ep, two_in, NULL, 2, FI_ADDR_UNSPEC, &context), 0);
		else
			EQUAL(fi_recvmsg(world.b.ep, &receive, 0), 0);
		switch (form) {
		case 0: EQUAL(fi_sendv(ep, three, NULL, 3, to, &context), 0); break;
		case 1: EQUAL(fi_sendmsg(ep, &message, 0), 0); break;
		case 2: EQUAL(fi_sendmsg(ep, &message, FI_DELIVERY_COMPLETE), 0); break;
		case 3: EQUAL(fi_sendmsg(ep, &message, FI_REMOTE_CQ_DATA), 0); break;
		case 4:
			bytes = most;
			EQUAL(fi_inject(ep, out, bytes, to), 0);
			memset(out, 0xff, bytes);
			named = 0;
			break;
		case 5:
			EQUAL(fi_senddata(ep, out, bytes, NULL, 0x1122334455667788, to, &context), 0);
			break;
		case 6:
			message.iov_count = 1;
			bytes = 10;
			EQUAL(fi_sendmsg(ep, &message, FI_INJECT), 0);
			memset(out, 0xff, bytes);
			break;
		case 7:
			bytes = most;
			EQUAL(fi_injectdata(ep, out, bytes, 0x1122334455667788, to), 0);
			named = 0;
			break;
		}
		EQUAL(next(&world, &world.b, &entry), 1);
		fill(out, sizeof out, 3);
		EQUAL(entry.len, bytes);
		CHECK(!memcmp(in, out, bytes));
		EQUAL(!!(entry.flags & FI_REMOTE_CQ_DATA), data);
		if (data)
			CHECK(entry.data == 0x1122334455667788);
		if (named)
			EQUAL(next(&world, &world.a, &entry), 1);
		nothing(&world, &world.a);
	}
	world_close(&world);
}

/* An fi_info that says nothing of how many segments there may be is answered as one that was not changed. */
static void no_limit_named(void)
{
	struct world world;
	struct fi_cq_tagged_entry entry;
	struct fid_ep *ep;
	char in[4] = "";
	fi_addr_t to;

	world_open(&world, NULL);
	struct fi_info *info = fi_dupinfo(world.info);
	info->tx_attr->iov_limit = info->rx_attr->iov_limit = 0;
	EQUAL(fi_endpoint(world.a.domain, info, &ep, NULL), 0);
	EQUAL(fi_ep_bind(ep, &world.a.av->fid, 0), 0);
	EQUAL(fi_ep_bind(ep, &world.a.cq->fid, FI_TRANSMIT | FI_RECV), 0);
	EQUAL(fi_enable(ep), 0);
	char name[64];
	size_t bytes = sizeof name;
	EQUAL(fi_getname(&ep->fid, name, &bytes), 0);
	EQUAL(fi_av_insert(world.a.av, name, 1, &to, 0, NULL), 1);
	EQUAL(fi_trecv(ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
	struct iovec parts[4] = {{"o", 1}, {"n", 1}, {"e", 1}, {"", 1}};
	EQUAL(fi_tsendv(ep, parts, NULL, 4, to, 1, NULL), 0);
	EQUAL(next(&world, &world.a, &entry), 1);
	EQUAL(next(&world, &world.a, &entry), 1);
	CHECK(!strcmp(in, "one"));
	EQUAL(fi_close(&ep->fid), 0);
	fi_freeinfo(info);
	world_close(&world);
}

static void bad_arguments(void)
{
	struct world world;
	unsigned char buffer[4096];
	struct iovec many[300];

	world_open(&world, NULL);
	struct fid_ep *ep = world.a.ep;
	for (int i = 0; i < 300; i++)
		many[i] = (struct iovec){buffer, 1};
	EQUAL(fi_inject(ep, buffer, world.info->tx_attr->inject_size + 1, world.a.peer), -FI_EMSGSIZE);
	EQUAL(fi_sendv(ep, many, NULL, world.info->tx_attr->iov_limit + 1, world.a.peer, NULL), -FI_EINVAL);
	EQUAL(fi_recvv(ep, many, NULL, 300, FI_ADDR_UNSPEC, NULL), -FI_EINVAL);
	/* Counts that no list can have; so long a slice is not even looked at. */
	static const size_t counts[] = {300, (size_t)1 << 40, (size_t)1 << 60, SIZE_MAX};
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		struct fi_rma_iov there[1] = {{0, 1, 7}};
		struct fi_ioc element = {buffer, 1};
		struct fi_msg message = {many, NULL, counts[i], world.a.peer, NULL, 0};
		struct fi_msg_tagged tagged = {many, NULL, counts[i], world.a.peer, 1, 0, NULL, 0};
		struct fi_msg_rma rma = {many, NULL, counts[i], world.a.peer, there, 1, NULL, 0};
		struct fi_msg_atomic atomic = {.msg_iov = &element, .iov_count = counts[i], .addr = world.a.peer,
					       .rma_iov = (struct fi_rma_ioc[]){{0, 1, 7}}, .rma_iov_count = 1,
					       .datatype = FI_UINT8, .op = FI_SUM};

		EQUAL(fi_sendv(ep, many, NULL, counts[i], world.a.peer, NULL), -FI_EINVAL);
		EQUAL(fi_recvv(ep, many, NULL, counts[i], FI_ADDR_UNSPEC, NULL), -FI_EINVAL);
		EQUAL(fi_tsendv(ep, many, NULL, counts[i], world.a.peer, 1, NULL), -FI_EINVAL);
		EQUAL(fi_trecvv(ep, many, NULL, counts[i], FI_ADDR_UNSPEC, 1, 0, NULL), -FI_EINVAL);
		EQUAL(fi_readv(ep, many, NULL, counts[i], world.a.peer, 0, 7, NULL), -FI_EINVAL);
		EQUAL(fi_writev(ep, many, NULL, counts[i], world.a.peer, 0, 7, NULL), -FI_EINVAL);
		EQUAL(fi_sendmsg(ep, &message, 0), -FI_EINVAL);
		EQUAL(fi_recvmsg(ep, &message, 0), -FI_EINVAL);
		EQUAL(fi_tsendmsg(ep, &tagged, 0), -FI_EINVAL);
		EQUAL(fi_trecvmsg(ep, &tagged, 0), -FI_EINVAL);
		EQUAL(fi_writemsg(ep, &rma, 0), -FI_EINVAL);
		EQUAL(fi_readmsg(ep, &rma, 0), -FI_EINVAL);
		EQUAL(fi_atomicmsg(ep, &atomic, 0), -FI_EINVAL);
		EQUAL(fi_fetch_atomicmsg(ep, &atomic, &element, NULL, 1, 0), -FI_EINVAL);
		rma.iov_count = atomic.iov_count = 1;
		rma.rma_iov_count = atomic.rma_iov_count = counts[i];
		EQUAL(fi_writemsg(ep, &rma, 0), -FI_EINVAL);
		EQUAL(fi_readmsg(ep, &rma, 0), -FI_EINVAL);
		EQUAL(fi_atomicmsg(ep, &atomic, 0), -FI_EINVAL);
		EQUAL(fi_fetch_atomicmsg(ep, &atomic, &element, NULL, 1, 0), -FI_EINVAL);
		atomic.rma_iov_count = 1;
		EQUAL(fi_fetch_atomicmsg(ep, &atomic, &element, NULL, counts[i], 0), -FI_EINVAL);
		EQUAL(fi_compare_atomicmsg(ep, &atomic, &element, NULL, counts[i], &element, NULL, 1, 0), -FI_EINVAL);
	}
	EQUAL(fi_av_insert(world.a.av, buffer, SIZE_MAX, NULL, 0, NULL), -FI_EINVAL);
	fi_addr_t number = 0;
	EQUAL(fi_av_remove(world.a.av, &number, SIZE_MAX, 0), -FI_EINVAL);
	EQUAL(fi_send(ep, buffer, 1, NULL, 4711, NULL), -FI_EINVAL);
	EQUAL(fi_send(ep, buffer, 1, NULL, FI_ADDR_UNSPEC, NULL), -FI_EINVAL);
	EQUAL(fi_send(ep, buffer, (size_t)1 << 62, NULL, world.a.peer, NULL), -FI_EMSGSIZE);
	EQUAL(fi_recv(ep, buffer, 1, NULL, 4711, NULL), -FI_EINVAL);
	nothing(&world, &world.a);
	world_close(&world);
}

/* Messages to oneself, and those that come before anyone asks for them. */
static void to_oneself_and_unexpected(void)
{
	struct fi_cq_tagged_entry entry;
	struct world world;
	unsigned char out[100], in[100];

	world_open(&world, NULL);
	fill(out, sizeof out, 9);
	EQUAL(fi_inject(world.a.ep, out, sizeof out, world.a.self), 0);
	EQUAL(fi_recv(world.a.ep, in, sizeof in, NULL, world.a.self, &world), 0);
	EQUAL(next(&world, &world.a, &entry), 1);
	CHECK(entry.op_context == &world && is_filled(in, sizeof in, 9));

	for (unsigned char i = 0; i < 50; i++)
		EQUAL(fi_inject(world.a.ep, &i, 1, world.a.peer), 0);
	turn(&world, 0.02);
	for (int i = 0; i < 50; i++) {
		EQUAL(fi_recv(world.b.ep, in, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
		EQUAL(next(&world, &world.b, &entry), 1);
		EQUAL(in[0], i);
	}
	world_close(&world);
}

/* With FI_DIRECTED_RECV a receive takes its sender's messages only; without, the address says nothing. */
static void directed(void)
{
	struct fi_cq_tagged_entry entry;
	fi_addr_t from = 0;
	struct world world;
	unsigned char one = 0, other = 0;

	world_open(&world, &(struct options){.caps = FI_MSG | FI_DIRECTED_RECV | FI_SOURCE});
	EQUAL(fi_recv(world.b.ep, &one, 1, NULL, world.b.self, NULL), 0);
	EQUAL(fi_recv(world.b.ep, &other, 1, NULL, world.b.peer, NULL), 0);
	EQUAL(fi_inject(world.a.ep, "p", 1, world.a.peer), 0);
	for (double end = now() + PATIENCE; now() < end;) {
		fi_cq_read(world.a.cq, NULL, 0);
		if (fi_cq_readfrom(world.b.cq, &entry, 1, &from) == 1)
			break;
	}
	CHECK(one == 0 && other == 'p');
	EQUAL(from, world.b.peer);
	EQUAL(fi_inject(world.b.ep, "s", 1, world.b.self), 0);
	EQUAL(next(&world, &world.b, &entry), 1);
	CHECK(one == 's');
	world_close(&world);

	world_open(&world, &(struct options){.caps = FI_MSG});
	EQUAL(fi_recv(world.b.ep, &one, 1, NULL, world.b.self, NULL), 0);
	EQUAL(fi_inject(world.a.ep, "q", 1, world.a.peer), 0);
	EQUAL(next(&world, &world.b, &entry), 1);
	CHECK(one == 'q');
	world_close(&world);
}

/* One buffer takes message after message until less than the minimum is left of it. */
static void multi_receive(void)
{
	enum { BYTES = 8192, LEAST = 1000 };
	struct fi_cq_tagged_entry entry;
	struct world world;
	static unsigned char buffer[BYTES], out[3000];
	struct iovec iov = {buffer, BYTES};
	struct fi_msg message = {&iov, NULL, 1, FI_ADDR_UNSPEC, &world, 0};
	size_t least = LEAST;
	int ended = 0, released = 0;

	world_open(&world, NULL);
	EQUAL(fi_setopt(&world.b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least), 0);
	EQUAL(fi_recvmsg(world.b.ep, &message, FI_MULTI_RECV), 0);
	/* All are under way before the first is looked at. */
	static const size_t lengths[] = {0, 100, 3000, 1, 2500, 1600};
	for (int i = 0; i < 6; i++) {
		fill(out, lengths[i], i);
		EQUAL(fi_send(world.a.ep, out, lengths[i], NULL, world.a.peer, NULL), 0);
		EQUAL(next(&world, &world.a, &entry), 1);
	}
	/* They are placed in order; where frames are lost they may end in another. The buffer comes back with the last. */
	for (int count = 0; count < 6; count++) {
		size_t place = 0;
		int i = 0;

		EQUAL(released, 0);
		EQUAL(next(&world, &world.b, &entry), 1);
		while (i < 6 && (ended & 1 << i || entry.buf != buffer + place || entry.len != lengths[i]))
			place += lengths[i++];
		CHECK(i < 6 && entry.op_context == &world);
		CHECK(i < 6 && is_filled(entry.buf, entry.len, i));
		ended |= 1 << i;
		released = !!(entry.flags & FI_MULTI_RECV);
	}
	EQUAL(released, 1);
	nothing(&world, &world.b);

	/* A cancelled one comes back once, as cancelled. */
	struct fi_cq_err_entry error;
	EQUAL(fi_recvmsg(world.b.ep, &message, FI_MULTI_RECV), 0);
	EQUAL(fi_cancel(&world.b.ep->fid, &world), 0);
	EQUAL(next_error(&world, &world.b, &error), 1);
	CHECK(error.err == FI_ECANCELED && error.op_context == &world);
	nothing(&world, &world.b);
	world_close(&world);
}

/* Messages of no bytes fill no buffer. More of them than four times what a queue holds (and what one look brings, as many frames as the
 * deepest of the links' rings has, of some forty such messages each) wait where they are while only a counter is looked at, and none is lost. */
static void multi_receive_of_nothing(void)
{
	enum { MOST = 4 * 16384, MANY = MOST + 50000, ONE_LOOK = 40000 };
	struct iovec iov = {calloc(1, 64), 64};
	struct fi_msg message = {&iov, NULL, 1, FI_ADDR_UNSPEC, NULL, 0};
	struct fi_cq_tagged_entry entry;
	struct fid_cntr *counter;
	struct world world;
	uint64_t sent = 0, got = 0;
	size_t least = 1;
	double end = now() + PATIENCE;

	world_open(&world, &(struct options){.disabled = 1});
	EQUAL(fi_cntr_open(world.b.domain, NULL, &counter, NULL), 0);
	/* It counts what has come to the queue. */
	EQUAL(fi_ep_bind(world.b.ep, &counter->fid, FI_RECV), 0);
	EQUAL(fi_setopt(&world.b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least), 0);
	EQUAL(fi_enable(world.a.ep), 0);
	EQUAL(fi_enable(world.b.ep), 0);
	EQUAL(fi_recvmsg(world.b.ep, &message, FI_MULTI_RECV), 0);
	while (sent < MANY && now() < end) {
		ssize_t result = fi_injectdata(world.a.ep, NULL, 0, sent, world.a.peer);
		if (result == -FI_EAGAIN)
			fi_cq_read(world.a.cq, NULL, 0);
		else if (result != 0)
			break;
		sent += result == 0;
		fi_cntr_read(counter);
	}
	EQUAL(sent, MANY);
	/* What was taken may be on its way still. */
	uint64_t held = fi_cntr_read(counter);
	for (; held <= MOST && now() < end; held = fi_cntr_read(counter))
		fi_cq_read(world.a.cq, NULL, 0);
	CHECK(held > MOST);
	CHECK(held < MOST + ONE_LOOK);
	for (; got < MANY && next(&world, &world.b, &entry) == 1 && entry.data == got; got++)
		;
	EQUAL(got, MANY);
	EQUAL(fi_close(&world.b.ep->fid), 0);
	EQUAL(fi_close(&counter->fid), 0);
	EQUAL(fi_endpoint(world.b.domain, world.info, &world.b.ep, NULL), 0);
	world_close(&world);
	free(iov.iov_base);
}

/* Two buffers: the second takes nothing before the first is used up. */
static void two_multi_receives(void)
{
	enum { BYTES = 100, LEAST = 30, EACH = 30 };
	static unsigned char buffers[2][BYTES], out[EACH];
	struct fi_cq_tagged_entry entry;
	struct world world;
	size_t least = LEAST;
	int ended[2] = {0, 0};

	world_open(&world, NULL);
	EQUAL(fi_setopt(&world.b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least), 0);
	for (int i = 0; i < 2; i++) {
		struct iovec iov = {buffers[i], BYTES};
		struct fi_msg message = {&iov, NULL, 1, FI_ADDR_UNSPEC, buffers[i], 0};

		EQUAL(fi_recvmsg(world.b.ep, &message, FI_MULTI_RECV), 0);
	}
	for (int i = 0; i < 6; i++) {
		fill(out, EACH, i);
		EQUAL(fi_inject(world.a.ep, out, EACH, world.a.peer), 0);
	}
	for (int count = 0; count < 6; count++) {
		size_t of, i;

		EQUAL(next(&world, &world.b, &entry), 1);
		of = entry.op_context == buffers[1];
		i = 3 * of + ((unsigned char *)entry.buf - buffers[of]) / EACH;
		CHECK(entry.op_context == buffers[of] && i / 3 == of && entry.len == EACH);
		CHECK(i < 6 && is_filled(entry.buf, EACH, (int)i));
		ended[of]++;
		/* With whichever ends last in it. */
		EQUAL(!!(entry.flags & FI_MULTI_RECV), ended[of] == 3);
	}
	nothing(&world, &world.b);
	world_close(&world);
}

/* fi_cancel(3): of several operations with one context one is cancelled; it is the receive, as a send is on its way. */
static void cancelled_by_context(void)
{
	static char out[1 << 20], in[1 << 20];
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error;
	struct world world;
	char small = 0;
	int context;

	for (int send_first = 0; send_first < 2; send_first++) {
		world_open(&world, NULL);
		for (int i = 0; i < 2; i++) {
			if (i == send_first)
				EQUAL(fi_recv(world.a.ep, &small, 1, NULL, FI_ADDR_UNSPEC, &context), 0);
			else
				/* Nobody has posted a receive for it yet: it goes on until somebody does. */
				EQUAL(fi_send(world.a.ep, out, sizeof out, NULL, world.a.peer, &context), 0);
		}
		turn(&world, 0.02);
		EQUAL(fi_cancel(&world.a.ep->fid, &context), 0);
		EQUAL(next_error(&world, &world.a, &error), 1);
		CHECK(error.err == FI_ECANCELED && error.op_context == &context);
		CHECK(error.flags & FI_RECV && !(error.flags & FI_SEND));
		nothing(&world, &world.a);
		/* The receive takes no message any more, and the send ends well. */
		EQUAL(fi_inject(world.b.ep, "x", 1, world.b.peer), 0);
		EQUAL(fi_recv(world.b.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, NULL), 0);
		EQUAL(next(&world, &world.b, &entry), 1);
		EQUAL(next(&world, &world.a, &entry), 1);
		CHECK(entry.op_context == &context && entry.flags & FI_SEND);
		EQUAL(small, 0);
		EQUAL(fi_cancel(&world.a.ep->fid, &context), -FI_ENOENT);
		world_close(&world);
	}
}

/*
 * A peer that takes nothing fills the node's room for copies. Injects go on, as those to other
 * peers have to: MPI's sends spin in the call until theirs is taken.
 */
static void crowded_injects(void)
{
	enum { COUNT = 1500, BYTES = 8192 };
	struct fi_cq_tagged_entry entry;
	struct world world;
	unsigned char *bytes = malloc(BYTES);
	ssize_t result = -FI_EAGAIN;
	int sent = 0;

	world_open(&world, NULL);
	for (; sent < COUNT; sent++) {
		int turns = 0;

		fill(bytes, BYTES, sent);
		while ((result = fi_inject(world.a.ep, bytes, BYTES, world.a.peer)) == -FI_EAGAIN &&
		       turns++ < 200)
			turn(&world, 0.01);
		if (result)
			break;
	}
	EQUAL(result, 0);
	EQUAL(sent, COUNT);
	for (int i = 0; i < sent; i++) {
		memset(bytes, 0, BYTES);
		EQUAL(fi_recv(world.b.ep, bytes, BYTES, NULL, world.b.peer, NULL), 0);
		EQUAL(next(&world, &world.b, &entry), 1);
		if (!is_filled(bytes, BYTES, i)) {
			CHECK(!"the messages are whole and in order");
			break;
		}
	}
	world_close(&world);
	free(bytes);
}

void test_messages(void)
{
	sizes();
	forms();
	crowded_injects();
	bad_arguments();
	no_limit_named();
	to_oneself_and_unexpected();
	directed();
	multi_receive();
	/* Each post wakes the service where the engine is in it: minutes, where others want the cores. */
	if (!getenv("FI_EMP_BOARD"))
		multi_receive_of_nothing();
	two_multi_receives();
	cancelled_by_context();
}
