/* fi_av(3) and fi_getname(3). */
#include "world.h"

static void names(void)
{
	struct world world;
	char name[64], text[200], tiny[8];
	size_t bytes = 0;

	world_open(&world, NULL);
	EQUAL(fi_getname(&world.a.ep->fid, NULL, &bytes), -FI_ETOOSMALL);
	CHECK(bytes > 0 && bytes <= 32);
	size_t needed = bytes;
	bytes = 3;
	EQUAL(fi_getname(&world.a.ep->fid, name, &bytes), -FI_ETOOSMALL);
	EQUAL(bytes, needed);
	bytes = sizeof name;
	EQUAL(fi_getname(&world.a.ep->fid, name, &bytes), 0);
	EQUAL(bytes, needed);

	/* As text, whole and cut. */
	size_t room = sizeof text;
	CHECK(fi_av_straddr(world.a.av, name, text, &room) == text);
	EQUAL(room, strlen(text) + 1);
	CHECK(strlen(text) > 10);
	room = sizeof tiny;
	CHECK(fi_av_straddr(world.a.av, name, tiny, &room) == tiny);
	CHECK(room == strlen(text) + 1 && strlen(tiny) == sizeof tiny - 1);
	world_close(&world);
}

static void one_kind(enum fi_av_type type)
{
	struct world world;
	struct fid_av *av;
	struct fi_av_attr attr = {.type = type, .count = 10};
	char name[64], seen[64];
	size_t bytes = sizeof name;
	fi_addr_t first = 0, again = 0, many[3];
	int errors[3];

	world_open(&world, NULL);
	EQUAL(fi_getname(&world.b.ep->fid, name, &bytes), 0);
	EQUAL(fi_av_open(world.a.domain, &attr, &av, NULL), 0);
	CHECK(attr.type == type);
	EQUAL(fi_av_insert(av, name, 1, &first, 0, NULL), 1);
	EQUAL(fi_av_insert(av, name, 1, &again, 0, NULL), 1);
	EQUAL(again, first);

	size_t room = sizeof seen;
	memset(seen, 0, sizeof seen);
	EQUAL(fi_av_lookup(av, first, seen, &room), 0);
	CHECK(room == bytes && !memcmp(seen, name, bytes));
	room = 4;
	memset(seen, 0, sizeof seen);
	EQUAL(fi_av_lookup(av, first, seen, &room), 0);
	CHECK(room == bytes && !memcmp(seen, name, 4) && seen[4] == 0);
	room = sizeof seen;
	EQUAL(fi_av_lookup(av, 12345, seen, &room), -FI_EINVAL);
	EQUAL(fi_av_lookup(av, FI_ADDR_UNSPEC, seen, &room), -FI_EINVAL);

	/* Inserted twice, removed twice. */
	EQUAL(fi_av_remove(av, &first, 1, 0), 0);
	room = sizeof seen;
	EQUAL(fi_av_lookup(av, first, seen, &room), 0);
	EQUAL(fi_av_remove(av, &first, 1, 0), 0);
	EQUAL(fi_av_lookup(av, first, seen, &room), -FI_EINVAL);
	EQUAL(fi_av_remove(av, &first, 1, 0), -FI_EINVAL);

	/* Several, of which one is no address. */
	char list[3 * 64];
	for (int i = 0; i < 3; i++)
		memcpy(list + i * bytes, name, bytes);
	memset(list + bytes, 0xee, bytes);
	EQUAL(fi_av_insert(av, list, 3, many, FI_SYNC_ERR, errors), 2);
	CHECK(many[0] == many[2] && many[1] == FI_ADDR_NOTAVAIL);
	CHECK(errors[0] == 0 && errors[1] == FI_EINVAL && errors[2] == 0);
	/* Numbers are used again: inserting and removing for ever costs no memory. */
	EQUAL(many[0], first);
	EQUAL(fi_av_insert(av, list, 1, NULL, 0, NULL), 1);
	EQUAL(fi_close(&av->fid), 0);
	world_close(&world);
}

static void events_of_insertions(void)
{
	struct world world;
	struct fid_av *av;
	struct fid_eq *eq;
	struct fi_av_attr attr = {.type = FI_AV_TABLE, .flags = FI_EVENT};
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_NONE};
	struct fi_eq_entry entry;
	char name[64];
	size_t bytes = sizeof name;
	fi_addr_t number;
	uint32_t event;
	int context;

	world_open(&world, NULL);
	EQUAL(fi_getname(&world.b.ep->fid, name, &bytes), 0);
	EQUAL(fi_av_open(world.a.domain, &attr, &av, NULL), 0);
	EQUAL(fi_av_insert(av, name, 1, &number, 0, &context), -FI_ENOEQ);
	EQUAL(fi_eq_open(world.fabric, &eq_attr, &eq, NULL), 0);
	EQUAL(fi_av_bind(av, &eq->fid, 0), 0);
	EQUAL(fi_close(&eq->fid), -FI_EBUSY);
	EQUAL(fi_av_insert(av, name, 1, &number, 0, &context), 0);
	EQUAL(fi_eq_read(eq, &event, &entry, sizeof entry, 0), sizeof entry);
	CHECK(event == FI_AV_COMPLETE && entry.fid == &av->fid && entry.data == 1);
	CHECK(entry.context == &context);
	EQUAL(fi_close(&av->fid), 0);
	EQUAL(fi_close(&eq->fid), 0);
	world_close(&world);
}

/* Of more failures than a queue takes of the program's own events, and a program that reads late: each is told, and the end. */
static void events_of_many_insertions(void)
{
	enum { MANY = 5000, BYTES = 32 };
	static char garbage[MANY][BYTES];
	struct world world;
	struct fid_av *av;
	struct fid_eq *eq;
	struct fi_av_attr attr = {.type = FI_AV_TABLE, .flags = FI_EVENT};
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_NONE};
	struct fi_eq_entry entry = {0};
	struct fi_eq_err_entry error = {0};
	char text[200];
	uint32_t event = 0;
	size_t written = 0;
	ssize_t result;
	int context, told = 0;

	memset(garbage, 0xee, sizeof garbage);
	world_open(&world, NULL);
	EQUAL(fi_eq_open(world.fabric, &eq_attr, &eq, NULL), 0);
	EQUAL(fi_av_open(world.a.domain, &attr, &av, NULL), 0);
	EQUAL(fi_av_bind(av, &eq->fid, 0), 0);
	EQUAL(fi_av_insert(av, garbage, MANY, NULL, 0, &context), 0);
	for (; fi_eq_read(eq, &event, &entry, sizeof entry, 0) == -FI_EAVAIL; told++) {
		EQUAL(fi_eq_readerr(eq, &error, 0), sizeof error);
		if (error.data != (uint64_t)told || error.err != FI_EINVAL || error.context != &context)
			break;
	}
	EQUAL(told, MANY);
	CHECK(event == FI_AV_COMPLETE && entry.data == 0 && entry.context == &context);
	const char *why = fi_eq_strerror(eq, error.prov_errno, error.err_data, text, sizeof text);
	CHECK(!strcmp(why, text) && !strstr(why, "no error") && strstr(why, "address"));
	CHECK(!!strstr(fi_eq_strerror(eq, 0, NULL, NULL, 0), "no error"));

	/* What the program writes itself is bounded; an insertion is told behind it all the same. */
	while (written < 1 << 20 && (result = fi_eq_write(eq, FI_NOTIFY, &entry, sizeof entry, 0)) > 0)
		written++;
	EQUAL(result, -FI_EOVERRUN);
	CHECK(written > 1000 && written < 1 << 20);
	EQUAL(fi_av_insert(av, garbage, 0, NULL, 0, &context), 0);
	for (size_t i = 0; i < written; i++)
		EQUAL(fi_eq_read(eq, &event, &entry, sizeof entry, 0), sizeof entry);
	EQUAL(fi_eq_read(eq, &event, &entry, sizeof entry, 0), sizeof entry);
	EQUAL(event, FI_AV_COMPLETE);
	EQUAL(fi_eq_read(eq, &event, &entry, sizeof entry, 0), -FI_EAGAIN);
	EQUAL(fi_eq_write(eq, FI_NOTIFY, &entry, sizeof entry, 0), sizeof entry);
	EQUAL(fi_close(&av->fid), 0);
	EQUAL(fi_close(&eq->fid), 0);
	world_close(&world);
}

/* A node has no endpoint of these numbers: such an address is garbage, and harms nothing. */
static void of_no_endpoint(void)
{
	static const unsigned numbers[] = {256, 512, 32767, 32768, 65535};
	struct world world;
	struct fi_cq_tagged_entry entry;
	unsigned char name[64];
	size_t bytes = sizeof name;
	char in = 0;

	world_open(&world, NULL);
	EQUAL(fi_getname(&world.b.ep->fid, name, &bytes), 0);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		fi_addr_t number = 0;

		name[8] = numbers[i] >> 8;
		name[9] = numbers[i] & 0xff;
		EQUAL(fi_av_insert(world.a.av, name, 1, &number, 0, NULL), 0);
		CHECK(number == FI_ADDR_NOTAVAIL);
	}
	EQUAL(fi_recv(world.b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
	EQUAL(fi_inject(world.a.ep, "x", 1, world.a.peer), 0);
	EQUAL(next(&world, &world.b, &entry), 1);
	CHECK(in == 'x');
	world_close(&world);
}

/* Whom one has just talked to is nobody once removed, and somebody again once inserted. */
static void removed(void)
{
	struct world world;
	char name[64];
	size_t bytes = sizeof name;
	fi_addr_t again = 0;

	world_open(&world, NULL);
	fi_addr_t peer = world.a.peer;
	EQUAL(fi_getname(&world.b.ep->fid, name, &bytes), 0);
	EQUAL(fi_tinject(world.a.ep, "x", 1, peer, 1), 0);
	EQUAL(fi_trecv(world.a.ep, name, 0, NULL, peer, 1, 0, NULL), 0);
	EQUAL(fi_av_remove(world.a.av, &peer, 1, 0), 0);
	EQUAL(fi_tinject(world.a.ep, "x", 1, peer, 1), -FI_EINVAL);
	EQUAL(fi_trecv(world.a.ep, name, 0, NULL, peer, 1, 0, NULL), -FI_EINVAL);
	EQUAL(fi_av_insert(world.a.av, name, 1, &again, 0, NULL), 1);
	EQUAL(again, peer);
	EQUAL(fi_tinject(world.a.ep, "x", 1, again, 1), 0);
	world_close(&world);
}

void test_addresses(void)
{
	removed();
	names();
	one_kind(FI_AV_MAP);
	one_kind(FI_AV_TABLE);
	events_of_insertions();
	events_of_many_insertions();
	of_no_endpoint();
}
