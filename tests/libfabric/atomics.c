/* fi_atomic(3): every operator that is said to be valid, on every type, against a plain computation. */
#include "world.h"

#include <complex.h>

static const size_t sizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 8, 16, 16, 32};
static union {
	unsigned char bytes[64];
	int64_t whole[8];
	double real[8];
} target, operand, compared, result, before;

#define ON(type, name, statement)                                                                  \
	case name: {                                                                               \
		type *t = (void *)where, o = *(const type *)with, c = *(const type *)against;     \
		(void)c;                                                                           \
		statement;                                                                         \
		break;                                                                             \
	}
#define ORDERED(statement)                                                                         \
	switch (type) {                                                                            \
		ON(int8_t, FI_INT8, statement) ON(uint8_t, FI_UINT8, statement)                    \
		ON(int16_t, FI_INT16, statement) ON(uint16_t, FI_UINT16, statement)                \
		ON(int32_t, FI_INT32, statement) ON(uint32_t, FI_UINT32, statement)                \
		ON(int64_t, FI_INT64, statement) ON(uint64_t, FI_UINT64, statement)                \
		ON(float, FI_FLOAT, statement) ON(double, FI_DOUBLE, statement)                    \
	default: break;                                                                            \
	}
#define ANY(statement)                                                                             \
	switch (type) {                                                                            \
		ON(float complex, FI_FLOAT_COMPLEX, statement)                                     \
		ON(double complex, FI_DOUBLE_COMPLEX, statement)                                   \
	default: ORDERED(statement)                                                                \
	}
#define WHOLE(statement)                                                                           \
	switch (type) {                                                                            \
		ON(uint8_t, FI_INT8, statement) ON(uint8_t, FI_UINT8, statement)                   \
		ON(uint16_t, FI_INT16, statement) ON(uint16_t, FI_UINT16, statement)               \
		ON(uint32_t, FI_INT32, statement) ON(uint32_t, FI_UINT32, statement)               \
		ON(uint64_t, FI_INT64, statement) ON(uint64_t, FI_UINT64, statement)               \
	default: break;                                                                            \
	}

/* What the manual says the operator does to one element. */
static void compute(enum fi_datatype type, enum fi_op op, void *where, const void *with, const void *against)
{
	switch ((int)op) {
	case FI_MIN: ORDERED(if (o < *t) *t = o) break;
	case FI_MAX: ORDERED(if (o > *t) *t = o) break;
	case FI_SUM: ANY(*t = *t + o) break;
	case FI_PROD: ANY(*t = *t * o) break;
	case FI_LOR: ANY(*t = *t || o) break;
	case FI_LAND: ANY(*t = *t && o) break;
	case FI_LXOR: ANY(*t = !*t != !o) break;
	case FI_BOR: WHOLE(*t |= o) break;
	case FI_BAND: WHOLE(*t &= o) break;
	case FI_BXOR: WHOLE(*t ^= o) break;
	case FI_ATOMIC_READ: break;
	case FI_ATOMIC_WRITE: ANY(*t = o) break;
	case FI_CSWAP: ANY(if (c == *t) *t = o) break;
	case FI_CSWAP_NE: ANY(if (c != *t) *t = o) break;
	case FI_CSWAP_LE: ORDERED(if (c <= *t) *t = o) break;
	case FI_CSWAP_LT: ORDERED(if (c < *t) *t = o) break;
	case FI_CSWAP_GE: ORDERED(if (c >= *t) *t = o) break;
	case FI_CSWAP_GT: ORDERED(if (c > *t) *t = o) break;
	case FI_MSWAP: WHOLE(*t = (o & c) | (*t & ~c)) break;
	}
}

/* Small numbers that are exact in each type: of floating types, whole values; of integers, whole bytes. */
static void prepare(enum fi_datatype type, int seed)
{
	for (int i = 0; i < 8; i++) {
		double numbers[3] = {(seed + i) % 5, (seed * 3 + i) % 4, (seed + 2 * i) % 5};
		void *places[3] = {&target, &operand, &compared};

		for (int k = 0; k < 3; k++) {
			if (type == FI_FLOAT || type == FI_FLOAT_COMPLEX)
				((float *)places[k])[i] = ((float *)places[k])[i + 8] = (float)numbers[k];
			else if (type == FI_DOUBLE || type == FI_DOUBLE_COMPLEX)
				((double *)places[k])[i] = numbers[k];
			else
				for (int b = 0; b < 8; b++)
					((unsigned char *)places[k])[8 * i + b] =
						(unsigned char)((b % (int)sizes[type]) == 0 ? numbers[k] : seed % 7 * 40);
		}
	}
}

static int families[3];

static void one(struct world *world, enum fi_datatype type, enum fi_op op)
{
	struct fid_ep *ep = world->a.ep;
	fi_addr_t to = world->a.peer;
	struct fi_cq_tagged_entry entry;
	size_t most[3] = {0}, count = 64 / sizes[type] < 4 ? 64 / sizes[type] : 4;
	int valid[3] = {fi_atomicvalid(ep, type, op, &most[0]), fi_fetch_atomicvalid(ep, type, op, &most[1]),
			fi_compare_atomicvalid(ep, type, op, &most[2])};

	for (int family = 0; family < 3; family++) {
		static const uint64_t flags[3] = {0, FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC};
		struct fi_atomic_attr attr = {0};
		int context;
		ssize_t posted;

		EQUAL(fi_query_atomic(world->a.domain, type, op, &attr, flags[family]), valid[family]);
		prepare(type, (int)op + 3 * (int)type);
		before = target;
		memset(&result, 0xee, sizeof result);
		if (family == 0)
			posted = fi_atomic(ep, &operand, count, NULL, to, 0, 9, type, op, &context);
		else if (family == 1)
			posted = fi_fetch_atomic(ep, &operand, count, NULL, &result, NULL, to, 0, 9, type,
						 op, &context);
		else
			posted = fi_compare_atomic(ep, &operand, count, NULL, &compared, NULL, &result, NULL,
						   to, 0, 9, type, op, &context);
		if (valid[family]) {
			EQUAL(valid[family], -FI_EOPNOTSUPP);
			EQUAL(posted, -FI_EOPNOTSUPP);
			continue;
		}
		families[family]++;
		CHECK(attr.size == sizes[type] && attr.count == most[family] && attr.count >= count);
		EQUAL(posted, 0);
		EQUAL(next(world, &world->a, &entry), 1);
		CHECK(entry.op_context == &context && entry.flags & FI_ATOMIC);
		CHECK(entry.flags & (family ? FI_READ : FI_WRITE));
		if (family)
			CHECK(!memcmp(&result, &before, count * sizes[type]));
		for (size_t i = 0; i < count; i++)
			compute(type, op, before.bytes + i * sizes[type], operand.bytes + i * sizes[type],
				compared.bytes + i * sizes[type]);
		checks_made++;
		if (memcmp(&target, &before, sizeof target)) {
			checks_failed++;
			printf("%s: type %d, operator %d, family %d: another result\n", __FILE__, type, op, family);
		}
	}
}

static void forms(struct world *world)
{
	struct fid_ep *ep = world->a.ep;
	fi_addr_t to = world->a.peer;
	struct fi_cq_tagged_entry entry;
	int64_t ones[4] = {1, 1, 1, 1}, old[4] = {0}, eleven[4] = {11, 11, 11, 11};
	struct fi_ioc two[] = {{ones, 1}, {ones + 1, 3}}, result_two[] = {{old, 3}, {old + 3, 1}};
	struct fi_ioc compare_one = {ones, 4}, eleven_one = {eleven, 4};
	struct fi_rma_ioc where = {0, 4, 9};
	struct fi_msg_atomic message = {two, NULL, 2, to, &where, 1, FI_INT64, FI_SUM, &where, 0};

	memset(&target, 0, sizeof target);
	EQUAL(fi_atomicv(ep, two, NULL, 2, to, 0, 9, FI_INT64, FI_SUM, &two), 0);
	EQUAL(next(world, &world->a, &entry), 1);
	EQUAL(fi_atomicmsg(ep, &message, 0), 0);
	EQUAL(next(world, &world->a, &entry), 1);
	CHECK(entry.op_context == &where);
	EQUAL(fi_inject_atomic(ep, ones, 4, to, 0, 9, FI_INT64, FI_SUM), 0);
	nothing(world, &world->a);
	EQUAL(fi_fetch_atomicv(ep, two, NULL, 2, result_two, NULL, 2, to, 0, 9, FI_INT64, FI_SUM, &two), 0);
	EQUAL(next(world, &world->a, &entry), 1);
	EQUAL(old[0] + old[3], 6);
	EQUAL(fi_fetch_atomicmsg(ep, &message, result_two, NULL, 2, 0), 0);
	EQUAL(next(world, &world->a, &entry), 1);
	EQUAL(old[1] + old[2], 8);
	for (int i = 0; i < 4; i++)
		EQUAL(target.whole[i], 5);
	message.msg_iov = &eleven_one;
	message.iov_count = 1;
	message.op = FI_CSWAP_NE;
	EQUAL(fi_compare_atomicv(ep, &eleven_one, NULL, 1, &compare_one, NULL, 1, result_two, NULL, 2, to, 0, 9,
				 FI_INT64, FI_CSWAP, &two), 0);
	EQUAL(next(world, &world->a, &entry), 1);
	EQUAL(target.whole[2], 5);
	EQUAL(fi_compare_atomicmsg(ep, &message, &compare_one, NULL, 1, result_two, NULL, 2, 0), 0);
	EQUAL(next(world, &world->a, &entry), 1);
	EQUAL(target.whole[3], 11);
	/* A read takes no operands. */
	EQUAL(fi_fetch_atomic(ep, NULL, 4, NULL, old, NULL, to, 0, 9, FI_INT64, FI_ATOMIC_READ, &two), 0);
	EQUAL(next(world, &world->a, &entry), 1);
	EQUAL(old[0], 11);

	EQUAL(fi_atomic(ep, ones, 0, NULL, to, 0, 9, FI_INT64, FI_SUM, NULL), -FI_EINVAL);
	EQUAL(fi_atomic(ep, ones, 1, NULL, to, 0, 9, 99, FI_SUM, NULL), -FI_EOPNOTSUPP);
	EQUAL(fi_atomic(ep, ones, 1, NULL, to, 0, 9, FI_INT64, 99, NULL), -FI_EOPNOTSUPP);
	where.count = 3;
	EQUAL(fi_atomicmsg(ep, &message, 0), -FI_EINVAL);
	/* One place more than the endpoint was opened for: of operands, results, and what to compare with. */
	size_t most = world->info->tx_attr->iov_limit, count = most + 1;
	int64_t memory[9] = {0};
	struct fi_ioc places[9], whole = {memory, count};
	CHECK(count <= 9);
	for (int i = 0; i < 9; i++)
		places[i] = (struct fi_ioc){memory + i, 1};
	EQUAL(fi_atomicv(ep, places, NULL, count, to, 0, 9, FI_INT64, FI_SUM, NULL), -FI_EINVAL);
	EQUAL(fi_fetch_atomicv(ep, &whole, NULL, 1, places, NULL, count, to, 0, 9, FI_INT64, FI_SUM, NULL), -FI_EINVAL);
	EQUAL(fi_compare_atomicv(ep, &whole, NULL, 1, places, NULL, count, &whole, NULL, 1, to, 0, 9, FI_INT64,
				 FI_CSWAP, NULL), -FI_EINVAL);
	struct fi_cq_err_entry error;
	EQUAL(fi_atomic(ep, ones, 1, NULL, to, 64, 9, FI_INT64, FI_SUM, NULL), 0);
	EQUAL(next_error(world, &world->a, &error), 1);
	EQUAL(error.err, FI_EINVAL);
	EQUAL(fi_atomic(ep, ones, 1, NULL, to, 0, 10, FI_INT64, FI_SUM, NULL), 0);
	EQUAL(next_error(world, &world->a, &error), 1);
	EQUAL(error.err, FI_ENOKEY);
}

/* One operation on several runs, in two regions, of which the parts here know nothing: one end, and one count, for all of it. */
static void several_runs(struct world *world)
{
	struct fid_ep *ep = world->a.ep;
	static int64_t far[8];
	int64_t ones[6] = {1, 2, 3, 4, 5, 6}, old[6], against[6] = {11, 12, 13, 14, 15, 0};
	struct fi_ioc here[] = {{ones, 1}, {ones + 1, 5}}, back[] = {{old, 4}, {old + 4, 2}}, compare = {against, 6};
	struct fi_rma_ioc runs[] = {{8, 2, 9}, {16, 1, 10}, {40, 0, 9}, {32, 3, 9}};
	struct fi_msg_atomic message = {here, NULL, 2, world->a.peer, runs, 4, FI_INT64, FI_SUM, &message, 0};
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error;
	struct fid_mr *region;

	EQUAL(fi_mr_reg(world->b.domain, far, sizeof far, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 10, 0, &region, NULL), 0);
	for (int form = 0; form < 4; form++) {
		for (int i = 0; i < 8; i++)
			target.whole[i] = far[i] = 10;
		memset(old, 0, sizeof old);
		ones[5] = 6;
		message.op = FI_SUM;
		if (form == 0) {
			EQUAL(fi_atomicmsg(ep, &message, 0), 0);
		} else if (form == 1) {
			/* The operands are free at once. */
			EQUAL(fi_atomicmsg(ep, &message, FI_INJECT), 0);
			ones[5] = 99;
		} else if (form == 2) {
			EQUAL(fi_fetch_atomicmsg(ep, &message, back, NULL, 2, 0), 0);
		} else {
			message.op = FI_CSWAP_GT;
			EQUAL(fi_compare_atomicmsg(ep, &message, &compare, NULL, 1, back, NULL, 2, 0), 0);
		}
		EQUAL(next(world, &world->a, &entry), 1);
		CHECK(entry.op_context == &message && entry.flags & FI_ATOMIC);
		CHECK(entry.flags & (form < 2 ? FI_WRITE : FI_READ));
		nothing(world, &world->a);
		static const int64_t sums[] = {11, 12, 13, 14, 15, 16}, swapped[] = {1, 2, 3, 4, 5, 10};
		const int64_t *wanted = form == 3 ? swapped : sums;
		CHECK(target.whole[1] == wanted[0] && target.whole[2] == wanted[1] && far[2] == wanted[2]);
		CHECK(target.whole[4] == wanted[3] && target.whole[5] == wanted[4] && target.whole[6] == wanted[5]);
		CHECK(target.whole[0] == 10 && target.whole[3] == 10 && target.whole[7] == 10 && far[1] == 10 && far[3] == 10);
		for (int i = 0; i < 6 && form >= 2; i++)
			EQUAL(old[i], 10);
	}
	/* A read without operands. */
	message.op = FI_ATOMIC_READ;
	message.iov_count = 0;
	EQUAL(fi_fetch_atomicmsg(ep, &message, back, NULL, 2, 0), 0);
	EQUAL(next(world, &world->a, &entry), 1);
	EQUAL(old[0], 1);
	EQUAL(old[5], 10);
	message.iov_count = 2;
	message.op = FI_SUM;
	/* Sides of different length; more runs than announced; one that is refused, told once. */
	runs[3].count = 2;
	EQUAL(fi_atomicmsg(ep, &message, 0), -FI_EINVAL);
	struct fi_rma_ioc many[5] = {{0, 2, 9}, {16, 1, 9}, {24, 1, 9}, {32, 1, 9}, {40, 1, 9}};
	message.rma_iov = many;
	message.rma_iov_count = 5;
	EQUAL(fi_atomicmsg(ep, &message, 0), -FI_EINVAL);
	message.rma_iov_count = 0;
	EQUAL(fi_atomicmsg(ep, &message, 0), -FI_EINVAL);
	message.rma_iov = runs;
	message.rma_iov_count = 4;
	runs[3].count = 3;
	runs[1].key = 11;
	EQUAL(fi_atomicmsg(ep, &message, 0), 0);
	EQUAL(next_error(world, &world->a, &error), 1);
	EQUAL(error.err, FI_ENOKEY);
	nothing(world, &world->a);

	/* One run has more elements than an operation may: nothing of any run is done. */
	static int64_t lots[8192];
	struct fi_ioc much = {lots, 8192};
	struct fi_rma_ioc uneven[] = {{0, 1, 9}, {8, 8191, 9}};

	target.whole[0] = 10;
	for (int i = 0; i < 8192; i++)
		lots[i] = 1;
	message.msg_iov = &much, message.iov_count = 1;
	message.rma_iov = uneven, message.rma_iov_count = 2;
	EQUAL(fi_atomicmsg(ep, &message, 0), -FI_EMSGSIZE);
	nothing(world, &world->a);
	EQUAL(target.whole[0], 10);
	EQUAL(fi_close(&region->fid), 0);
}

/* Exactly once and in order, however many are under way. */
static void many(struct world *world)
{
	enum { MANY = 2000 };
	static int64_t old[MANY];
	struct fi_cq_tagged_entry entry;
	int64_t step = 1;

	target.whole[0] = 0;
	for (int i = 0; i < MANY; i++) {
		double end = now() + PATIENCE;
		ssize_t result;

		while ((result = fi_fetch_atomic(world->a.ep, &step, 1, NULL, &old[i], NULL, world->a.peer, 0, 9,
						 FI_INT64, FI_SUM, NULL)) == -FI_EAGAIN && now() < end)
			turn(world, 0.0001);
		EQUAL(result, 0);
	}
	for (int i = 0; i < MANY; i++)
		EQUAL(next(world, &world->a, &entry), 1);
	EQUAL(target.whole[0], MANY);
	int in_order = 1;
	for (int i = 0; i < MANY; i++)
		in_order &= old[i] == i;
	CHECK(in_order);
}

void test_atomics(void)
{
	struct world world;
	struct fid_mr *region;

	world_open(&world, NULL);
	EQUAL(fi_mr_reg(world.b.domain, &target, sizeof target, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 9, 0,
			&region, NULL), 0);
	for (int type = 0; type < FI_DATATYPE_LAST; type++)
		for (int op = 0; op < FI_ATOMIC_OP_LAST; op++)
			one(&world, type, op);
	/* All integers and floating types but long double have all that makes sense for them. */
	EQUAL(families[0], 12 * 6 + 10 * 2 + 8 * 3);
	EQUAL(families[1], 12 * 7 + 10 * 2 + 8 * 3);
	EQUAL(families[2], 12 * 2 + 10 * 4 + 8 * 1);
	forms(&world);
	several_runs(&world);
	many(&world);
	EQUAL(fi_close(&region->fid), 0);
	world_close(&world);
}
