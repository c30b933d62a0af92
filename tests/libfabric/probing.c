/* FI_PEEK, FI_CLAIM, FI_DISCARD (fi_tagged(3)). */
#include "world.h"

static struct fi_msg_tagged message_of(struct iovec *iov, size_t count, uint64_t tag, void *context)
{
	return (struct fi_msg_tagged){iov, NULL, count, FI_ADDR_UNSPEC, tag, 0, context, 0};
}

static ssize_t ask(struct side *side, uint64_t tag, uint64_t flags, void *context)
{
	struct fi_msg_tagged message = message_of(NULL, 0, tag, context);

	return fi_trecvmsg(side->ep, &message, flags);
}

/* Sends a message and waits until it has arrived, unasked: however busy the machine is, a look finds it. */
static void arrive(struct world *world, const char *text, uint64_t tag)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error;
	double end = now() + PATIENCE;
	int found = 0, context;

	EQUAL(fi_tinjectdata(world->a.ep, text, strlen(text) + 1, 77, world->a.peer, tag), 0);
	while (!found && now() < end) {
		ssize_t result;

		EQUAL(ask(&world->b, tag, FI_PEEK, &context), 0);
		result = next(world, &world->b, &entry);
		found = result == 1;
		if (result == -FI_EAVAIL)
			EQUAL(fi_cq_readerr(world->b.cq, &error, 0), 1);
	}
	CHECK(found);
}

/* Where only those receives have an entry that ask for one, a look that finds something says so without being asked. */
static void with_selective_completion(void)
{
	struct options options = {.rx_bind = FI_SELECTIVE_COMPLETION};
	struct fi_cq_tagged_entry entry;
	struct world world;
	char in[10];
	struct iovec iov = {in, sizeof in};
	int context;

	world_open(&world, &options);
	struct side *b = &world.b;
	arrive(&world, "one", 1);
	EQUAL(ask(b, 1, FI_PEEK, &context), 0);
	EQUAL(next(&world, b, &entry), 1);
	CHECK(entry.op_context == &context && entry.tag == 1 && entry.len == 4);
	EQUAL(ask(b, 1, FI_PEEK | FI_CLAIM, &context), 0);
	EQUAL(next(&world, b, &entry), 1);
	CHECK(entry.op_context == &context && entry.len == 4);
	/* The receive itself is told if that is asked for. */
	struct fi_msg_tagged claim = message_of(&iov, 1, 1, &context);
	EQUAL(fi_trecvmsg(b->ep, &claim, FI_CLAIM), 0);
	nothing(&world, b);
	CHECK(!strcmp(in, "one"));
	arrive(&world, "two", 1);
	EQUAL(ask(b, 1, FI_PEEK | FI_DISCARD, &context), 0);
	EQUAL(next(&world, b, &entry), 1);
	CHECK(entry.op_context == &context && entry.len == 4);
	nothing(&world, b);
	world_close(&world);
}

static void of_all_kinds(void)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error;
	struct world world;
	char in[10];
	struct iovec iov = {in, sizeof in};
	int context, other;

	world_open(&world, NULL);
	struct side *b = &world.b;

	/* Nothing is there. */
	EQUAL(ask(b, 1, FI_PEEK, &context), 0);
	EQUAL(next_error(&world, b, &error), 1);
	CHECK(error.err == FI_ENOMSG && error.op_context == &context);
	EQUAL(ask(b, 1, FI_PEEK | FI_CLAIM, &context), 0);
	EQUAL(next_error(&world, b, &error), 1);
	EQUAL(error.err, FI_ENOMSG);
	EQUAL(ask(b, 1, FI_CLAIM, &context), -FI_EINVAL);

	/* Looked at, it stays. */
	arrive(&world, "one", 1);
	for (int i = 0; i < 2; i++) {
		EQUAL(ask(b, 1, FI_PEEK, &context), 0);
		EQUAL(next(&world, b, &entry), 1);
		CHECK(entry.op_context == &context && entry.tag == 1 && entry.len == 4);
		CHECK(entry.flags & FI_REMOTE_CQ_DATA && entry.data == 77);
	}

	/* Claimed, it is there for the claimer only. */
	EQUAL(ask(b, 1, FI_PEEK | FI_CLAIM, &context), 0);
	EQUAL(next(&world, b, &entry), 1);
	EQUAL(ask(b, 1, FI_PEEK, &other), 0);
	EQUAL(next_error(&world, b, &error), 1);
	EQUAL(error.err, FI_ENOMSG);
	struct fi_msg_tagged claim = message_of(&iov, 1, 1, &context);
	EQUAL(fi_trecvmsg(b->ep, &claim, FI_CLAIM), 0);
	EQUAL(next(&world, b, &entry), 1);
	CHECK(entry.op_context == &context && entry.len == 4 && !strcmp(in, "one"));
	EQUAL(fi_trecvmsg(b->ep, &claim, FI_CLAIM), -FI_EINVAL);

	/* Thrown away when seen, or after it was claimed. */
	arrive(&world, "two", 2);
	EQUAL(ask(b, 2, FI_PEEK | FI_DISCARD, &context), 0);
	EQUAL(next(&world, b, &entry), 1);
	CHECK(entry.tag == 2);
	arrive(&world, "three", 2);
	EQUAL(ask(b, 2, FI_PEEK | FI_CLAIM, &context), 0);
	EQUAL(next(&world, b, &entry), 1);
	EQUAL(ask(b, 2, FI_CLAIM | FI_DISCARD, &context), 0);
	EQUAL(next(&world, b, &entry), 1);
	CHECK(entry.op_context == &context);
	EQUAL(ask(b, 2, FI_PEEK, &context), 0);
	EQUAL(next_error(&world, b, &error), 1);
	EQUAL(error.err, FI_ENOMSG);

	/* The next message is not harmed. */
	arrive(&world, "four", 2);
	EQUAL(fi_trecv(b->ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, 2, 0, NULL), 0);
	EQUAL(next(&world, b, &entry), 1);
	CHECK(!strcmp(in, "four"));
	world_close(&world);
}

void test_probing(void)
{
	of_all_kinds();
	with_selective_completion();
}
