/* Opening, binding, enabling and closing: fi_fabric(3), fi_domain(3), fi_endpoint(3), and what they return out of turn. */
#include "world.h"

static void nothing_is_closed_under_its_users(void)
{
	struct world world;
	struct fid_eq *eq;
	struct fid_cntr *cntr;
	struct fi_eq_attr eq_attr = {0};

	world_open(&world, &(struct options){.disabled = 1});
	EQUAL(fi_eq_open(world.fabric, &eq_attr, &eq, NULL), 0);
	EQUAL(fi_cntr_open(world.a.domain, NULL, &cntr, NULL), 0);
	EQUAL(fi_ep_bind(world.a.ep, &cntr->fid, FI_SEND), 0);
	EQUAL(fi_ep_bind(world.a.ep, &eq->fid, 0), 0);
	EQUAL(fi_enable(world.a.ep), 0);
	EQUAL(fi_enable(world.b.ep), 0);

	EQUAL(fi_close(&world.fabric->fid), -FI_EBUSY);
	EQUAL(fi_close(&world.a.domain->fid), -FI_EBUSY);
	EQUAL(fi_close(&world.a.cq->fid), -FI_EBUSY);
	EQUAL(fi_close(&world.a.av->fid), -FI_EBUSY);
	EQUAL(fi_close(&cntr->fid), -FI_EBUSY);
	EQUAL(fi_close(&eq->fid), -FI_EBUSY);

	/* What was refused has done no harm. */
	char in = 0;
	struct fi_cq_tagged_entry entry;
	EQUAL(fi_recv(world.b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
	EQUAL(fi_send(world.a.ep, "x", 1, NULL, world.a.peer, NULL), 0);
	EQUAL(next(&world, &world.b, &entry), 1);
	CHECK(in == 'x');

	EQUAL(fi_close(&world.a.ep->fid), 0);
	EQUAL(fi_close(&cntr->fid), 0);
	EQUAL(fi_close(&eq->fid), 0);
	EQUAL(fi_close(&world.a.cq->fid), 0);
	EQUAL(fi_close(&world.a.domain->fid), -FI_EBUSY);
	EQUAL(fi_close(&world.a.av->fid), 0);
	EQUAL(fi_close(&world.a.domain->fid), 0);
	EQUAL(fi_close(&world.b.ep->fid), 0);
	EQUAL(fi_close(&world.b.av->fid), 0);
	EQUAL(fi_close(&world.b.cq->fid), 0);
	EQUAL(fi_close(&world.fabric->fid), -FI_EBUSY);
	EQUAL(fi_close(&world.b.domain->fid), 0);
	EQUAL(fi_close(&world.fabric->fid), 0);
	fi_freeinfo(world.info);
}

/* Completion queues, counters, address vectors and transmit contexts are of their endpoint's domain. */
static void what_is_bound_is_of_one_domain(void)
{
	struct world world;
	struct fid_ep *ep;
	struct fid_cntr *cntr;
	struct fid_stx *stx;
	struct fid_mr *mr;
	char byte;

	world_open(&world, NULL);
	EQUAL(fi_endpoint(world.a.domain, world.info, &ep, NULL), 0);
	EQUAL(fi_cntr_open(world.b.domain, NULL, &cntr, NULL), 0);
	EQUAL(fi_stx_context(world.b.domain, NULL, &stx, NULL), 0);
	EQUAL(fi_ep_bind(ep, &world.b.cq->fid, FI_TRANSMIT | FI_RECV), -FI_EINVAL);
	EQUAL(fi_ep_bind(ep, &world.b.av->fid, 0), -FI_EINVAL);
	EQUAL(fi_ep_bind(ep, &stx->fid, 0), -FI_EINVAL);
	EQUAL(fi_ep_bind(ep, &cntr->fid, FI_SEND), -FI_EINVAL);
	EQUAL(fi_mr_reg(world.a.domain, &byte, 1, FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL), 0);
	EQUAL(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE), -FI_EINVAL);
	/* Nothing of it was kept. */
	EQUAL(fi_close(&mr->fid), 0);
	EQUAL(fi_close(&stx->fid), 0);
	EQUAL(fi_close(&cntr->fid), 0);
	EQUAL(fi_ep_bind(ep, &world.a.cq->fid, FI_TRANSMIT | FI_RECV), 0);
	EQUAL(fi_close(&ep->fid), 0);
	world_close(&world);
}

static void endpoints_need_what_they_are_bound_to(void)
{
	struct world world;
	struct fid_ep *ep;
	char byte;

	world_open(&world, NULL);
	struct side *a = &world.a;
	EQUAL(fi_endpoint(a->domain, world.info, &ep, NULL), 0);
	EQUAL(fi_enable(ep), -FI_ENOCQ);
	EQUAL(fi_send(ep, "x", 1, NULL, a->peer, NULL), -FI_EOPBADSTATE);
	EQUAL(fi_recv(ep, &byte, 1, NULL, FI_ADDR_UNSPEC, NULL), -FI_EOPBADSTATE);
	EQUAL(fi_ep_bind(ep, &a->cq->fid, 0), -FI_EBADFLAGS);
	EQUAL(fi_ep_bind(ep, &a->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	EQUAL(fi_ep_bind(ep, &a->cq->fid, FI_RECV), -FI_EINVAL);
	EQUAL(fi_enable(ep), -FI_ENOAV);
	EQUAL(fi_ep_bind(ep, &a->domain->fid, 0), -FI_EINVAL);
	EQUAL(fi_ep_bind(ep, &a->av->fid, 0), 0);
	EQUAL(fi_enable(ep), 0);
	EQUAL(fi_ep_bind(ep, &a->av->fid, 0), -FI_EOPBADSTATE);
	EQUAL(fi_close(&ep->fid), 0);

	/* One that only sends needs no queue for receives. */
	struct fi_info *info = fi_dupinfo(world.info);
	info->caps = FI_MSG | FI_SEND;
	EQUAL(fi_endpoint(a->domain, info, &ep, NULL), 0);
	EQUAL(fi_ep_bind(ep, &a->cq->fid, FI_TRANSMIT), 0);
	EQUAL(fi_ep_bind(ep, &a->av->fid, 0), 0);
	EQUAL(fi_enable(ep), 0);
	EQUAL(fi_recv(ep, &byte, 1, NULL, FI_ADDR_UNSPEC, NULL), -FI_EOPNOTSUPP);
	EQUAL(fi_tsend(ep, "x", 1, NULL, a->peer, 0, NULL), -FI_EOPNOTSUPP);
	EQUAL(fi_close(&ep->fid), 0);

	/* One that writes to memory elsewhere needs one for what it begins; one whose memory others write to needs none. */
	info->caps = FI_RMA | FI_WRITE;
	EQUAL(fi_endpoint(a->domain, info, &ep, NULL), 0);
	EQUAL(fi_ep_bind(ep, &a->av->fid, 0), 0);
	EQUAL(fi_enable(ep), -FI_ENOCQ);
	EQUAL(fi_close(&ep->fid), 0);
	info->caps = FI_RMA | FI_REMOTE_WRITE;
	EQUAL(fi_endpoint(a->domain, info, &ep, NULL), 0);
	EQUAL(fi_ep_bind(ep, &a->av->fid, 0), 0);
	EQUAL(fi_enable(ep), 0);
	EQUAL(fi_close(&ep->fid), 0);

	/* Defaults that were not offered. */
	info->tx_attr->op_flags = FI_FENCE;
	EQUAL(fi_endpoint(a->domain, info, &ep, NULL), -FI_EBADFLAGS);
	info->tx_attr->op_flags = 0;
	info->rx_attr->op_flags = FI_PEEK;
	EQUAL(fi_endpoint(a->domain, info, &ep, NULL), -FI_EBADFLAGS);
	fi_freeinfo(info);
	world_close(&world);
}

static void options_and_flags(void)
{
	struct world world;
	size_t value = 0, bytes = sizeof value;
	uint64_t flags = FI_TRANSMIT;

	world_open(&world, NULL);
	struct fid *ep = &world.a.ep->fid;
	value = 777;
	EQUAL(fi_setopt(ep, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, sizeof value), 0);
	value = 0;
	EQUAL(fi_getopt(ep, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &bytes), 0);
	EQUAL(value, 777);
	bytes = 1;
	EQUAL(fi_getopt(ep, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &bytes), -FI_ETOOSMALL);
	EQUAL(fi_setopt(ep, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, 1), -FI_EINVAL);
	EQUAL(fi_setopt(ep, FI_OPT_ENDPOINT, 12345, &value, sizeof value), -FI_ENOPROTOOPT);
	EQUAL(fi_getopt(ep, 77, FI_OPT_MIN_MULTI_RECV, &value, &bytes), -FI_ENOPROTOOPT);

	flags = FI_TRANSMIT | FI_DELIVERY_COMPLETE;
	EQUAL(fi_control(ep, FI_SETOPSFLAG, &flags), 0);
	flags = FI_TRANSMIT;
	EQUAL(fi_control(ep, FI_GETOPSFLAG, &flags), 0);
	EQUAL(flags, FI_DELIVERY_COMPLETE);
	flags = FI_TRANSMIT | FI_RECV;
	EQUAL(fi_control(ep, FI_GETOPSFLAG, &flags), -FI_EINVAL);
	EQUAL(fi_control(ep, 9999, NULL), -FI_ENOSYS);
	world_close(&world);
}

/* What is not offered says so instead of crashing. */
static void what_is_not_there_says_so(void)
{
	struct world world;
	struct fid_poll *poll;
	struct fid_stx *stx;
	struct fid_ep *ep;
	struct fid_pep *pep;
	struct fid_wait *wait;
	struct fi_wait_attr wait_attr = {.wait_obj = FI_WAIT_FD};

	world_open(&world, NULL);
	EQUAL(fi_poll_open(world.a.domain, NULL, &poll), -FI_ENOSYS);
	EQUAL(fi_stx_context(world.a.domain, NULL, &stx, &stx), 0);
	CHECK(stx->fid.fclass == FI_CLASS_STX_CTX && stx->fid.context == &stx);
	EQUAL(fi_close(&world.a.domain->fid), -FI_EBUSY);
	EQUAL(fi_close(&stx->fid), 0);
	EQUAL(fi_srx_context(world.a.domain, NULL, &ep, NULL), -FI_ENOSYS);
	EQUAL(fi_scalable_ep(world.a.domain, world.info, &ep, NULL), -FI_ENOSYS);
	EQUAL(fi_passive_ep(world.fabric, world.info, &pep, NULL), -FI_ENOSYS);
	EQUAL(fi_wait_open(world.fabric, &wait_attr, &wait), -FI_ENOSYS);
	EQUAL(fi_connect(world.a.ep, NULL, NULL, 0), -FI_ENOSYS);
	EQUAL(fi_listen(NULL == &world ? NULL : (struct fid_pep *)world.a.ep), -FI_ENOSYS);
	EQUAL(fi_shutdown(world.a.ep, 0), -FI_ENOSYS);
	EQUAL(fi_setname(&world.a.ep->fid, NULL, 0), -FI_ENOSYS);
	world_close(&world);
}

static void event_queues(void)
{
	struct world world;
	struct fi_eq_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fid_eq *eq;
	struct fi_eq_entry entry = {.data = 42}, seen;
	struct fi_eq_err_entry error = {0};
	uint32_t event = 0;

	world_open(&world, NULL);
	EQUAL(fi_eq_open(world.fabric, &attr, &eq, NULL), 0);
	EQUAL(fi_eq_read(eq, &event, &seen, sizeof seen, 0), -FI_EAGAIN);
	EQUAL(fi_eq_readerr(eq, &error, 0), -FI_EAGAIN);
	double start = now();
	EQUAL(fi_eq_sread(eq, &event, &seen, sizeof seen, 20, 0), -FI_EAGAIN);
	CHECK(now() - start > 0.015);
	EQUAL(fi_eq_write(eq, FI_NOTIFY, &entry, sizeof entry, 0), sizeof entry);
	EQUAL(fi_eq_read(eq, &event, &seen, sizeof seen, FI_PEEK), sizeof seen);
	memset(&seen, 0, sizeof seen);
	EQUAL(fi_eq_sread(eq, &event, &seen, sizeof seen, 1000, 0), sizeof seen);
	CHECK(event == FI_NOTIFY && seen.data == 42);
	EQUAL(fi_eq_read(eq, &event, &seen, sizeof seen, 0), -FI_EAGAIN);
	EQUAL(fi_close(&eq->fid), 0);
	world_close(&world);
}

void test_objects(void)
{
	nothing_is_closed_under_its_users();
	endpoints_need_what_they_are_bound_to();
	what_is_bound_is_of_one_domain();
	options_and_flags();
	what_is_not_there_says_so();
	event_queues();
}
