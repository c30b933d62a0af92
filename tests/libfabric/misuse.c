/* What programs do wrong: the error that the manual names, and one line of the log, which says what it was. The lines are counted by who
 * runs this program (faces/libfabric/tests/conformance.rs), between those that are written here. */
#include "world.h"

/* The next call is wrong in this way. */
static void now_wrong(const char *what)
{
	fprintf(stderr, "misuse: %s\n", what);
}

static void ask(const char *what, const char *node, const char *service, uint64_t flags)
{
	struct fi_info *hints = hints_new(), *info = NULL;

	now_wrong(what);
	EQUAL(fi_getinfo(API, node, service, flags, hints, &info), -FI_ENODATA);
	fi_freeinfo(hints);
}

static void addresses(void)
{
	struct world world;
	char garbage[64];
	fi_addr_t number;

	ask("a host that nobody knows", "no-such-host.invalid", "7", 0);
	ask("a port that is none", "127.0.0.1", "70000", 0);
	ask("a service that nobody knows", "127.0.0.1", "no-such-service", 0);
	ask("another scheme's address", "fi_other://127.0.0.1:7", NULL, 0);
	ask("an address that is not this machine's", "192.0.2.77", "7", FI_SOURCE);
	world_open(&world, NULL);
	memset(garbage, 0xee, sizeof garbage);
	now_wrong("bytes that are no address");
	EQUAL(fi_av_insert(world.a.av, garbage, 1, &number, 0, NULL), 0);
	now_wrong("a host that nobody knows, inserted");
	EQUAL(fi_av_insertsvc(world.a.av, "no-such-host.invalid", "7", &number, 0, NULL), 0);
	now_wrong("end");
	world_close(&world);
}

static int foreign_close(struct fid *fid)
{
	(void)fid;
	return 0;
}

static void other_providers_objects(void)
{
	static struct fi_ops ops = {.size = sizeof ops, .close = foreign_close};
	struct {
		struct fid fid;
		char rest[1024];
	} foreign = {.fid = {.fclass = FI_CLASS_CQ, .ops = &ops}};
	struct fid *fids[] = {&foreign.fid};
	struct fi_info *hints, *info = NULL;
	struct world world;
	struct fid_mr *mr;

	world_open(&world, &(struct options){.disabled = 1});
	now_wrong("another provider's queue, bound to an endpoint");
	EQUAL(fi_ep_bind(world.a.ep, &foreign.fid, FI_TRANSMIT), -FI_EINVAL);
	now_wrong("another provider's queue, waited for");
	EQUAL(fi_trywait(world.fabric, fids, 1), -FI_EINVAL);
	EQUAL(fi_mr_reg(world.a.domain, &foreign, 16, FI_REMOTE_READ, 0, 1, 0, &mr, NULL), 0);
	foreign.fid.fclass = FI_CLASS_EP;
	now_wrong("another provider's endpoint, bound to a region");
	EQUAL(fi_mr_bind(mr, &foreign.fid, 0), -FI_EINVAL);
	foreign.fid.fclass = FI_CLASS_EQ;
	now_wrong("another provider's queue, bound to an address vector");
	EQUAL(world.a.av->fid.ops->bind(&world.a.av->fid, &foreign.fid, 0), -FI_EINVAL);
	foreign.fid.fclass = FI_CLASS_DOMAIN;
	hints = hints_new();
	hints->domain_attr->domain = (struct fid_domain *)&foreign;
	now_wrong("another provider's domain, as a hint");
	EQUAL(fi_getinfo(API, NULL, NULL, 0, hints, &info), -FI_ENODATA);
	hints->domain_attr->domain = NULL;
	fi_freeinfo(hints);
	now_wrong("end");
	EQUAL(fi_close(&mr->fid), 0);
	world_close(&world);
}

static void wrong_order(void)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct world world;
	struct fid_ep *ep;
	struct fid_cq *cq;
	char byte;

	world_open(&world, NULL);
	EQUAL(fi_endpoint(world.a.domain, world.info, &ep, NULL), 0);
	now_wrong("a send before the endpoint is enabled");
	EQUAL(fi_tsend(ep, "x", 1, NULL, world.a.peer, 0, NULL), -FI_EOPBADSTATE);
	now_wrong("a receive before it is enabled");
	EQUAL(fi_recv(ep, &byte, 1, NULL, FI_ADDR_UNSPEC, NULL), -FI_EOPBADSTATE);
	now_wrong("a read before it is enabled");
	EQUAL(fi_read(ep, &byte, 1, NULL, world.a.peer, 0, 0, NULL), -FI_EOPBADSTATE);
	now_wrong("enabled without a queue");
	EQUAL(fi_enable(ep), -FI_ENOCQ);
	EQUAL(fi_ep_bind(ep, &world.a.cq->fid, FI_TRANSMIT | FI_RECV), 0);
	now_wrong("enabled without an address vector");
	EQUAL(fi_enable(ep), -FI_ENOAV);
	EQUAL(fi_cq_open(world.a.domain, &attr, &cq, NULL), 0);
	now_wrong("a second queue of one direction");
	EQUAL(fi_ep_bind(ep, &cq->fid, FI_RECV), -FI_EINVAL);
	EQUAL(fi_ep_bind(ep, &world.a.av->fid, 0), 0);
	EQUAL(fi_enable(ep), 0);
	now_wrong("bound when it is enabled");
	EQUAL(fi_ep_bind(ep, &cq->fid, FI_RECV), -FI_EOPBADSTATE);
	now_wrong("a queue closed before its endpoint");
	EQUAL(fi_close(&world.a.cq->fid), -FI_EBUSY);
	now_wrong("a domain closed before what is open in it");
	EQUAL(fi_close(&world.a.domain->fid), -FI_EBUSY);
	now_wrong("end");
	EQUAL(fi_close(&ep->fid), 0);
	EQUAL(fi_close(&cq->fid), 0);
	world_close(&world);
}

void test_misuse(void)
{
	addresses();
	other_providers_objects();
	wrong_order();
}
