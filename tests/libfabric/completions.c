/* fi_cq(3) and fi_cntr(3): formats, selective completion, full queues, counters. */
#include "world.h"

#include <stdlib.h>
#include <unistd.h>

/* Progress until the message is there, however long a lost frame of it takes, and for a while after. */
static void arrives(struct world *world, const char *in, const char *text)
{
	double end = now() + PATIENCE;

	while (memcmp(in, text, strlen(text)) && now() < end)
		turn(world, 0.001);
	turn(world, 0.03);
}

static void formats(void)
{
	static const struct {
		enum fi_cq_format format;
		size_t bytes;
	} kinds[] = {{FI_CQ_FORMAT_CONTEXT, sizeof(struct fi_cq_entry)},
		     {FI_CQ_FORMAT_MSG, sizeof(struct fi_cq_msg_entry)},
		     {FI_CQ_FORMAT_DATA, sizeof(struct fi_cq_data_entry)},
		     {FI_CQ_FORMAT_TAGGED, sizeof(struct fi_cq_tagged_entry)}};
	struct world world;
	char in[2][8];

	for (size_t k = 0; k < 4; k++) {
		/* Two entries: the second shows that each takes exactly its room. */
		unsigned char entries[2 * sizeof(struct fi_cq_tagged_entry) + 1];

		memset(in, 0, sizeof in);
		world_open(&world, &(struct options){.cq = {.format = kinds[k].format}});
		for (int i = 0; i < 2; i++)
			EQUAL(fi_trecv(world.b.ep, in[i], 8, NULL, FI_ADDR_UNSPEC, i, 0, &in[i]), 0);
		for (int i = 0; i < 2; i++)
			EQUAL(fi_tinjectdata(world.a.ep, "abc", 3, 50 + i, world.a.peer, i), 0);
		for (int i = 0; i < 2; i++)
			arrives(&world, in[i], "abc");
		memset(entries, 0xee, sizeof entries);
		EQUAL(fi_cq_read(world.b.cq, entries, 2), 2);
		CHECK(entries[2 * kinds[k].bytes] == 0xee);
		for (int i = 0; i < 2; i++) {
			struct fi_cq_tagged_entry entry;

			memcpy(&entry, entries + i * kinds[k].bytes, kinds[k].bytes);
			CHECK(entry.op_context == &in[i]);
			if (k >= 1)
				CHECK(entry.flags & FI_RECV && entry.len == 3);
			if (k >= 2)
				CHECK(entry.data == (uint64_t)50 + i);
			if (k >= 3)
				CHECK(entry.tag == (uint64_t)i);
		}
		world_close(&world);
	}
}

/* Bound with FI_SELECTIVE_COMPLETION, an operation has an entry only if it asks for one; a failure always has. */
static void selective(void)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error;
	struct world world;
	char in[4] = "", big[100] = "";
	struct iovec out_iov = {"yes", 3}, in_iov = {in, 4};

	world_open(&world, &(struct options){.tx_bind = FI_SELECTIVE_COMPLETION,
					     .rx_bind = FI_SELECTIVE_COMPLETION});
	struct fi_msg_tagged out = {&out_iov, NULL, 1, world.a.peer, 1, 0, &out, 0};
	struct fi_msg_tagged receive = {&in_iov, NULL, 1, FI_ADDR_UNSPEC, 1, 0, &receive, 0};
	EQUAL(fi_trecv(world.b.ep, in, 4, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
	EQUAL(fi_tsend(world.a.ep, "no", 2, NULL, world.a.peer, 1, NULL), 0);
	arrives(&world, in, "no");
	nothing(&world, &world.a);
	nothing(&world, &world.b);
	CHECK(!memcmp(in, "no", 2));
	EQUAL(fi_trecvmsg(world.b.ep, &receive, FI_COMPLETION), 0);
	EQUAL(fi_tsendmsg(world.a.ep, &out, FI_COMPLETION), 0);
	EQUAL(next(&world, &world.a, &entry), 1);
	CHECK(entry.op_context == &out);
	EQUAL(next(&world, &world.b, &entry), 1);
	CHECK(entry.op_context == &receive);
	EQUAL(fi_trecvmsg(world.b.ep, &receive, 0), 0);
	EQUAL(fi_tsend(world.a.ep, big, sizeof big, NULL, world.a.peer, 1, NULL), 0);
	EQUAL(next_error(&world, &world.b, &error), 1);
	EQUAL(error.err, FI_ETRUNC);
	world_close(&world);

	/* The endpoint's flags may ask for all. */
	world_open(&world, &(struct options){.tx_bind = FI_SELECTIVE_COMPLETION,
					     .tx_op_flags = FI_COMPLETION});
	EQUAL(fi_send(world.a.ep, "x", 1, NULL, world.a.peer, &world), 0);
	EQUAL(next(&world, &world.a, &entry), 1);
	CHECK(entry.op_context == &world);
	EQUAL(fi_recv(world.b.ep, in, 4, NULL, FI_ADDR_UNSPEC, NULL), 0);
	EQUAL(next(&world, &world.b, &entry), 1);
	world_close(&world);
}

/* A queue that nobody reads makes operations wait (-FI_EAGAIN); no entry is lost. */
static void full_queue(void)
{
	enum { MANY = 200000 };
	struct fi_cq_tagged_entry entries[64];
	struct world world;
	long posted = 0, seen = 0;
	ssize_t result = 0;

	/* Receives have no entries, so that sends alone fill the queue. */
	world_open(&world, &(struct options){.cq = {.size = 16}, .rx_bind = FI_SELECTIVE_COMPLETION});
	double end = now() + PATIENCE;
	while (posted < MANY && now() < end) {
		result = fi_recv(world.a.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, NULL);
		if (result)
			break;
		result = fi_send(world.a.ep, NULL, 0, NULL, world.a.self, NULL);
		if (result)
			break;
		posted++;
		end = now() + PATIENCE;
	}
	EQUAL(result, -FI_EAGAIN);
	CHECK(posted >= 16 && posted < MANY);
	end = now() + PATIENCE;
	while (seen < posted && now() < end) {
		result = fi_cq_read(world.a.cq, entries, 64);
		if (result > 0) {
			seen += result;
			end = now() + PATIENCE;
		}
	}
	EQUAL(seen, posted);
	/* There is room again. */
	end = now() + PATIENCE;
	do {
		/* What has made room is told to an engine elsewhere first. */
		result = fi_send(world.a.ep, NULL, 0, NULL, world.a.self, NULL);
		if (result)
			fi_cq_read(world.a.cq, entries, 0);
	} while (result == -FI_EAGAIN && now() < end);
	EQUAL(result, 0);
	world_close(&world);
}

/* Who reads until there is nothing more, as Open MPI does, is told so at once, without a look at what has come since the read before; the
 * look after that is a real one, and so is the first one of whoever was away. A frame may be lost, or late, now and then. */
static void read_to_the_end(void)
{
	enum { ROUNDS = 400, AWAY_EVERY = 4 };
	/* Who comes back within it is told so at once (JUST_LOOKED of the provider). On a busy machine not every round is as quick. */
	const double quickly = 10e-6;
	struct fi_cq_tagged_entry entry;
	struct world world;
	char in[2];
	int quick = 0, at_once = 0, not_even_then = 0, away_for_nothing = 0;

	world_open(&world, &(struct options){0});
	for (int i = 0; i < ROUNDS; i++) {
		int away = i % AWAY_EVERY == 0;
		double end = now() + PATIENCE, looked;
		ssize_t got;

		for (int k = 0; k < 2; k++)
			EQUAL(fi_recv(world.b.ep, &in[k], 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
		EQUAL(fi_inject(world.a.ep, "1", 1, world.a.peer), 0);
		do {
			fi_cq_read(world.a.cq, NULL, 0);
			looked = now();
			got = fi_cq_read(world.b.cq, &entry, 1);
		} while (got == -FI_EAGAIN && looked < end);
		EQUAL(got, 1);
		EQUAL(fi_inject(world.a.ep, "2", 1, world.a.peer), 0);
		if (away)
			usleep(1000);
		got = fi_cq_read(world.b.cq, &entry, 1);
		int in_time = now() - looked < quickly;

		quick += in_time;
		at_once += in_time && got != 1;
		away_for_nothing += away && got != 1;
		if (got == 1)
			continue;
		if (fi_cq_read(world.b.cq, &entry, 1) == 1)
			continue;
		not_even_then++;
		EQUAL(next(&world, &world.b, &entry), 1);
	}
	/* Now and then another thread has looked in between. */
	CHECK(at_once >= quick - quick / 4);
	CHECK(not_even_then < ROUNDS / 4);
	CHECK(away_for_nothing < ROUNDS / AWAY_EVERY / 4);
	world_close(&world);
}

static void counters(void)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};
	struct fid_cntr *sent, *received;
	struct fi_cq_err_entry error;
	struct world world;
	char in[4], big[100] = "";

	world_open(&world, &(struct options){.disabled = 1});
	EQUAL(fi_cntr_open(world.a.domain, &attr, &sent, NULL), 0);
	EQUAL(fi_cntr_open(world.b.domain, &attr, &received, NULL), 0);
	EQUAL(fi_ep_bind(world.a.ep, &sent->fid, 0), -FI_EBADFLAGS);
	EQUAL(fi_ep_bind(world.a.ep, &sent->fid, FI_SEND), 0);
	EQUAL(fi_ep_bind(world.b.ep, &received->fid, FI_RECV), 0);
	EQUAL(fi_enable(world.a.ep), 0);
	EQUAL(fi_enable(world.b.ep), 0);

	for (int i = 0; i < 5; i++)
		EQUAL(fi_recv(world.b.ep, in, 4, NULL, FI_ADDR_UNSPEC, NULL), 0);
	for (int i = 0; i < 4; i++)
		EQUAL(fi_inject(world.a.ep, "x", 1, world.a.peer), 0);
	/* Injected messages count, too. */
	EQUAL(fi_cntr_wait(sent, 4, 5000), 0);
	turn(&world, 0.02);
	EQUAL(fi_cntr_wait(received, 4, 5000), 0);
	EQUAL(fi_cntr_read(received), 4);
	EQUAL(fi_cntr_readerr(received), 0);
	double start = now();
	EQUAL(fi_cntr_wait(received, 5, 30), -FI_ETIMEDOUT);
	CHECK(now() - start > 0.025 && now() - start < 5);

	/* A failure counts as one. */
	EQUAL(fi_send(world.a.ep, big, sizeof big, NULL, world.a.peer, NULL), 0);
	for (double end = now() + PATIENCE; !fi_cntr_readerr(received) && now() < end;)
		turn(&world, 0.001);
	EQUAL(fi_cntr_readerr(received), 1);
	struct fi_cq_tagged_entry entry;
	for (int i = 0; i < 4; i++)
		EQUAL(next(&world, &world.b, &entry), 1);
	EQUAL(next_error(&world, &world.b, &error), 1);
	EQUAL(error.err, FI_ETRUNC);
	EQUAL(fi_recv(world.b.ep, in, 4, NULL, FI_ADDR_UNSPEC, &in), 0);
	EQUAL(fi_cancel(&world.b.ep->fid, &in), 0);
	EQUAL(fi_cntr_wait(received, 1000, 5000), -FI_EAVAIL);

	EQUAL(fi_cntr_set(sent, 40), 0);
	EQUAL(fi_cntr_add(sent, 2), 0);
	turn(&world, 0.01);
	EQUAL(fi_cntr_read(sent), 42);
	EQUAL(fi_cntr_seterr(sent, 7), 0);
	EQUAL(fi_cntr_adderr(sent, 1), 0);
	EQUAL(fi_cntr_readerr(sent), 8);

	EQUAL(fi_close(&world.a.ep->fid), 0);
	EQUAL(fi_close(&world.b.ep->fid), 0);
	EQUAL(fi_close(&sent->fid), 0);
	EQUAL(fi_close(&received->fid), 0);
	EQUAL(fi_endpoint(world.a.domain, world.info, &world.a.ep, NULL), 0);
	EQUAL(fi_endpoint(world.b.domain, world.info, &world.b.ep, NULL), 0);
	world_close(&world);
}

/* A peer writes with data, and nobody reads the queue: what it holds is bounded, and the reader is told that something is
 * missing, after all that is not. */
static void overrun(void)
{
	enum { MANY = 100000 };
	struct fi_cq_tagged_entry entries[64];
	struct fid_mr *region;
	struct world world;
	double end = now() + PATIENCE;
	long told = 0, sent = 0;
	ssize_t got;
	char memory[8];

	world_open(&world, &(struct options){.cq = {.size = 128, .wait_obj = FI_WAIT_FD}});
	EQUAL(fi_mr_reg(world.b.domain, memory, 8, FI_REMOTE_WRITE, 0, 8, 0, &region, NULL), 0);
	struct fid *waits[] = {&world.b.cq->fid};
	while (sent < MANY && now() < end) {
		int posted = fi_inject_writedata(world.a.ep, "y", 1, sent, world.a.peer, 0, 8) == 0;

		sent += posted;
		/* Patience is with a put that finds no room: how long all of them take is the machine's business. */
		if (posted)
			end = now() + PATIENCE;
		/* Progress, on the other side without reading. */
		if (!posted || sent % 100 == 0) {
			fi_cq_read(world.a.cq, entries, 1);
			fi_trywait(world.fabric, waits, 1);
		}
	}
	EQUAL(sent, MANY);
	/* An engine elsewhere goes on by itself, a part at a time. */
	for (end = now() + 0.5; now() < end;) {
		fi_trywait(world.fabric, waits, 1);
		fi_cq_read(world.a.cq, entries, 1);
	}
	while ((got = fi_cq_read(world.b.cq, entries, 64)) > 0) {
		for (ssize_t i = 0; i < got; i++)
			CHECK(entries[i].data == (uint64_t)told + i);
		told += got;
	}
	CHECK(told >= 128 && told < MANY);
	EQUAL(got, -FI_EOVERRUN);
	EQUAL(fi_close(&region->fid), 0);
	world_close(&world);
}

void test_completions(void)
{
	formats();
	selective();
	full_queue();
	/* How many frames are there by the next look is not asked where two more processes pass them on. */
	if (!getenv("FI_EMP_BOARD") && !(getenv("FI_EMP_LINK") && !strcmp(getenv("FI_EMP_LINK"), "empd")))
		read_to_the_end();
	overrun();
	counters();
}
