#include "host.h"
#include "world.h"

#include <stdlib.h>
#include <time.h>

int checks_failed, checks_made;

double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
}

static void must(int result, const char *what)
{
	if (result) {
		printf("%s: %s\n", what, fi_strerror(-result));
		exit(1);
	}
}

struct fi_info *hints_new(void)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		exit(1);
	hints->ep_attr->type = FI_EP_RDM;
	hints->fabric_attr->prov_name = strdup("emp");
	return hints;
}

static void side_open(struct world *world, struct side *side, const struct options *options)
{
	struct fi_av_attr av = {.type = options->av_type, .flags = options->av_flags};
	struct fi_cq_attr cq = options->cq;

	if (cq.format == FI_CQ_FORMAT_UNSPEC)
		cq.format = FI_CQ_FORMAT_TAGGED;
	must(fi_domain(world->fabric, world->info, &side->domain, NULL), "fi_domain");
	must(fi_av_open(side->domain, &av, &side->av, NULL), "fi_av_open");
	must(fi_cq_open(side->domain, &cq, &side->cq, NULL), "fi_cq_open");
	must(fi_endpoint(side->domain, world->info, &side->ep, NULL), "fi_endpoint");
	must(fi_ep_bind(side->ep, &side->av->fid, 0), "binding an AV");
	must(fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | options->tx_bind), "binding a CQ");
	must(fi_ep_bind(side->ep, &side->cq->fid, FI_RECV | options->rx_bind), "binding a CQ");
	if (!options->disabled)
		must(fi_enable(side->ep), "fi_enable");
}

static fi_addr_t insert(struct side *into, struct side *of)
{
	char address[64];
	size_t bytes = sizeof address;
	fi_addr_t number;

	must(fi_getname(&of->ep->fid, address, &bytes), "fi_getname");
	if (fi_av_insert(into->av, address, 1, &number, 0, NULL) != 1)
		must(-FI_EINVAL, "fi_av_insert");
	return number;
}

void world_open(struct world *world, const struct options *options)
{
	static const struct options none;
	struct fi_info *hints = hints_new();

	if (!options)
		options = &none;
	memset(world, 0, sizeof *world);
	host_enter(0);
	hints->caps = options->caps;
	hints->tx_attr->op_flags = options->tx_op_flags;
	hints->rx_attr->op_flags = options->rx_op_flags;
	must(fi_getinfo(API, NULL, NULL, 0, hints, &world->info), "fi_getinfo");
	fi_freeinfo(hints);
	must(fi_fabric(world->info->fabric_attr, &world->fabric, NULL), "fi_fabric");
	host_enter(1);
	side_open(world, &world->b, options);
	host_enter(0);
	side_open(world, &world->a, options);
	world->a.peer = insert(&world->a, &world->b);
	world->b.peer = insert(&world->b, &world->a);
	world->a.self = insert(&world->a, &world->a);
	world->b.self = insert(&world->b, &world->b);
}

static void close_one(struct fid *object, const char *what)
{
	int result = fi_close(object);

	checks_made++;
	if (result) {
		checks_failed++;
		printf("closing %s: %s\n", what, fi_strerror(-result));
	}
}

void world_close(struct world *world)
{
	struct side *sides[] = {&world->a, &world->b};

	for (int i = 0; i < 2; i++) {
		close_one(&sides[i]->ep->fid, "an endpoint");
		close_one(&sides[i]->cq->fid, "a CQ");
		close_one(&sides[i]->av->fid, "an AV");
		close_one(&sides[i]->domain->fid, "a domain");
	}
	close_one(&world->fabric->fid, "the fabric");
	fi_freeinfo(world->info);
}

static void progress(struct world *world)
{
	/* Asking for no entries makes progress and takes none. */
	fi_cq_read(world->a.cq, NULL, 0);
	fi_cq_read(world->b.cq, NULL, 0);
}

ssize_t next(struct world *world, struct side *side, struct fi_cq_tagged_entry *entry)
{
	double end = now() + PATIENCE;
	ssize_t result;

	do {
		progress(world);
		result = fi_cq_read(side->cq, entry, 1);
	} while (result == -FI_EAGAIN && now() < end);
	return result;
}

ssize_t next_error(struct world *world, struct side *side, struct fi_cq_err_entry *entry)
{
	struct fi_cq_tagged_entry good;
	ssize_t result = next(world, side, &good);

	memset(entry, 0, sizeof *entry);
	return result == -FI_EAVAIL ? fi_cq_readerr(side->cq, entry, 0) : result;
}

void turn(struct world *world, double seconds)
{
	double end = now() + seconds;

	while (now() < end)
		progress(world);
}

void nothing(struct world *world, struct side *side)
{
	struct fi_cq_tagged_entry entry;

	turn(world, 0.03);
	EQUAL(fi_cq_read(side->cq, &entry, 1), -FI_EAGAIN);
}
