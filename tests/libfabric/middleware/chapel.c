/* Chapel's comm=ofi: endpoints that send, one that takes active messages, and one that others read and write by, which has a counter
 * and no queue; without a fixed heap all memory is registered at once. */
#include "job.h"

#include <rdma/fi_eq.h>

enum { BYTES = 200000, LARGEST = 1024 };
static unsigned char remote[BYTES], local[BYTES], landing[64 * LARGEST];

void chapel(struct job *job)
{
	struct fi_info *hints = fi_allocinfo();

	hints->caps = FI_MSG | FI_SEND | FI_RECV | FI_MULTI_RECV | FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ |
		      FI_REMOTE_WRITE;
	hints->addr_format = FI_FORMAT_UNSPEC;
	hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE | FI_COMPLETION;
	hints->rx_attr->op_flags = FI_MULTI_RECV | FI_COMPLETION;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->threading = FI_THREAD_UNSPEC;
	hints->domain_attr->av_type = FI_AV_TABLE;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	struct fi_info *info = job_info(FI_VERSION(1, 5), hints);
	struct fi_wait_attr wait_attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE, .count = 4};
	struct fi_cq_attr worker_attr = {.format = FI_CQ_FORMAT_MSG, .size = 100, .wait_obj = FI_WAIT_NONE};
	struct fi_cq_attr rx_attr = {.format = FI_CQ_FORMAT_DATA, .size = 2, .wait_cond = FI_CQ_COND_NONE};
	struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP};
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_wait *wait;
	struct fid_av *av;
	struct fid_ep *worker, *handler, *rx, *rma;
	struct fid_cq *worker_cq, *rx_cq;
	struct fid_cntr *handler_cntr, *rma_cntr;
	struct fid_mr *mr;
	MUST(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
	MUST(fi_domain(fabric, info, &domain, NULL), 0);
	/* It can do without. */
	MUST(fi_wait_open(fabric, &wait_attr, &wait), -FI_ENOSYS);
	HOLDS(info->domain_attr->max_ep_tx_ctx == 1 && info->domain_attr->cntr_cnt > 0 && info->domain_attr->ep_cnt > 2);
	MUST(fi_av_open(domain, &av_attr, &av, NULL), 0);
	struct fid_ep **eps[] = {&worker, &handler, &rx, &rma};
	for (int i = 0; i < 4; i++) {
		MUST(fi_endpoint(domain, info, eps[i], NULL), 0);
		MUST(fi_ep_bind(*eps[i], &av->fid, 0), 0);
		if (i == 0) {
			MUST(fi_cq_open(domain, &worker_attr, &worker_cq, NULL), 0);
			MUST(fi_ep_bind(worker, &worker_cq->fid, FI_TRANSMIT | FI_RECV), 0);
		} else if (i == 1) {
			MUST(fi_cntr_open(domain, &cntr_attr, &handler_cntr, NULL), 0);
			MUST(fi_ep_bind(handler, &handler_cntr->fid, FI_WRITE), 0);
		} else if (i == 2) {
			MUST(fi_cq_open(domain, &rx_attr, &rx_cq, NULL), 0);
			MUST(fi_ep_bind(rx, &rx_cq->fid, FI_TRANSMIT | FI_RECV), 0);
		} else {
			MUST(fi_cntr_open(domain, &cntr_attr, &rma_cntr, NULL), 0);
			MUST(fi_ep_bind(rma, &rma_cntr->fid, FI_TRANSMIT | FI_RECV), 0);
		}
		MUST(fi_enable(*eps[i]), 0);
	}
	size_t bytes = 0;
	char names[128], both[256];
	MUST(fi_getname(&rx->fid, NULL, &bytes), -FI_ETOOSMALL);
	HOLDS(2 * bytes <= sizeof names);
	MUST(fi_getname(&rx->fid, names, &bytes), 0);
	MUST(fi_getname(&rma->fid, names + bytes, &bytes), 0);
	job_exchange(job, names, 2 * bytes, both);
	fi_addr_t numbers[4];
	MUST(fi_av_insert(av, both, 4, numbers, 0, NULL), 4);
	fi_addr_t *other = numbers + 2 * (1 - job->rank);

	MUST(info->domain_attr->mr_mode & MR_BASIC, 0);
	uint64_t access = FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE;
	MUST(fi_mr_reg(domain, (void *)0, SIZE_MAX, access, 0, 0, 0, &mr, NULL), 0);
	uint64_t mine[2] = {fi_mr_key(mr), (uint64_t)(uintptr_t)remote}, places[4];
	job_exchange(job, mine, sizeof mine, places);
	uint64_t *there = places + 2 * (1 - job->rank);

	size_t least = LARGEST;
	MUST(fi_setopt(&rx->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least), 0);
	struct iovec iov = {landing, sizeof landing};
	struct fi_msg receive = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC};
	MUST(fi_recvmsg(rx, &receive, FI_MULTI_RECV), 0);
	job_barrier(job);

	/* A put, an active message that asks for something, and the handler's answer: a put of one byte, which is waited for. */
	struct fi_cq_msg_entry sent;
	struct fi_cq_data_entry got;
	static volatile unsigned char done;
	job_fill(local, BYTES, job->rank);
	POST(worker_cq, fi_write(worker, local, BYTES, NULL, other[1], there[1], there[0], local));
	job_next(worker_cq, &sent);
	HOLDS(sent.op_context == local && (sent.flags & FI_WRITE));
	uint64_t where = (uint64_t)(uintptr_t)&done;
	POST(worker_cq, fi_send(worker, &where, sizeof where, NULL, other[0], &where));
	job_next(rx_cq, &got);
	HOLDS(got.len == sizeof where && job_is(remote, BYTES, 1 - job->rank));
	uint64_t to = *(uint64_t *)got.buf;
	static unsigned char one = 1;
	POST(rx_cq, fi_write(handler, &one, 1, NULL, other[1], to, there[0], NULL));
	MUST(fi_cntr_wait(handler_cntr, 1, 20000), 0);
	job_next(worker_cq, &sent);
	job_arrived(rx_cq, (volatile unsigned char *)&done, 1);
	POST(worker_cq, fi_read(worker, local, BYTES / 2, NULL, other[1], there[1], there[0], local));
	job_next(worker_cq, &sent);
	HOLDS(job_is(local, BYTES / 2, job->rank));
	(void)fi_cntr_read(rma_cntr);
	job_barrier(job);
	struct fid *fids[] = {&mr->fid, &worker->fid, &handler->fid, &rx->fid, &rma->fid, &worker_cq->fid, &rx_cq->fid,
			      &handler_cntr->fid, &rma_cntr->fid, &av->fid, &domain->fid, &fabric->fid};
	for (size_t i = 0; i < sizeof fids / sizeof *fids; i++)
		MUST(fi_close(fids[i]), 0);
	fi_freeinfo(info);
}
