/* fi_tagged(3): 64 tag bits, masks, and every form of call. */
#include "world.h"

static void forms(void)
{
	struct fi_cq_tagged_entry entry;
	struct world world;
	char out[1000] = "tagged", in[2000];
	const uint64_t tag = 0xfedcba9876543210;
	int context, receive_context;

	world_open(&world, NULL);
	struct fid_ep *ep = world.a.ep;
	fi_addr_t to = world.a.peer;
	struct iovec two[] = {{out, 3}, {out + 3, sizeof out - 3}};
	struct iovec two_in[] = {{in, 900}, {in + 900, sizeof in - 900}};
	struct fi_msg_tagged message = {two, NULL, 2, to, tag, 0, &context, 99};
	struct fi_msg_tagged receive = {two_in, NULL, 2, FI_ADDR_UNSPEC, tag, 0, &receive_context, 0};

	for (int form = 0; form < 7; form++) {
		int named = form != 3 && form != 5, data = form >= 4;

		memset(in, 0, sizeof in);
		switch (form % 3) {
		case 0:
			EQUAL(fi_trecv(world.b.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, tag, 0,
				       &receive_context), 0);
			break;
		case 1:
			EQUAL(fi_trecvv(world.b.ep, two_in, NULL, 2, FI_ADDR_UNSPEC, tag, 0,
					&receive_context), 0);
			break;
		case 2: EQUAL(fi_trecvmsg(world.b.ep, &receive, 0), 0); break;
		}
		switch (form) {
		case 0: EQUAL(fi_tsend(ep, out, sizeof out, NULL, to, tag, &context), 0); break;
		case 1: EQUAL(fi_tsendv(ep, two, NULL, 2, to, tag, &context), 0); break;
		case 2: EQUAL(fi_tsendmsg(ep, &message, FI_DELIVERY_COMPLETE), 0); break;
		case 3: EQUAL(fi_tinject(ep, out, sizeof out, to, tag), 0); break;
		case 4: EQUAL(fi_tsenddata(ep, out, sizeof out, NULL, 99, to, tag, &context), 0); break;
		case 5: EQUAL(fi_tinjectdata(ep, out, sizeof out, 99, to, tag), 0); break;
		case 6: EQUAL(fi_tsendmsg(ep, &message, FI_REMOTE_CQ_DATA | FI_MATCH_COMPLETE), 0); break;
		}
		EQUAL(next(&world, &world.b, &entry), 1);
		CHECK(entry.op_context == &receive_context && entry.len == sizeof out);
		CHECK(entry.tag == tag && entry.flags & FI_TAGGED && entry.flags & FI_RECV);
		EQUAL(!!(entry.flags & FI_REMOTE_CQ_DATA), data);
		if (data)
			EQUAL(entry.data, 99);
		CHECK(!memcmp(in, out, sizeof out));
		if (named) {
			EQUAL(next(&world, &world.a, &entry), 1);
			CHECK(entry.op_context == &context);
			CHECK(entry.flags & FI_TAGGED && entry.flags & FI_SEND);
		}
	}
	nothing(&world, &world.a);
	world_close(&world);
}

/* Bits that are ignored, and the order in which receives are tried. */
static void matching(void)
{
	struct fi_cq_tagged_entry entry;
	struct world world;
	char exact = 0, masked = 0, any = 0;

	world_open(&world, NULL);
	fi_addr_t from = FI_ADDR_UNSPEC, to = world.a.peer;
	EQUAL(fi_trecv(world.b.ep, &exact, 1, NULL, from, 0x8000000000000001, 0, &exact), 0);
	EQUAL(fi_trecv(world.b.ep, &masked, 1, NULL, from, 0x10, 0x0f, &masked), 0);
	EQUAL(fi_trecv(world.b.ep, &any, 1, NULL, from, 0, ~0ULL, &any), 0);
	EQUAL(fi_tinject(world.a.ep, "m", 1, to, 0x1d), 0);
	EQUAL(next(&world, &world.b, &entry), 1);
	CHECK(entry.op_context == &masked && masked == 'm' && entry.tag == 0x1d);
	EQUAL(fi_tinject(world.a.ep, "a", 1, to, 0x1d), 0);
	EQUAL(next(&world, &world.b, &entry), 1);
	CHECK(entry.op_context == &any && any == 'a');
	/* Untagged messages are none of their business. */
	EQUAL(fi_inject(world.a.ep, "u", 1, to), 0);
	nothing(&world, &world.b);
	EQUAL(fi_tinject(world.a.ep, "e", 1, to, 0x8000000000000001), 0);
	EQUAL(next(&world, &world.b, &entry), 1);
	CHECK(entry.op_context == &exact && exact == 'e');
	char untagged = 0;
	EQUAL(fi_recv(world.b.ep, &untagged, 1, NULL, from, NULL), 0);
	EQUAL(next(&world, &world.b, &entry), 1);
	CHECK(untagged == 'u');
	world_close(&world);
}

static void truncated_and_cancelled(void)
{
	struct fi_cq_err_entry error;
	struct fi_cq_tagged_entry entry;
	struct world world;
	char in[20], out[100] = "0123456789abcdef";

	world_open(&world, NULL);
	memset(in, '#', sizeof in);
	EQUAL(fi_trecv(world.b.ep, in, 10, NULL, FI_ADDR_UNSPEC, 5, 0, &in), 0);
	EQUAL(fi_tsend(world.a.ep, out, sizeof out, NULL, world.a.peer, 5, NULL), 0);
	EQUAL(next_error(&world, &world.b, &error), 1);
	CHECK(error.err == FI_ETRUNC && error.op_context == &in && error.tag == 5);
	EQUAL(error.len, 10);
	EQUAL(error.olen, 90);
	CHECK(!memcmp(in, out, 10) && in[10] == '#');
	char text[100];
	CHECK(strlen(fi_cq_strerror(world.b.cq, error.prov_errno, error.err_data, text, sizeof text)) > 5);
	/* Not the sender's fault. */
	EQUAL(next(&world, &world.a, &entry), 1);

	EQUAL(fi_trecv(world.b.ep, in, 10, NULL, FI_ADDR_UNSPEC, 6, 0, &out), 0);
	EQUAL(fi_cancel(&world.b.ep->fid, &out), 0);
	EQUAL(next_error(&world, &world.b, &error), 1);
	CHECK(error.err == FI_ECANCELED && error.op_context == &out);
	EQUAL(fi_cancel(&world.b.ep->fid, &out), -FI_ENOENT);
	/* What was cancelled takes no message any more. */
	char late[10] = "";
	EQUAL(fi_tinject(world.a.ep, "late", 5, world.a.peer, 6), 0);
	EQUAL(fi_trecv(world.b.ep, late, sizeof late, NULL, FI_ADDR_UNSPEC, 6, 0, NULL), 0);
	EQUAL(next(&world, &world.b, &entry), 1);
	CHECK(!strcmp(late, "late"));
	world_close(&world);
}

/* What FI_MORE follows leaves with the last, in order; and if nothing follows after all, it leaves all the same. */
static void more(void)
{
	enum { COUNT = 50 };
	struct fi_cq_tagged_entry entry;
	struct world world;
	char out[COUNT], in[COUNT];

	world_open(&world, NULL);
	for (int i = 0; i < COUNT; i++)
		EQUAL(fi_trecv(world.b.ep, &in[i], 1, NULL, FI_ADDR_UNSPEC, 7, 0, &in[i]), 0);
	for (int i = 0; i < COUNT; i++) {
		struct iovec iov = {&out[i], 1};
		struct fi_msg_tagged message = {&iov, NULL, 1, world.a.peer, 7, 0, NULL, 0};

		out[i] = i;
		EQUAL(fi_tsendmsg(world.a.ep, &message, i % 20 == 19 ? 0 : FI_MORE), 0);
	}
	for (int i = 0; i < COUNT; i++) {
		EQUAL(next(&world, &world.b, &entry), 1);
		CHECK(entry.op_context == &in[i] && in[i] == i);
	}
	for (int i = 0; i < COUNT; i++)
		EQUAL(next(&world, &world.a, &entry), 1);
	world_close(&world);
}

void test_tagged(void)
{
	forms();
	more();
	matching();
	truncated_and_cancelled();
}
