/* Flags that mean nothing where they are given, capabilities of the other direction, and entries of programs for old interfaces. */
#include "world.h"

#include <stddef.h>

/* Asks, and closes what should not have been opened. */
static void no_such_flags(void)
{
	struct world world;
	struct options options = {.disabled = 1};
	struct fid_domain *domain = NULL;
	struct fid_ep *ep = NULL;
	struct fid_cq *cq = NULL;
	struct fid_cntr *cntr = NULL;
	struct fid_av *av = NULL;
	struct fid_eq *eq = NULL;
	struct fi_cq_attr cq_attr = {.flags = FI_PEER, .format = FI_CQ_FORMAT_TAGGED};
	struct fi_cntr_attr cntr_attr = {.flags = FI_PEER};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE, .flags = FI_EVENT};
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_NONE};

	world_open(&world, &options);
	EQUAL(fi_domain2(world.fabric, world.info, &domain, FI_PEER, NULL), -FI_EBADFLAGS);
	EQUAL(fi_endpoint2(world.a.domain, world.info, &ep, FI_PEER, NULL), -FI_EBADFLAGS);
	EQUAL(fi_cq_open(world.a.domain, &cq_attr, &cq, NULL), -FI_EBADFLAGS);
	CHECK(!domain && !ep && !cq);
	/* A hint, which may be without effect. */
	cq_attr.flags = FI_AFFINITY;
	EQUAL(fi_cq_open(world.a.domain, &cq_attr, &cq, NULL), 0);
	EQUAL(fi_close(&cq->fid), 0);
	EQUAL(fi_cntr_open(world.a.domain, &cntr_attr, &cntr, NULL), -FI_EBADFLAGS);
	CHECK(!cntr);
	EQUAL(fi_av_open(world.a.domain, &av_attr, &av, NULL), 0);
	eq_attr.flags = FI_PEER;
	EQUAL(fi_eq_open(world.fabric, &eq_attr, &eq, NULL), -FI_EBADFLAGS);
	eq_attr.flags = FI_WRITE | FI_AFFINITY;
	EQUAL(fi_eq_open(world.fabric, &eq_attr, &eq, NULL), 0);
	EQUAL(fi_eq_write(eq, FI_NOTIFY, NULL, 4, 0), -FI_EINVAL);
	EQUAL(fi_av_bind(av, &eq->fid, FI_EVENT), -FI_EBADFLAGS);
	EQUAL(fi_av_bind(av, &eq->fid, 0), 0);
	EQUAL(fi_av_remove(world.a.av, &world.a.self, 1, FI_MORE), -FI_EBADFLAGS);
	EQUAL(fi_av_remove(world.a.av, &world.a.self, 1, 0), 0);
	EQUAL(fi_close(&av->fid), 0);
	EQUAL(fi_close(&eq->fid), 0);
	world_close(&world);
}

/* What no operation may have is not to be set for all of them either, and what was set before stays. */
static void no_such_flags_of_operations(void)
{
	struct world world;
	struct fi_cq_tagged_entry entry;
	static const uint64_t refused[] = {FI_TRANSMIT | FI_FENCE, FI_TRANSMIT | FI_COMMIT_COMPLETE,
					   FI_TRANSMIT | FI_MULTI_RECV, FI_RECV | FI_DELIVERY_COMPLETE};
	char got[16] = "";
	struct iovec iov = {got, sizeof got};
	struct fi_msg_tagged message = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = 3};
	uint64_t flags = FI_TRANSMIT | FI_DELIVERY_COMPLETE;

	world_open(&world, NULL);
	EQUAL(fi_control(&world.a.ep->fid, FI_SETOPSFLAG, &flags), 0);
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		flags = refused[i];
		EQUAL(fi_control(&world.a.ep->fid, FI_SETOPSFLAG, &flags), -FI_EBADFLAGS);
	}
	flags = FI_TRANSMIT;
	EQUAL(fi_control(&world.a.ep->fid, FI_GETOPSFLAG, &flags), 0);
	EQUAL(flags, FI_DELIVERY_COMPLETE);
	/* Of tagged receives it is another capability's, and without that one buffer is one message's. */
	EQUAL(fi_trecvmsg(world.b.ep, &message, FI_MULTI_RECV), -FI_EBADFLAGS);
	/* Without its trigger it would be another operation. */
	EQUAL(fi_trecvmsg(world.b.ep, &message, FI_TRIGGER), -FI_EINVAL);
	message.addr = world.a.peer;
	EQUAL(fi_tsendmsg(world.a.ep, &message, FI_TRIGGER), -FI_EINVAL);
	flags = FI_RECV | FI_MULTI_RECV;
	EQUAL(fi_control(&world.b.ep->fid, FI_SETOPSFLAG, &flags), 0);
	EQUAL(fi_trecv(world.b.ep, got, sizeof got, NULL, FI_ADDR_UNSPEC, 3, 0, NULL), 0);
	EQUAL(fi_tsend(world.a.ep, "x", 1, NULL, world.a.peer, 3, NULL), 0);
	EQUAL(next(&world, &world.b, &entry), 1);
	CHECK(got[0] == 'x' && !(entry.flags & FI_MULTI_RECV));
	EQUAL(next(&world, &world.a, &entry), 1);
	world_close(&world);
}

/* Programs from before each direction had capabilities of its own give both of them all. */
static void capabilities_of_the_other_direction(void)
{
	static const uint64_t receiving = FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_DIRECTED_RECV | FI_MULTI_RECV |
					  FI_SOURCE | FI_RMA_EVENT;
	static const uint64_t sending = FI_SEND | FI_READ | FI_WRITE;
	struct fi_info *hints = hints_new(), *info = NULL;

	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_RMA_EVENT | FI_DIRECTED_RECV | FI_SOURCE | FI_MULTI_RECV;
	hints->tx_attr->caps = hints->caps | receiving | sending;
	hints->rx_attr->caps = hints->caps | receiving | sending;
	EQUAL(fi_getinfo(API, NULL, NULL, 0, hints, &info), 0);
	if (info) {
		EQUAL(info->tx_attr->caps & receiving, 0);
		EQUAL(info->rx_attr->caps & sending, 0);
		fi_freeinfo(info);
	}
	/* What is neither is still refused. */
	hints->tx_attr->caps = FI_MSG | FI_TRIGGER;
	EQUAL(fi_getinfo(API, NULL, NULL, 0, hints, &info), -FI_ENODATA);
	hints->tx_attr->caps = 0;
	hints->rx_attr->caps = FI_MSG | FI_HMEM;
	EQUAL(fi_getinfo(API, NULL, NULL, 0, hints, &info), -FI_ENODATA);
	fi_freeinfo(hints);
}

/* Until 1.5, entries of errors ended before `err_data_size`: what follows them is the program's. */
static void entries_of_errors(uint32_t api, int sized)
{
	struct fi_info *hints = hints_new(), *info = NULL;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av, *telling;
	struct fid_cq *cq;
	struct fid_eq *eq;
	struct fid_ep *ep;
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_NONE};
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {.err_data_size = 4711};
	struct fi_eq_err_entry event = {.err_data_size = 4711};
	struct fi_msg_tagged message = {.addr = FI_ADDR_UNSPEC, .tag = 1};
	uint32_t kind;
	char garbage[256];

	EQUAL(fi_getinfo(api, NULL, NULL, 0, hints, &info), 0);
	fi_freeinfo(hints);
	EQUAL(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
	EQUAL(fi_domain(fabric, info, &domain, NULL), 0);
	EQUAL(fi_av_open(domain, &av_attr, &av, NULL), 0);
	EQUAL(fi_cq_open(domain, &cq_attr, &cq, NULL), 0);
	EQUAL(fi_endpoint(domain, info, &ep, NULL), 0);
	EQUAL(fi_ep_bind(ep, &av->fid, 0), 0);
	EQUAL(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
	EQUAL(fi_enable(ep), 0);
	EQUAL(fi_trecvmsg(ep, &message, FI_PEEK), 0);
	EQUAL(fi_cq_read(cq, &entry, 1), -FI_EAVAIL);
	EQUAL(fi_cq_readerr(cq, &error, 0), 1);
	EQUAL(error.err, FI_ENOMSG);
	EQUAL(error.err_data_size, sized ? 0 : 4711);

	av_attr.flags = FI_EVENT;
	EQUAL(fi_av_open(domain, &av_attr, &telling, NULL), 0);
	EQUAL(fi_eq_open(fabric, &eq_attr, &eq, NULL), 0);
	EQUAL(fi_av_bind(telling, &eq->fid, 0), 0);
	memset(garbage, 0xee, sizeof garbage);
	EQUAL(fi_av_insert(telling, garbage, 1, NULL, 0, NULL), 0);
	EQUAL(fi_eq_read(eq, &kind, &event, sizeof event, 0), -FI_EAVAIL);
	/* The program's own size of the structure. */
	size_t bytes = sized ? sizeof event : offsetof(struct fi_eq_err_entry, err_data_size);
	EQUAL(fi_eq_readerr(eq, &event, 0), bytes);
	EQUAL(event.err, FI_EINVAL);
	EQUAL(event.err_data_size, sized ? 0 : 4711);

	struct fid *fids[] = {&telling->fid, &eq->fid, &ep->fid, &cq->fid, &av->fid, &domain->fid, &fabric->fid};
	for (size_t i = 0; i < sizeof fids / sizeof *fids; i++)
		EQUAL(fi_close(fids[i]), 0);
	fi_freeinfo(info);
}

void test_flags(void)
{
	no_such_flags();
	no_such_flags_of_operations();
	capabilities_of_the_other_direction();
	entries_of_errors(FI_VERSION(1, 4), 0);
	entries_of_errors(FI_VERSION(1, 5), 1);
	entries_of_errors(API, 1);
}
