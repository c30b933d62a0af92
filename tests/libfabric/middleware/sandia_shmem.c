/* Sandia OpenSHMEM 1.5's OFI transport with its defaults: one endpoint for its default context and as a target, counters of puts and
 * gets that are bound when it is enabled already, a counter of what others write, and a context of its own for threads. */
#include "job.h"

enum { HEAP = 1 << 20 };
static unsigned char heap[HEAP], data[4096], local[HEAP];

/* Its own endpoint's info: the same that came from fi_getinfo, changed. */
static struct fid_ep *endpoint(struct fid_domain *domain, struct fi_info *info, uint64_t caps, uint64_t tx_caps,
			       uint64_t rx_caps, uint64_t flags)
{
	struct fid_ep *ep;

	info->caps = caps;
	info->mode = info->tx_attr->mode = info->rx_attr->mode = 0;
	info->tx_attr->op_flags = flags;
	info->tx_attr->caps = tx_caps;
	info->rx_attr->caps = rx_caps;
	MUST(fi_endpoint(domain, info, &ep, NULL), 0);
	return ep;
}

void sandia_shmem(struct job *job)
{
	struct fi_info hints = {.caps = FI_RMA | FI_ATOMIC | FI_RMA_EVENT}, *info = NULL;
	struct fi_domain_attr domain_attr = {.data_progress = FI_PROGRESS_AUTO, .resource_mgmt = FI_RM_ENABLED,
					     .mr_mode = FI_MR_RMA_EVENT, .mr_key_size = 1,
					     .threading = FI_THREAD_SAFE};
	struct fi_tx_attr tx_attr = {.op_flags = FI_DELIVERY_COMPLETE, .inject_size = sizeof(long double)};
	struct fi_ep_attr ep_attr = {.type = FI_EP_RDM};
	struct fi_fabric_attr fabric_attr = {0};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq_attr = {0};
	struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq, *own_cq;
	struct fid_cntr *told, *puts, *gets, *own_puts, *own_gets;
	struct fid_mr *heap_mr, *data_mr;
	struct fid_stx *stx;
	char name[128], names[256];
	size_t bytes = sizeof name;
	fi_addr_t other = (fi_addr_t)(1 - job->rank);

	hints.domain_attr = &domain_attr;
	hints.tx_attr = &tx_attr;
	hints.ep_attr = &ep_attr;
	hints.fabric_attr = &fabric_attr;
	MUST(fi_getinfo(FI_VERSION(1, 5), NULL, NULL, 0, &hints, &info), 0);
	HOLDS(info->nic && info->ep_attr->max_msg_size > 0 && info->tx_attr->inject_size >= sizeof(long double));
	info->domain_attr->mr_key_size = 0;
	MUST(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
	MUST(fi_domain(fabric, info, &domain, NULL), 0);
	MUST(fi_av_open(domain, &av_attr, &av, NULL), 0);
	HOLDS(info->domain_attr->max_ep_stx_ctx > 0);
	MUST(fi_stx_context(domain, NULL, &stx, NULL), 0);

	/* The target, which is the default context as well. */
	uint64_t caps = FI_RMA | FI_ATOMIC | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_WRITE | FI_READ | FI_RECV | FI_RMA_EVENT;
	info->ep_attr->tx_ctx_cnt = 0;
	struct fid_ep *ep = endpoint(domain, info, caps, FI_RMA | FI_ATOMIC, caps, 0);
	MUST(fi_ep_bind(ep, &av->fid, 0), 0);
	MUST(fi_cq_open(domain, &cq_attr, &cq, NULL), 0);
	MUST(fi_ep_bind(ep, &cq->fid, FI_SELECTIVE_COMPLETION | FI_TRANSMIT | FI_RECV), 0);
	MUST(fi_enable(ep), 0);
	MUST(fi_cntr_open(domain, &cntr_attr, &told, NULL), 0);
	uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE;
	MUST(fi_mr_reg(domain, heap, HEAP, access, 0, 1, 0, &heap_mr, NULL), 0);
	MUST(fi_mr_reg(domain, data, sizeof data, access, 0, 0, 0, &data_mr, NULL), 0);
	MUST(fi_mr_bind(heap_mr, &told->fid, FI_REMOTE_WRITE), 0);
	MUST(fi_mr_bind(data_mr, &told->fid, FI_REMOTE_WRITE), 0);
	for (enum fi_op op = FI_SUM; op <= FI_BXOR; op++) {
		size_t most = 0;

		MUST(fi_atomicvalid(ep, FI_UINT64, op, &most), 0);
		MUST(fi_compare_atomicvalid(ep, FI_UINT64, FI_CSWAP, &most), 0);
		MUST(fi_fetch_atomicvalid(ep, FI_UINT64, op, &most), 0);
		HOLDS(most > 0);
	}
	MUST(fi_getname(&ep->fid, name, &bytes), 0);
	job_exchange(job, name, bytes, names);
	MUST(fi_av_insert(av, names, 2, NULL, 0, NULL), 2);

	cntr_attr.wait_obj = FI_WAIT_NONE;
	MUST(fi_cntr_open(domain, &cntr_attr, &puts, NULL), 0);
	MUST(fi_cntr_open(domain, &cntr_attr, &gets, NULL), 0);
	/* To an endpoint that is enabled already. */
	MUST(fi_ep_bind(ep, &stx->fid, 0), 0);
	MUST(fi_ep_bind(ep, &puts->fid, FI_WRITE), 0);
	MUST(fi_ep_bind(ep, &gets->fid, FI_READ), 0);

	/* A context for a thread of its own. */
	info->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
	caps = FI_RMA | FI_WRITE | FI_READ | FI_ATOMIC | FI_RECV;
	struct fid_ep *own = endpoint(domain, info, caps, caps, FI_RECV, FI_DELIVERY_COMPLETE);
	cq_attr.format = FI_CQ_FORMAT_CONTEXT;
	MUST(fi_cntr_open(domain, &cntr_attr, &own_puts, NULL), 0);
	MUST(fi_cntr_open(domain, &cntr_attr, &own_gets, NULL), 0);
	MUST(fi_cq_open(domain, &cq_attr, &own_cq, NULL), 0);
	MUST(fi_ep_bind(own, &stx->fid, 0), 0);
	MUST(fi_ep_bind(own, &own_puts->fid, FI_WRITE), 0);
	MUST(fi_ep_bind(own, &own_gets->fid, FI_READ), 0);
	MUST(fi_ep_bind(own, &own_cq->fid, FI_SELECTIVE_COMPLETION | FI_TRANSMIT | FI_RECV), 0);
	MUST(fi_ep_bind(own, &av->fid, 0), 0);
	MUST(fi_enable(own), 0);

	job_barrier(job);
	/* Puts of either context, atomics, and gets. */
	uint64_t one = 1, old = 0, eight = 8;
	job_fill(local, HEAP, job->rank);
	POST(cq, fi_inject_write(ep, &eight, 8, other, 0, 0));
	struct iovec iov = {local, HEAP / 2};
	struct fi_rma_iov there = {0, HEAP / 2, 1};
	struct fi_msg_rma put = {.msg_iov = &iov, .iov_count = 1, .addr = other, .rma_iov = &there, .rma_iov_count = 1};
	POST(cq, fi_writemsg(own, &put, FI_DELIVERY_COMPLETE));
	MUST(fi_cntr_wait(puts, 1, 20000), 0);
	MUST(fi_cntr_wait(own_puts, 1, 20000), 0);
	POST(cq, fi_inject_atomic(ep, &one, 1, other, 8, 0, FI_UINT64, FI_SUM));
	POST(cq, fi_fetch_atomic(own, &one, 1, NULL, &old, NULL, other, 8, 0, FI_UINT64, FI_SUM, NULL));
	/* Quiet, as before each barrier; then what the other has written here: two puts and two atomics. */
	MUST(fi_cntr_wait(puts, 2, 20000), 0);
	MUST(fi_cntr_wait(own_gets, 1, 20000), 0);
	MUST(fi_cntr_wait(told, 4, 20000), 0);
	job_barrier(job);
	HOLDS(*(uint64_t *)data == 8 && *(uint64_t *)(data + 8) == 2 && old <= 1);
	HOLDS(job_is(heap, HEAP / 2, 1 - job->rank));
	POST(cq, fi_read(ep, local, HEAP / 2, NULL, other, 0, 1, NULL));
	MUST(fi_cntr_wait(gets, 1, 20000), 0);
	HOLDS(job_is(local, HEAP / 2, job->rank));
	MUST(fi_cntr_readerr(puts) + fi_cntr_readerr(gets) + fi_cntr_readerr(own_puts) + fi_cntr_readerr(told), 0);
	job_barrier(job);

	/* Before the endpoint that it is bound to. */
	struct fid *all[] = {&own->fid, &own_puts->fid, &own_gets->fid, &own_cq->fid, &stx->fid, &heap_mr->fid, &data_mr->fid, &ep->fid,
			     &puts->fid, &gets->fid, &told->fid, &cq->fid, &av->fid, &domain->fid, &fabric->fid};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		MUST(fi_close(all[i]), 0);
	fi_freeinfo(info);
}
